# SPDX-FileCopyrightText: The Tilery authors
# SPDX-License-Identifier: Apache-2.0
"""A kernel's source: taken when the function is defined, and written anew for the front end.

The front end gets the `def` without what only Python evaluates: decorators, annotations and
computed defaults. Blanks stand in their place, so lines and columns of the body stay.
"""

from __future__ import annotations

import ast
import functools
import inspect
import symtable
import types

from tilery.errors import CompileError


def lines_of(function: types.FunctionType) -> tuple[list[str], int] | None:
    """The lines of the function from its first decorator on, and the number of the first."""
    try:
        return inspect.getsourcelines(function)
    except (OSError, TypeError):
        return None


class Source:
    """Text of a function, without the indentation of its first line, and its syntax tree."""

    def __init__(self, function: types.FunctionType, lines: tuple[list[str], int] | None):
        self.name = function.__name__
        if lines is None:
            raise CompileError(f"the source of kernel '{self.name}' is not available; "
                               "define it in a file")
        self.file = inspect.getsourcefile(function) or function.__code__.co_filename
        self.line = lines[1]
        first = lines[0][0]
        self.indent = len(first) - len(first.lstrip())  # columns that `text` lacks
        self.text = _dedent(lines[0])
        try:
            self.tree = ast.parse(self.text).body[0]
        except SyntaxError as error:
            raise CompileError(f"{self.file}:{self.line}: error: the source of "
                               f"'{self.name}' cannot be taken out: {error}") from None
        if not isinstance(self.tree, ast.FunctionDef):
            raise CompileError(f"{self.file}:{self.line}: error: kernel '{self.name}' is not "
                               "written as a def")

    @functools.cached_property
    def names(self) -> dict[str, list[ast.Name]]:
        """Every outside name that the body reads, with its places."""
        module = symtable.symtable(self.text, self.file, "exec")
        outside = set().union(*(_globals(table) for table in module.get_children()
                                if table.get_name() == self.name))
        found: dict[str, list[ast.Name]] = {}
        for node in self._body():
            if isinstance(node, ast.Name) and node.id in outside:
                found.setdefault(node.id, []).append(node)
        return found

    @functools.cached_property
    def attributes(self) -> list[tuple[tuple[str, ...], ast.Attribute]]:
        """Every `a.b.c` of the body whose `a` is an outside name, as its parts and place."""
        paths = ((_path(node), node) for node in self._body() if isinstance(node, ast.Attribute))
        return [(path, node) for path, node in paths if path and path[0] in self.names]

    def _body(self):
        for statement in self.tree.body:
            yield from ast.walk(statement)

    @functools.cached_property
    def arguments(self) -> dict[str, tuple[ast.arg, ast.expr | None]]:
        """Each parameter with its default expression."""
        given = self.tree.args
        positional = given.posonlyargs + given.args
        missing = len(positional) - len(given.defaults)
        defaults = [None] * missing + given.defaults + given.kw_defaults
        return {arg.arg: (arg, default)
                for arg, default in zip(positional + given.kwonlyargs, defaults)}

    def computed_defaults(self) -> list[str]:
        """Parameters whose default is no literal."""
        return [name for name, (_, default) in self.arguments.items()
                if default is not None and not _is_literal(default)]

    def for_front_end(self, parameters, members) -> tuple[str, int]:
        """The text for the front end and its first line.

        members: pairs of an attribute's node and the name that stands for it.
        """
        text = _Edited(self.text)
        for parameter in parameters:
            argument, _ = self.arguments[parameter.name]
            text.annotation(argument, parameter.constexpr)
        for name in self.computed_defaults():
            text.replace(*text.span(self.arguments[name][1]), default_name(name))
        if self.tree.returns is not None:
            text.result(self.tree.returns)
        for node, name in members:
            text.replace(*text.span(node), name)
        fixed = ", ".join(f'"{p.name}"' for p in parameters if p.do_not_specialize)
        decorator = f"@jit(do_not_specialize=[{fixed}])\n" if fixed else "@jit\n"
        first = self.tree.lineno - 1
        return decorator + "\n".join(text.lines()[first:]), self.line + first - 1

    def error(self, node, text: str, hint: str = "") -> CompileError:
        """An error at `node`, in the form of the front end's."""
        line = self.text.split("\n")[node.lineno - 1]
        at = len(line.encode()[:node.col_offset].decode())
        width = max(1, node.end_col_offset - node.col_offset) if node.end_lineno == node.lineno \
            else len(line) - at
        indent = " " * self.indent
        place = f"{self.file}:{self.line + node.lineno - 1}:{self.indent + at + 1}"
        message = (f"{place}: error: {text}\n"
                   f"{indent}{line}\n{indent}{' ' * at}{'~' * width}")
        return CompileError(message + (f"\nhint: {hint}" if hint else ""))


