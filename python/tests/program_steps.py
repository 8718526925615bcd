# SPDX-FileCopyrightText: The Tilery authors
# SPDX-License-Identifier: Apache-2.0
"""The steps of random programs (programs.py) on tiles alone: arithmetic, reductions, control flow."""

from __future__ import annotations

from program_memory import MEMORY_STEPS, PRODUCTS
from programs import DTYPES, Writer

_ARITHMETIC = ["+", "-", "*"]
_BITS = ["&", "|", "^"]
_COMPARE = ["<", "<=", ">", ">=", "==", "!="]
_LARGEST_SORT, _LARGEST_PRODUCT = 1024, 64


def clipped(expression: str) -> str:
    return f"tl.minimum(tl.maximum({expression}, -8.0), 8.0)"


def _wide(tile) -> str:
    return f"{tile.name}.to(tl.float32)"


def _binary(w: Writer) -> None:
    a, b = w.pick(), w.pick()
    if a.is_int and b.is_int:
        dtype = w.choose([a.dtype, b.dtype])
        symbol = w.choose(_ARITHMETIC + _BITS)
        w.define(f"{a.name}.to(tl.{DTYPES[dtype]}) {symbol} {b.name}.to(tl.{DTYPES[dtype]})", dtype,
                 a.exact and b.exact)
    else:
        # A product may be rounded once with a later sum, or by itself.
        w.define(clipped(f"{_wide(a)} {w.choose(_ARITHMETIC)} {_wide(b)}"), "fp32", False)


def _unary(w: Writer) -> None:
    a = w.pick()
    if a.is_int:
        w.define(w.choose([f"-{a.name}" if a.dtype[0] == "i" else f"~{a.name}", f"~{a.name}",
                           f"{a.name} >> 1", f"{a.name} << 1", f"tl.abs({a.name})"]), a.dtype, a.exact)
        return
    functions = ["tl.exp(-tl.abs({}))", "tl.sqrt(tl.abs({}) + 0.25)", "tl.sigmoid({})", "tl.sin({})",
                 "tl.log(tl.abs({}) + 1.0)"]
    same = ["tl.abs({})", "-{}"] + (["tl.floor({})", "tl.ceil({})"] if a.exact else [])
    function = w.choose(functions + same)
    w.define(function.format(_wide(a)), "fp32", a.exact and function in same)


def _literal(w: Writer) -> None:
    a = w.pick()
    if a.is_int:
        w.define(f"{a.name} {w.choose(_ARITHMETIC)} {w.integer(0, 7)}", a.dtype, a.exact)
    else:
        value = w.choose(["0.5", "1.0", "2", "-1.5"])
        w.define(clipped(f"{_wide(a)} {w.choose(_ARITHMETIC)} {value}"), "fp32", False)


def _select(w: Writer) -> None:
    exact = w.pick(lambda tile: tile.exact)
    a = w.pick()
    b = w.like(a)
    left = exact.name if exact else f"({a.name} * 0)"
    w.define(f"tl.where({left} {w.choose(_COMPARE)} {w.integer(0, 5)}, {a.name}, {b.name})", a.dtype,
             a.exact and b.exact)


def _convert(w: Writer) -> None:
    a = w.pick_int() or w.pick()
    targets = ["int8", "int16", "int32", "int64", "uint8"] if a.is_int else ["fp32"]
    w.define(a.name, w.choose(targets), a.exact)


def _to_float(w: Writer) -> None:
    a = w.pick_int()
    if a:
        w.define(f"({a.name} & 7).to(tl.float32) - 3", "fp32", True)


def _reduce(w: Writer) -> None:
    a = w.pick()
    axis = w.integer(0, 1)
    if a.is_int:
        op = w.choose(["sum", "max", "min", "xor_sum"])
        w.define(f"{a.name} - tl.{op}({a.name}.to(tl.int32), axis={axis}, keep_dims=True)", "int32",
                 a.exact)
    else:
        op = w.choose(["sum", "max", "min"])
        scale = 1 / 16 if op != "sum" else 1 / max(16, (w.rows, w.cols)[axis])
        w.define(f"{_wide(a)} - tl.{op}({_wide(a)}, axis={axis}, keep_dims=True) * {scale}", "fp32",
                 False)


def _arg_reduce(w: Writer) -> None:
    a = w.pick(lambda tile: tile.exact)
    if a:
        axis = w.integer(0, 1)
        best = w.name("b")
        w.add(f"{best} = tl.{w.choose(['argmax', 'argmin'])}({a.name}, axis={axis})")
        w.define(f"tl.expand_dims({best}, {axis}) + here * 0", "int32", True)


