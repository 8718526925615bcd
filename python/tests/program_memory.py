# SPDX-FileCopyrightText: The Tilery authors
# SPDX-License-Identifier: Apache-2.0
"""The steps of random programs (programs.py) that read and write memory: products in loops over
pointer tiles, block pointers and recomputed addresses; stores that other threads load; atomics.

Operands of products are small integers in any type, so that their sums are exact in any order.
"""

from __future__ import annotations

from programs import Writer

_LARGEST_TILE = 64 * 128


def _operands(w: Writer, depth: int, name: str, columns: int) -> tuple[str, str, str]:
    """Arrays [grid * ROWS, depth] and [depth, columns]; their names and the product's type."""
    dtype = w.choose(["bf16", "fp16"] + ([] if w.products else ["fp32", "int8"]))
    w.array(f"a{name}", (w.grid * w.rows, depth), dtype, "integers")
    w.array(f"b{name}", (depth, columns), dtype, "integers")
    return f"a{name}", f"b{name}", "int32" if dtype == "int8" else "float32"


def _depths(w: Writer) -> tuple[int, int]:
    """The whole depth, ends that are no multiple of the step included, and the step."""
    step = w.choose([step for step in (16, 32, 64)
                     if step == 16 or step * max(w.rows, w.cols) <= _LARGEST_TILE])
    w.largest = max(w.largest, step * w.rows, step * w.cols)
    aligned = [step, 2 * step, 3 * step, 5 * step, step + 8]
    return w.choose(aligned + ([] if w.products else [2 * step - 1, 7])), step


def _result(w: Writer, acc: str, sum_type: str) -> None:
    """Stores the product, and makes a tile of it that is small enough for what follows."""
    whole = w.array(f"p{len(w.lines)}", (w.grid * w.rows, w.cols),
                    "int32" if sum_type == "int32" else "fp32", "zeros", True)
    w.add(f"tl.store({whole.name} + at, {acc})")
    if sum_type == "int32":
        w.define(acc, "int32", True)
    else:
        w.define(f"({acc}.to(tl.int32) & 15).to(tl.float32) - 7", "fp32", True)


def _dot_of_pointer_tiles(w: Writer) -> None:
    """for k: load, load, dot, with tiles of pointers that the loop advances."""
    depth, step = _depths(w)
    name = str(len(w.lines))
    a, b, sum_type = _operands(w, depth, name, w.cols)
    w.add(f"k{name} = tl.arange(0, {step})",
          f"pa{name} = {a} + (pid * ROWS + tl.arange(0, ROWS))[:, None] * {depth} + k{name}[None, :]",
          f"pb{name} = {b} + k{name}[:, None] * COLS + tl.arange(0, COLS)[None, :]",
          f"acc{name} = tl.zeros((ROWS, COLS), tl.{sum_type})",
          f"for k in range(0, tl.cdiv({depth}, {step})):",
          f"    left = tl.load(pa{name}, mask=k{name}[None, :] < {depth} - k * {step}, other=0)",
          f"    right = tl.load(pb{name}, mask=k{name}[:, None] < {depth} - k * {step}, other=0)",
          f"    acc{name} = tl.dot(left, right, acc{name}, input_precision='ieee', "
          f"out_dtype=tl.{sum_type})",
          f"    pa{name} += {step}",
          f"    pb{name} += {step} * COLS")
    _result(w, f"acc{name}", sum_type)


def _dot_of_block_pointers(w: Writer) -> None:
    depth, step = _depths(w)
    name = str(len(w.lines))
    a, b, sum_type = _operands(w, depth, name, w.cols)
    w.add(f"qa{name} = tl.make_block_ptr({a}, ({w.grid} * ROWS, {depth}), ({depth}, 1), "
          f"(pid * ROWS, 0), (ROWS, {step}), (1, 0))",
          f"qb{name} = tl.make_block_ptr({b}, ({depth}, COLS), (COLS, 1), (0, 0), ({step}, COLS), (1, 0))",
          f"acc{name} = tl.zeros((ROWS, COLS), tl.{sum_type})",
          f"for k in range(0, {depth}, {step}):",
          f"    left = tl.load(qa{name}, boundary_check=(0, 1), padding_option='zero')",
          f"    right = tl.load(qb{name}, boundary_check=(0, 1), padding_option='zero')",
          f"    acc{name} = tl.dot(left, right, acc{name}, input_precision='ieee', "
          f"out_dtype=tl.{sum_type})",
          f"    qa{name} = tl.advance(qa{name}, (0, {step}))",
          f"    qb{name} = tl.advance(qb{name}, ({step}, 0))")
    _result(w, f"acc{name}", sum_type)