def default_name(parameter: str) -> str:
    """The name under which the front end finds a computed default."""
    return f"__default_{parameter}"


class _Edited:
    """Text in which parts are replaced. Places of a syntax tree count bytes, so this does too."""

    def __init__(self, text: str):
        self.data = text.encode()
        self.starts = [0]
        for line in self.data.split(b"\n"):
            self.starts.append(self.starts[-1] + len(line) + 1)
        self.edits: list[tuple[int, int, bytes]] = []

    def span(self, node) -> tuple[int, int]:
        return (self.starts[node.lineno - 1] + node.col_offset,
                self.starts[node.end_lineno - 1] + node.end_col_offset)

    def replace(self, begin: int, end: int, new: str) -> None:
        """Puts `new` there, with blanks or line ends so that what follows keeps its place."""
        line_ends = self.data[begin:end].count(b"\n")
        filled = new.encode() + b"\n" * line_ends
        self.edits.append((begin, end, filled if line_ends else filled.ljust(end - begin)))

    def annotation(self, argument: ast.arg, constant: bool) -> None:
        """Removes an annotation, or spells it `constexpr` where it means that."""
        written = argument.annotation
        if written is None or (constant and _last_name(written) == "constexpr"):
            return
        begin = self.span(argument)[0] + len(argument.arg.encode())
        end = self._closed(begin, self.span(written)[1])
        self.replace(begin, end, ": constexpr" if constant else "")

    def result(self, written: ast.expr) -> None:
        begin, end = self.span(written)
        begin = self.data.rindex(b"->", 0, begin)
        self.replace(begin, self._closed(begin, end), "")

    def _closed(self, begin: int, end: int) -> int:
        """`end` behind the parentheses that surround the last expression."""
        while self.data.count(b"(", begin, end) > self.data.count(b")", begin, end):
            end = self.data.index(b")", end) + 1
        return end

    def lines(self) -> list[str]:
        data = self.data
        for begin, end, new in sorted(self.edits, reverse=True):
            data = data[:begin] + new + data[end:]
        return data.decode().split("\n")


def _dedent(lines: list[str]) -> str:
    """Removes the first line's indentation; a comment or a string's line may have less."""
    indent = lines[0][:len(lines[0]) - len(lines[0].lstrip())]
    return "".join(line.removeprefix(indent) for line in lines)


def _globals(table: symtable.SymbolTable) -> set[str]:
    found = {s.get_name() for s in table.get_symbols() if s.is_global() and s.is_referenced()}
    return found.union(*(_globals(child) for child in table.get_children()))


def _path(node: ast.expr) -> tuple[str, ...]:
    if isinstance(node, ast.Name):
        return (node.id,)
    if isinstance(node, ast.Attribute):
        inner = _path(node.value)
        return (*inner, node.attr) if inner else ()
    return ()


def _last_name(node: ast.expr) -> str:
    return getattr(node, "attr", getattr(node, "id", ""))


def _is_literal(node: ast.expr) -> bool:
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        node = node.operand
    return isinstance(node, ast.Constant)
