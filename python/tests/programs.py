# SPDX-FileCopyrightText: The Tilery authors
# SPDX-License-Identifier: Apache-2.0
"""Random programs of the kernel language as source text, for the comparison of back ends.

A program loads its inputs under a mask, applies random operations to tiles, reduces, loops, multiplies
matrices, goes through memory, and stores the results. Values stay small and every function that could
make much of a small difference (rounding to integers, comparing, square roots at 0) is applied
to values that are the same everywhere, so that back ends may differ by their rounding alone.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from backends import numpy_type, random_array

DTYPES = {"fp32": "float32", "fp16": "float16", "bf16": "bfloat16", "int8": "int8",
          "int16": "int16", "int32": "int32", "int64": "int64", "uint8": "uint8"}
SMALL = [(1, 16), (4, 8), (16, 16), (2, 64), (32, 1)]
LARGE = SMALL + [(16, 256), (1, 1024), (256, 1)] + 3 * [(64, 64), (128, 64), (64, 128), (128, 128)]
_TOLERANCE = {"fp32": 2e-4, "fp16": 4e-3, "bf16": 2.0**-6}


class Tile(NamedTuple):
    name: str
    dtype: str
    exact: bool  # the same on every back end

    @property
    def is_int(self) -> bool:
        return self.dtype[0] in "iu"


@dataclass
class Array:
    """An argument: `values` are "normal", "integers" (as floats too: sums are exact) or "zeros"."""
    name: str
    shape: tuple
    dtype: str
    values: str = "normal"
    output: bool = False

    def make(self, rng) -> np.ndarray:
        if self.values == "zeros":
            return np.zeros(self.shape, numpy_type(self.dtype))
        if self.values == "integers":
            return rng.integers(-3, 4, size=self.shape).astype(np.float32).astype(
                numpy_type(self.dtype))
        return random_array(rng, self.shape, self.dtype)


@dataclass
class Program:
    """Source text, arguments in order, and sizes; prints as what reproduces it."""
    source: str
    arrays: list[Array]
    rows: int
    cols: int
    n: int
    grid: int
    largest: int  # elements of a tile

    def arguments(self) -> list[np.ndarray]:
        rng = np.random.default_rng(self.n)
        return [array.make(rng) for array in self.arrays]

    def launch(self, kernel, arrays, **options) -> None:
        kernel[(self.grid,)](*arrays, self.n, 3, ROWS=self.rows, COLS=self.cols, **options)

    def compare(self, actual, expected) -> str:
        """What differs, "" when nothing does."""
        for array, got, wanted in zip(self.arrays, actual, expected):
            if not array.output:
                continue
            rtol = _TOLERANCE.get(array.dtype, 0)
            wide, exact = got.astype(np.float64), wanted.astype(np.float64)
            with np.errstate(invalid="ignore"):
                wrong = ~((np.abs(wide - exact) <= rtol * (1 + np.abs(exact))) | (wide == exact) |
                          (np.isnan(wide) & np.isnan(exact)))
            if wrong.any():
                at = tuple(int(i[0]) for i in np.nonzero(wrong))
                return (f"'{array.name}': {int(wrong.sum())} of {wrong.size} elements differ; first "
                        f"at {at}: got {wide[at]}, expected {exact[at]}")
        return ""

    def __repr__(self):
        listed = ", ".join(f"{a.name} {a.dtype}{list(a.shape)}" for a in self.arrays)
        return (f"grid {self.grid}, n = {self.n}, trips = 3, ROWS = {self.rows}, COLS = {self.cols}; "
                f"{listed}\n{self.source}")


class Choices:
    """Where a program's choices come from: a random number generator."""

    def __init__(self, seed: int):
        self.random = random.Random(seed)

    def choose(self, options):
        return self.random.choice(list(options))

    def integer(self, low: int, high: int) -> int:
        return self.random.randint(low, high)


class Writer:
    """Writes statements; `tiles` are those of ROWS x COLS that have a name."""

    def __init__(self, choices, rows: int, cols: int, grid: int):
        self.choose, self.integer = choices.choose, choices.integer
        self.rows, self.cols, self.grid = rows, cols, grid
        self.lines: list[str] = []
        self.tiles: list[Tile] = []
        self.arrays: list[Array] = []
        self.largest = rows * cols
        self.products = False  # of types and shapes that matrix units take

    @property
    def size(self) -> int:
        return self.rows * self.cols

    def pick(self, fits=lambda tile: True) -> Tile | None:
        fitting = [tile for tile in self.tiles if fits(tile)]
        return self.choose(fitting) if fitting else None

    def pick_int(self) -> Tile | None:
        return self.pick(lambda tile: tile.is_int)

    def like(self, tile: Tile) -> Tile:
        """Another tile of its type, or itself."""
        return self.pick(lambda other: other.dtype == tile.dtype)

    def name(self, prefix: str = "t") -> str:
        return f"{prefix}{len(self.lines)}"

    def add(self, *lines: str) -> None:
        self.lines += ["    " + line for line in lines]

    def define(self, expression: str, dtype: str, exact: bool) -> Tile:
        """A new tile; its type is fixed by a conversion, so that the text says it."""
        return self.known(self.name(), dtype, exact, f"({expression}).to(tl.{DTYPES[dtype]})")

    def known(self, name: str, dtype: str, exact: bool, expression: str | None = None) -> Tile:
        if expression:
            self.add(f"{name} = {expression}")
        self.tiles.append(Tile(name, dtype, exact))
        return self.tiles[-1]

    def array(self, *description, **fields) -> Array:
        self.arrays.append(Array(*description, **fields))
        return self.arrays[-1]


def make_program(choices, shapes=SMALL, steps: int = 8) -> Program:
    """A random program of 2 to `steps` steps over tiles of ROWS x COLS; two of three with large tiles
    are about products."""
    from program_steps import CALM_STEPS, PRODUCTS, STEPS

    rows, cols = choices.choose(shapes)
    grid = choices.integer(1, 3)
    total = grid * rows * cols
    n = choices.integer(0, total)
    w = Writer(choices, rows, cols, grid)
    for i in range(choices.integer(1, 3)):
        dtype = choices.choose(DTYPES)
        w.array(f"in{i}", (grid * rows, cols), dtype)
        w.known(f"x{i}", dtype, True,
                f"tl.load(in{i} + at, mask=at < n, other={choices.integer(0, 3)})")
    w.products = min(rows, cols) >= 64 and choices.integer(0, 2) > 0
    if w.products:
        for _ in range(choices.integer(1, 2)):
            choices.choose(PRODUCTS)(w)
    for _ in range(choices.integer(2, steps)):
        choices.choose(CALM_STEPS if w.products else STEPS)(w)
    result = w.tiles[-1]
    w.array("out", (grid * rows, cols), result.dtype, "zeros", True)
    source = "\n".join([
        "@ty.jit",
        f"def kernel({', '.join(a.name for a in w.arrays)}, n, trips, ROWS: tl.constexpr, "
        "COLS: tl.constexpr):",
        "    pid = tl.program_id(0)",
        "    here = tl.arange(0, ROWS)[:, None] * COLS + tl.arange(0, COLS)[None, :]",
        "    at = pid * ROWS * COLS + here",
        *w.lines,
        f"    tl.store(out + at, {result.name}, mask=at < n)", ""])
    return Program(source, w.arrays, rows, cols, n, grid, w.largest)
