# SPDX-FileCopyrightText: The Tilery authors
# SPDX-License-Identifier: Apache-2.0
"""Random programs of the kernel language as source text, for the comparison of back ends.

A program loads its inputs under a mask, applies random operations to tiles, reduces or loops,
and stores the results. Values stay small, so that comparisons and conversions are exact or well
conditioned.
"""

from __future__ import annotations

from hypothesis import strategies as st

DTYPES = {"fp32": "float32", "fp16": "float16", "bf16": "bfloat16", "int8": "int8",
          "int16": "int16", "int32": "int32", "int64": "int64", "uint8": "uint8"}
_ARITHMETIC = ["+", "-", "*"]
_BITS = ["&", "|", "^"]
_COMPARE = ["<", "<=", ">", ">=", "==", "!="]


class Program:
    """Source text, the inputs' and the output's types, and sizes."""

    def __init__(self, source, inputs, output, rows, cols, n):
        self.source, self.inputs, self.output = source, inputs, output
        self.rows, self.cols, self.n = rows, cols, n

    def __repr__(self):
        return f"n = {self.n}, inputs {self.inputs}, output {self.output}\n{self.source}"


class _Writer:
    """Writes statements; `tiles` are the names of tiles with their types."""

    def __init__(self, draw):
        self.draw = draw
        self.lines: list[str] = []
        self.tiles: list[tuple[str, str]] = []

    def pick(self, *kinds):
        fitting = [tile for tile in self.tiles if not kinds or tile[1][:1] in kinds]
        return self.draw(st.sampled_from(fitting)) if fitting else None

    def choose(self, options):
        return self.draw(st.sampled_from(options))

    def define(self, expression: str, dtype: str, indent: str = "    ") -> str:
        """A new tile; its type is fixed by a conversion, so that the text says it."""
        name = f"t{len(self.lines)}"
        self.lines.append(f"{indent}{name} = ({expression}).to(tl.{DTYPES[dtype]})")
        self.tiles.append((name, dtype))
        return name


def _clipped(expression: str) -> str:
    return f"tl.minimum(tl.maximum({expression}, -8.0), 8.0)"


def _binary(w: _Writer) -> None:
    (a, ta), (b, tb) = w.pick(), w.pick()
    dtype = w.choose([ta, tb])
    if ta[0] in "iu" and tb[0] in "iu":
        symbol = w.choose(_ARITHMETIC + _BITS)
        w.define(f"{a}.to(tl.{DTYPES[dtype]}) {symbol} {b}.to(tl.{DTYPES[dtype]})", dtype)
    else:
        # Floats are compared after a conversion to float32 and a limit on their size.
        symbol = w.choose(_ARITHMETIC)
        w.define(_clipped(f"{a}.to(tl.float32) {symbol} {b}.to(tl.float32)"), "fp32")


def _unary(w: _Writer) -> None:
    a, ta = w.pick()
    if ta[0] in "iu":
        w.define(w.choose([f"-{a}" if ta[0] == "i" else f"~{a}", f"~{a}", f"{a} >> 1", f"{a} << 1",
                           f"tl.abs({a})"]), ta)
    else:
        function = w.choose(["tl.exp(-tl.abs({}))", "tl.sqrt(tl.abs({}))", "tl.abs({})",
                             "tl.sigmoid({})", "tl.floor({})", "-{}"])
        w.define(function.format(f"{a}.to(tl.float32)"), "fp32")


def _literal(w: _Writer) -> None:
    a, ta = w.pick()
    if ta[0] in "iu":
        w.define(f"{a} {w.choose(_ARITHMETIC)} {w.draw(st.integers(0, 7))}", ta)
    else:
        value = w.choose(["0.5", "1.0", "2", "-1.5"])
        w.define(_clipped(f"{a}.to(tl.float32) {w.choose(_ARITHMETIC)} {value}"), "fp32")


def _select(w: _Writer) -> None:
    integer = w.pick("i", "u")
    a, ta = w.pick()
    b = w.choose([name for name, ty in w.tiles if ty == ta])
    left = integer[0] if integer else f"({a} * 0)"
    w.define(f"tl.where({left} {w.choose(_COMPARE)} {w.draw(st.integers(0, 5))}, {a}, {b})", ta)


def _convert(w: _Writer) -> None:
    a, ta = w.pick("i", "u") or w.pick()
    targets = ["int8", "int16", "int32", "int64", "uint8"] if ta[0] in "iu" else ["fp32"]
    w.define(a, w.choose(targets))


def _reduce(w: _Writer) -> None:
    a, ta = w.pick()
    axis = w.draw(st.integers(0, 1))
    if ta[0] in "iu":
        op = w.choose(["sum", "max", "min", "xor_sum"])
        w.define(f"{a} - tl.{op}({a}.to(tl.int32), axis={axis}, keep_dims=True)", "int32")
    else:
        op = w.choose(["sum", "max", "min"])
        w.define(f"{a}.to(tl.float32) - tl.{op}({a}.to(tl.float32), axis={axis}, keep_dims=True)"
                 " * 0.0625", "fp32")


