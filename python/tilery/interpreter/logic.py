# SPDX-FileCopyrightText: The Tilery authors
# SPDX-License-Identifier: Apache-2.0
"""`and`, `or`, `not` and chained comparisons of interpreted kernels, which Python would decide itself.

A function that has them is compiled anew from its syntax tree, with calls of this module in their
place; lines, columns and names stay, so that a debugger shows the user's source. The rules are
Triton's: of two run-time values the result is int1, elementwise; a constant decides or drops out. A
scalar on the left also decides whether calls on the right run, as in compiled kernels.
"""

from __future__ import annotations

import ast
import types

from tilery.language import dtypes as dt
from tilery.language.values import as_tensor, cast, plain, tensor


def _truth(value) -> tensor:
    return cast(as_tensor(value), dt.int1)


def decides(value, is_and: bool) -> bool:
    """Whether `value` is a constant after which the rest does not matter."""
    return not isinstance(value, tensor) and bool(plain(value)) != is_and


def skips(value, is_and: bool) -> bool:
    """Whether `value` is a run-time scalar after which calls must not run."""
    return isinstance(value, tensor) and not value.shape and bool(value) != is_and


def join(left, right, is_and: bool):
    """The result of both operands; `left` does not decide."""
    if not isinstance(left, tensor):
        return right
    if not isinstance(right, tensor):
        return left if bool(plain(right)) == is_and else right
    return logic(left, right, is_and)


def logic(left, right, is_and: bool):
    """The same where the right side has calls."""
    if not isinstance(left, tensor):
        return right
    if left.shape and not isinstance(right, tensor):
        return join(left, right, is_and)
    return _truth(left) & _truth(right) if is_and else _truth(left) | _truth(right)


def skipped(is_and: bool) -> tensor:
    return _truth(not is_and)


def negate(value):
    return ~_truth(value) if isinstance(value, tensor) else not plain(value)


def chain(*links):
    """Whether all comparisons of a chain hold."""
    result = links[0]
    for link in links[1:]:
        if isinstance(result, tensor) or isinstance(link, tensor):
            result = _truth(result) & _truth(link)
        else:
            result = result and link
    return result


FUNCTIONS = {f"__tilery_{function.__name__}": function
             for function in (decides, skips, join, logic, skipped, negate, chain)}


class _Rewriter(ast.NodeTransformer):
    def __init__(self):
        self.changed = False
        self.values = 0

    def _call(self, name: str, *arguments) -> ast.expr:
        self.changed = True
        return ast.Call(ast.Name(f"__tilery_{name}", ast.Load()), list(arguments), [])

    def _kept(self, value: ast.expr) -> tuple[ast.expr, ast.expr]:
        """An expression that keeps `value`, and one that reads it again."""
        self.values += 1
        name = f"__tilery_value_{self.values}"
        return ast.NamedExpr(ast.Name(name, ast.Store()), value), ast.Name(name, ast.Load())

    def visit_BoolOp(self, node: ast.BoolOp) -> ast.expr:
        is_and = ast.Constant(isinstance(node.op, ast.And))
        result = self.visit(node.values[0])
        for operand in node.values[1:]:
            keep, value = self._kept(result)
            rest = self.visit(operand)
            if _has_call(operand):
                rest = ast.IfExp(self._call("skips", value, is_and), self._call("skipped", is_and),
                                 self._call("logic", value, rest, is_and))
            else:
                rest = self._call("join", value, rest, is_and)
            result = ast.IfExp(self._call("decides", keep, is_and), value, rest)
        return _placed(result, node)

    def visit_UnaryOp(self, node: ast.UnaryOp) -> ast.expr:
        self.generic_visit(node)
        return _placed(self._call("negate", node.operand), node) if isinstance(node.op, ast.Not) \
            else node

    def visit_Compare(self, node: ast.Compare) -> ast.expr:
        self.generic_visit(node)
        if len(node.ops) == 1:
            return node
        links, left = [], node.left
        for at, (operator, right) in enumerate(zip(node.ops, node.comparators)):
            keep, value = self._kept(right) if at + 1 < len(node.ops) else (right, None)
            links.append(_placed(ast.Compare(left, [operator], [keep]), node))
            left = value
        return _placed(self._call("chain", *links), node)

    def visit_comprehension(self, node: ast.comprehension) -> ast.comprehension:
        node.ifs = [self.visit(condition) for condition in node.ifs]
        return node  # Python keeps no values in what is iterated over

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.FunctionDef:
        node.body = [self.visit(statement) for statement in node.body]
        return node


def _placed(new: ast.expr, old: ast.expr) -> ast.expr:
    for node in ast.walk(new):
        if isinstance(node, ast.expr) and not hasattr(node, "lineno"):
            ast.copy_location(node, old)
    return new


def _has_call(node: ast.expr) -> bool:
    return any(isinstance(part, (ast.Call, ast.IfExp)) for part in ast.walk(node))


def rewritten(kernel) -> types.CodeType:
    """The code of a ty.jit function, with these rules for its logic."""
    code = kernel.fn.__code__
    try:
        tree = ast.parse(kernel.source.text).body[0]
    except Exception:  # no source: the front end would refuse it, plain Python may still run
        return code
    rewriter = _Rewriter()
    tree = rewriter.visit(tree)
    if not rewriter.changed:
        return code
    tree.decorator_list, tree.returns = [], None
    arguments = tree.args
    arguments.defaults, arguments.kw_defaults = [], [None] * len(arguments.kwonlyargs)
    for argument in ast.walk(arguments):
        if isinstance(argument, ast.arg):
            argument.annotation = None
    _move(tree, kernel.source)
    return _compiled(tree, code)


def _move(tree: ast.FunctionDef, source) -> None:
    """To the lines and columns of the user's file."""
    for node in ast.walk(tree):
        if hasattr(node, "lineno"):
            node.lineno += source.line - 1
            node.end_lineno += source.line - 1
            node.col_offset += source.indent
            node.end_col_offset += source.indent


def _compiled(tree: ast.FunctionDef, original: types.CodeType) -> types.CodeType:
    """Code that has the original's free variables, which a surrounding function provides."""
    empty = ast.arguments(posonlyargs=[], args=[], kwonlyargs=[], kw_defaults=[], defaults=[])
    outside: list[ast.stmt] = [ast.Assign([ast.Name(name, ast.Store())], ast.Constant(None))
                               for name in original.co_freevars]
    outer = ast.FunctionDef("__tilery_outer", empty, [*outside, tree], [])
    module = ast.fix_missing_locations(ast.Module([outer], []))
    code = compile(module, original.co_filename, "exec", dont_inherit=True,
                   flags=original.co_flags & _FUTURES)
    for name in ("__tilery_outer", tree.name):
        code = next(part for part in code.co_consts
                    if isinstance(part, types.CodeType) and part.co_name == name)
    return code


_FUTURES = 0x1000000  # from __future__ import annotations