def _softmax(w: Writer) -> None:
    a = w.pick()
    exponential = w.name("e")
    w.add(f"{exponential} = tl.exp({_wide(a)} - tl.max({_wide(a)}, axis=1, keep_dims=True))")
    w.define(f"{exponential} / tl.sum({exponential}, axis=1, keep_dims=True)", "fp32", False)


def _scan(w: Writer) -> None:
    a = w.pick_int()
    if a:
        w.define(f"tl.cumsum({a.name}.to(tl.int32), axis={w.integer(0, 1)})", "int32", a.exact)


def _transpose(w: Writer) -> None:
    a = w.pick()
    w.define(f"tl.reshape(tl.trans({a.name}), (ROWS, COLS))", a.dtype, a.exact)


def _loop(w: Writer) -> None:
    a = w.pick_int() or w.pick()
    trips = w.integer(0, 3)
    name = w.name()
    body = f"({name} + step)" if a.is_int else f"({name} * 0.5)"
    w.add(f"{name} = {a.name}",
          f"for step in range(trips - {3 - trips}):",
          f"    {name} = {body}.to(tl.{DTYPES[a.dtype]})")
    w.known(name, a.dtype, a.exact and a.is_int)


def _nested(w: Writer) -> None:
    """A branch in a loop in a loop, with a scalar that the loops carry."""
    a = w.pick_int()
    if not a:
        return
    name, count = w.name(), w.name("c")
    w.add(f"{name} = {a.name}",
          f"{count} = 0",
          f"for i in range(trips - {w.integer(0, 3)}):",
          "    for j in range(i + 1):",
          f"        if (i + j + pid) % {w.integer(2, 3)} == 0:",
          f"            {name} = ({name} + {count}).to(tl.{DTYPES[a.dtype]})",
          "        else:",
          f"            {name} = ({name} ^ {w.integer(1, 7)}).to(tl.{DTYPES[a.dtype]})",
          f"        {count} += j + 1")
    w.known(name, a.dtype, a.exact)


def _branch(w: Writer) -> None:
    a = w.pick()
    b = w.like(a)
    name = w.name()
    w.add(f"if n > {w.integer(0, w.grid * w.size)}:",
          f"    {name} = {a.name}",
          "else:",
          f"    {name} = {b.name}")
    w.known(name, a.dtype, a.exact and b.exact)


def _dot(w: Writer) -> None:
    a, b = w.pick(), w.pick()
    if w.cols > _LARGEST_PRODUCT:
        return
    left = f"tl.trans({clipped(_wide(a))})"
    product = f"tl.dot({left}, {clipped(_wide(b))}, input_precision='ieee')"
    # [COLS, ROWS] x [ROWS, COLS]: one row of it has the extent that broadcasts back.
    w.define(f"{clipped(_wide(a))} + tl.sum({product}, axis=0, keep_dims=True) * "
             f"{1 / (64 * max(w.rows, w.cols))}", "fp32", False)


def _while(w: Writer) -> None:
    a = w.pick_int()
    if not a:
        return
    name, count = w.name(), w.name("c")
    w.add(f"{name} = {a.name}",
          f"{count} = n",
          f"while {count} > {w.integer(1, 9)}:",
          f"    {name} = ({name} ^ {w.integer(1, 7)}).to(tl.{DTYPES[a.dtype]})",
          f"    {count} = {count} // 3")
    w.known(name, a.dtype, a.exact)


def _sort(w: Writer) -> None:
    a = w.pick_int()
    if a and w.size <= _LARGEST_SORT:
        w.define(f"tl.sort({a.name}, descending={w.choose(['True', 'False'])})", a.dtype, a.exact)


def _gather(w: Writer) -> None:
    a = w.pick()
    index = w.pick(lambda tile: tile.is_int and tile.exact)
    if index:
        axis, extent = w.choose([(0, "ROWS"), (1, "COLS")])
        at = f"({index.name}.to(tl.int32) & ({extent} - 1))"
        w.define(f"tl.gather({a.name}, {at}, axis={axis})", a.dtype, a.exact)


# What may stand beside products that machines with matrix units hand to warps of their own.
CALM_STEPS = [_binary, _binary, _unary, _literal, _select, _convert, _to_float, _reduce, _arg_reduce,
              _softmax, _scan, _transpose, _loop, _nested, _branch, _gather] + MEMORY_STEPS
STEPS = CALM_STEPS + PRODUCTS + [_dot, _while, _sort]