def _dot_with_work_between(w: Writer) -> None:
    """Addresses made anew, a trip count of run time, and arithmetic on operands and sums."""
    depth, step = _depths(w)
    name = str(len(w.lines))
    a, b, sum_type = _operands(w, depth, name, w.cols)
    twist = w.choose(["left", "left + left", "-left"])
    after = w.choose([f"acc{name}", f"acc{name} - step_sum", f"acc{name} * ((k & 1) * 2 - 1)"])
    w.add(f"k{name} = tl.arange(0, {step})",
          f"acc{name} = tl.zeros((ROWS, COLS), tl.{sum_type})",
          f"for k in range(0, tl.minimum(trips, tl.cdiv({depth}, {step}))):",
          f"    kk = k * {step} + k{name}",
          f"    left = tl.load({a} + (pid * ROWS + tl.arange(0, ROWS))[:, None] * {depth} + kk[None, :], "
          f"mask=kk[None, :] < {depth}, other=0)",
          f"    right = tl.load({b} + kk[:, None] * COLS + tl.arange(0, COLS)[None, :], "
          f"mask=kk[:, None] < {depth}, other=0)",
          f"    step_sum = tl.dot(({twist}).to(left.dtype), right, input_precision='ieee', "
          f"out_dtype=tl.{sum_type})",
          f"    acc{name} += step_sum",
          f"    acc{name} = ({after}).to(tl.{sum_type})")
    _result(w, f"acc{name}", sum_type)


def _chained_dots(w: Writer) -> None:
    """acc += (q k) v over blocks of keys; the product in the middle is exact in half precision."""
    name, keys = str(len(w.lines)), w.choose([32, 64, 96, 40, 128, 200])
    step = 64 if w.products else w.choose([16, 32] if w.cols <= 256 else [16])
    w.largest = max(w.largest, step * w.rows, step * w.cols)
    dtype = w.choose(["bf16", "fp16"])
    depth = 16  # times 9: below 256, which a bf16 holds exactly
    w.array(f"q{name}", (w.grid * w.rows, depth), dtype, "integers")
    w.array(f"kt{name}", (depth, keys), dtype, "integers")
    w.array(f"v{name}", (keys, w.cols), dtype, "integers")
    w.add(f"d{name} = tl.arange(0, {depth})",
          f"q = tl.load(q{name} + (pid * ROWS + tl.arange(0, ROWS))[:, None] * {depth} + d{name}[None, :])",
          f"acc{name} = tl.zeros((ROWS, COLS), tl.float32)",
          f"for start in range(0, {keys}, {step}):",
          f"    kk = start + tl.arange(0, {step})",
          f"    keys = tl.load(kt{name} + d{name}[:, None] * {keys} + kk[None, :], "
          f"mask=kk[None, :] < {keys}, other=0)",
          f"    s = tl.dot(q, keys)",
          f"    v = tl.load(v{name} + kk[:, None] * COLS + tl.arange(0, COLS)[None, :], "
          f"mask=kk[:, None] < {keys}, other=0)",
          f"    acc{name} = tl.dot(tl.maximum(s, -100.0).to(v.dtype), v, acc{name})")
    _result(w, f"acc{name}", "float32")


def _sum_of_loads(w: Writer) -> None:
    """A loop that reads all instances' parts of an input in turn."""
    name, source = str(len(w.lines)), w.choose([a for a in w.arrays if a.name.startswith("in")])
    wide = "tl.int32" if source.dtype[0] in "iu" else "tl.float32"
    total = w.grid * w.size
    w.add(f"sum{name} = tl.zeros((ROWS, COLS), {wide})",
          f"for k in range({w.integer(0, 4)}):",
          f"    other_at = (at + k * {w.integer(1, w.size)}) % {total}",
          f"    sum{name} += tl.load({source.name} + other_at, mask=other_at < n, other=0).to({wide})")
    if wide == "tl.int32":
        w.define(f"sum{name}", "int32", True)
    else:
        w.define(f"sum{name} * 0.125", "fp32", False)


def _through_memory(w: Writer) -> None:
    """A tile is stored and loaded in another order: program order within the instance."""
    a = w.pick()
    name = f"tmp{len(w.lines)}"
    w.array(name, (w.grid * w.rows, w.cols), a.dtype, "zeros", True)
    place = w.choose(["ROWS * COLS - 1 - here", f"here ^ {w.integer(0, w.size - 1)}",
                      "(here % COLS) * ROWS + here // COLS"])
    w.add(f"tl.store({name} + at, {a.name})")
    loaded = w.define(f"tl.load({name} + pid * ROWS * COLS + ({place}))", a.dtype, a.exact)
    if w.integer(0, 1):
        w.add(f"tl.store({name} + at, {loaded.name}, mask=at < n)")


def _histogram(w: Writer) -> None:
    """Atomics whose order does not matter, by all instances."""
    a = w.pick(lambda tile: tile.is_int and tile.exact)
    if not a:
        return
    name = f"hist{len(w.lines)}"
    kind, start = w.choose([("add", "zeros"), ("max", "zeros"), ("xor", "zeros"), ("or", "zeros")])
    w.array(name, (32,), "int32", start, True)
    w.add(f"tl.atomic_{kind}({name} + ({a.name}.to(tl.int32) & 31), at + 1, mask=at < n)")


PRODUCTS = [_dot_of_pointer_tiles, _dot_of_pointer_tiles, _dot_of_block_pointers,
            _dot_with_work_between, _chained_dots]
MEMORY_STEPS = [_sum_of_loads, _through_memory, _histogram]