def _scan(w: _Writer) -> None:
    a, ta = w.pick("i", "u") or w.pick()
    if ta[0] in "iu":
        w.define(f"tl.cumsum({a}.to(tl.int32), axis={w.draw(st.integers(0, 1))})", "int32")


def _transpose(w: _Writer) -> None:
    a, ta = w.pick()
    w.define(f"tl.reshape(tl.trans({a}), (ROWS, COLS))", ta)


def _loop(w: _Writer) -> None:
    a, ta = w.pick("i", "u") or w.pick()
    trips = w.draw(st.integers(0, 3))
    name = f"t{len(w.lines)}"
    w.lines.append(f"    {name} = {a}")
    w.lines.append(f"    for step in range(trips - {3 - trips}):")
    body = f"({name} + step)" if ta[0] in "iu" else f"({name} * 0.5)"
    w.lines.append(f"        {name} = {body}.to(tl.{DTYPES[ta]})")
    w.tiles.append((name, ta))


def _branch(w: _Writer) -> None:
    a, ta = w.pick()
    b = w.choose([name for name, ty in w.tiles if ty == ta])
    name = f"t{len(w.lines)}"
    w.lines.append(f"    if n > {w.draw(st.integers(0, 100))}:")
    w.lines.append(f"        {name} = {a}")
    w.lines.append("    else:")
    w.lines.append(f"        {name} = {b}")
    w.tiles.append((name, ta))


def _dot(w: _Writer) -> None:
    (a, _), (b, _) = w.pick(), w.pick()
    left = f"tl.trans({_clipped(a + '.to(tl.float32)')})"
    product = f"tl.dot({left}, {_clipped(b + '.to(tl.float32)')}, input_precision='ieee')"
    # [COLS, ROWS] x [ROWS, COLS]: one row of it has the extent that broadcasts back.
    w.define(f"{_clipped(a + '.to(tl.float32)')} + tl.sum({product}, axis=0, keep_dims=True)"
             " * 0.015625", "fp32")


def _while(w: _Writer) -> None:
    a, ta = w.pick("i", "u") or w.pick()
    if ta[0] not in "iu":
        return
    name, count = f"t{len(w.lines)}", f"c{len(w.lines)}"
    w.lines.append(f"    {name} = {a}")
    w.lines.append(f"    {count} = n")
    w.lines.append(f"    while {count} > {w.draw(st.integers(1, 9))}:")
    w.lines.append(f"        {name} = ({name} ^ {w.draw(st.integers(1, 7))}).to(tl.{DTYPES[ta]})")
    w.lines.append(f"        {count} = {count} // 3")
    w.tiles.append((name, ta))


def _sort(w: _Writer) -> None:
    a, ta = w.pick("i", "u") or w.pick()
    if ta[0] in "iu":
        w.define(f"tl.sort({a}, descending={w.choose(['True', 'False'])})", ta)


def _gather(w: _Writer) -> None:
    a, ta = w.pick()
    index = w.pick("i")
    if index is not None:
        axis, extent = w.choose([(0, "ROWS"), (1, "COLS")])
        at = f"({index[0]}.to(tl.int32) & ({extent} - 1))"
        w.define(f"tl.gather({a}, {at}, axis={axis})", ta)


_STEPS = [_binary, _binary, _unary, _literal, _select, _convert, _reduce, _scan, _transpose, _loop,
          _branch, _dot, _while, _sort, _gather]


@st.composite
def programs(draw) -> Program:
    """A random program of 2 to 8 steps over tiles of ROWS x COLS."""
    rows, cols = draw(st.sampled_from([(1, 16), (4, 8), (16, 16), (2, 64), (32, 1)]))
    n = draw(st.integers(0, rows * cols))
    inputs = [draw(st.sampled_from(list(DTYPES))) for _ in range(draw(st.integers(1, 3)))]
    w = _Writer(draw)
    for i, dtype in enumerate(inputs):
        other = draw(st.integers(0, 3))
        w.lines.append(f"    x{i} = tl.load(in{i} + at, mask=at < n, other={other})")
        w.tiles.append((f"x{i}", dtype))
    for _ in range(draw(st.integers(2, 8))):
        draw(st.sampled_from(_STEPS))(w)
    name, output = w.tiles[-1]
    parameters = "".join(f"in{i}, " for i in range(len(inputs)))
    source = "\n".join([
        "@ty.jit",
        f"def kernel({parameters}out, n, trips, ROWS: tl.constexpr, COLS: tl.constexpr):",
        "    at = tl.arange(0, ROWS)[:, None] * COLS + tl.arange(0, COLS)[None, :]",
        *w.lines,
        f"    tl.store(out + at, {name}, mask=at < n)", ""])
    return Program(source, inputs, output, rows, cols, n)
