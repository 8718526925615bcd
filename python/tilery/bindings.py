# SPDX-FileCopyrightText: The Tilery authors
# SPDX-License-Identifier: Apache-2.0
"""A kernel's source and the values of the names it uses, in the JSON form of tilery.h."""

from __future__ import annotations

import ast
import enum
import inspect
import math
import textwrap
import types

from tilery.errors import CompileError

_MODULES = ("tilery", "tilery.language", "tilery.language.core", "tilery.language.device",
            "tilery.language.shmem", "tilery.language.libdevice")


# Functions of the kernel language whose result is a pointer made of their first argument.
_POINTER_CALLS = ("make_block_ptr", "make_tensor_descriptor", "advance", "symm_at", "where")


class Source:
    """Text of a function: `text` from its first decorator on, at `line` of `file`."""

    def __init__(self, function: types.FunctionType):
        try:
            lines, self.line = inspect.getsourcelines(function)
        except (OSError, TypeError):
            raise CompileError(f"the source of kernel '{function.__name__}' is not available; "
                               "define it in a file") from None
        self.file = inspect.getsourcefile(function) or function.__code__.co_filename
        self.text = textwrap.dedent("".join(lines))
        try:
            self.tree = ast.parse(self.text).body[0]
        except SyntaxError as error:
            raise CompileError(f"{self.file}:{self.line}: error: the source of "
                               f"'{function.__name__}' cannot be taken out: {error}") from None

    def names(self) -> set[str]:
        """Every name that is read anywhere in the function."""
        return {node.id for node in ast.walk(self.tree)
                if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)}


class Capture:
    """The outside values that a function uses now, so that a later change is noticed."""

    def __init__(self, function: types.FunctionType, names: set[str]):
        cells = dict(zip(function.__code__.co_freevars, function.__closure__ or ()))
        self.values: dict[str, object] = {}
        self.watched = []  # (dict or cell, name, value)
        for name in sorted(names):
            if name in cells:
                source, value = cells[name], cell_value(cells[name])
            elif name in function.__globals__:
                source, value = function.__globals__, function.__globals__[name]
            else:
                continue
            self.values[name] = value
            self.watched.append((source, name, value))


def cell_value(cell):
    """What a closure's cell holds now; None when it is empty."""
    try:
        return cell.cell_contents
    except ValueError:
        return None


def request(kernel, seen: tuple = ()) -> dict:
    """The request of tilery_function_create for a JITFunction."""
    if kernel in seen:
        raise CompileError(f"kernel '{kernel.name}' calls itself; recursion is not supported")
    bindings = {}
    for name, value in kernel.capture.values.items():
        bound = binding(value, seen + (kernel,))
        if bound is not None:
            bindings[name] = bound
    return {"source": kernel.source.text, "file": kernel.source.file, "line": kernel.source.line,
            "name": kernel.name, "bindings": bindings}


def binding(value, seen: tuple = ()) -> dict | None:
    """`value` as a binding, or None when the kernel language has nothing like it."""
    from tilery.kernels import JITFunction
    from tilery.language.dtypes import dtype
    from tilery.language.values import constexpr

    if isinstance(value, constexpr):
        value = value.value
    if value is None:
        return {"none": None}
    if isinstance(value, enum.Enum):
        return {"enum": f"{type(value).__module__}.{type(value).__name__}.{value.name}"}
    if isinstance(value, bool):
        return {"bool": value}
    if isinstance(value, int):
        return {"int": value if abs(value) < 1 << 53 else str(value)}
    if isinstance(value, float):
        return {"float": value if math.isfinite(value) else str(value)}
    if isinstance(value, str):
        return {"str": value}
    if isinstance(value, dtype):
        return {"dtype": value.name}
    if isinstance(value, (tuple, list)):
        parts = [binding(item, seen) for item in value]
        return None if None in parts else {"tuple": parts}
    if isinstance(value, JITFunction):
        return {"jit": request(value, seen)}
    if isinstance(value, types.ModuleType):
        return {"module": value.__name__} if value.__name__ in _MODULES else None
    return _builtin(value)


def _builtin(value) -> dict | None:
    module, name = getattr(value, "__module__", None), getattr(value, "__name__", None)
    if not module or not name or not str(module).startswith("tilery"):
        return None
    if module == "tilery.language.device":
        return {"builtin": f"{module}.{name}"}
    if module.startswith("tilery.language."):
        return {"builtin": f"tilery.language.{name}"}
    return {"builtin": f"tilery.{name}"}


def parameters(function: types.FunctionType, do_not_specialize=()) -> list["Parameter"]:
    signature = inspect.signature(function)
    return [Parameter(p, p.name in do_not_specialize or i in do_not_specialize)
            for i, p in enumerate(signature.parameters.values())]


class Parameter:
    """One parameter of a kernel."""

    def __init__(self, parameter: inspect.Parameter, do_not_specialize: bool):
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            raise CompileError(f"a kernel takes no {parameter}; list its parameters")
        self.name = parameter.name
        self.constexpr = _is_constexpr(parameter.annotation)
        self.has_default = parameter.default is not parameter.empty
        self.default = parameter.default if self.has_default else None
        self.do_not_specialize = do_not_specialize


def _is_constexpr(annotation) -> bool:
    if isinstance(annotation, str):
        return annotation.split(".")[-1] == "constexpr"
    return getattr(annotation, "__name__", "") == "constexpr"


def written_parameters(source: Source, names: list[str]) -> set[str]:
    """Parameters whose memory the function may write: they reach the target of a store,
    an atomic or a copy in its own text (calls to other kernels are not followed)."""
    reaches = {name: {name} for name in names}

    def of(node) -> set[str]:
        found = set()
        for part in ast.walk(node):
            if isinstance(part, ast.Name):
                found |= reaches.get(part.id, set())
        return found

    for _ in range(2):  # twice, for loops that carry a pointer
        for node in ast.walk(source.tree):
            if isinstance(node, ast.Assign):
                for target in node.targets:
                    for part in ast.walk(target):
                        if isinstance(part, ast.Name):
                            before = reaches.get(part.id, set())
                            reaches[part.id] = before | of(_pointer(node.value))
    written = set()
    for node in ast.walk(source.tree):
        if isinstance(node, ast.Call) and node.args:
            called = getattr(node.func, "attr", getattr(node.func, "id", ""))
            if called in ("store", "get", "get_nbi") or called.startswith("atomic_"):
                written |= of(node.args[0])
    return written & set(names)


def _pointer(node):
    """The part of an assigned expression that can be a pointer: not what a load returns."""
    if isinstance(node, ast.Call):
        called = getattr(node.func, "attr", "")
        if called not in _POINTER_CALLS:
            return ast.Constant(0)
        return node.args[0] if node.args else ast.Constant(0)
    if isinstance(node, ast.BinOp):
        return ast.Tuple([_pointer(node.left), _pointer(node.right)], ast.Load())
    return node
