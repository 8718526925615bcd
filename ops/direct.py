# SPDX-FileCopyrightText: The Tilery authors
# SPDX-License-Identifier: Apache-2.0
"""Launches the operators' kernels without their host side, so that tests can run them in the
interpreter and can choose every parameter: chunks, communicating instances, tile order.

A `Workspace` is what one operator keeps between calls on one rank: staging, signals, epochs.
"""

from __future__ import annotations

import importlib

import numpy as np

import tilery as ty
import tilery.language as tl
from tilery.language.dtypes import from_any


def kernels(op: str):
    """The module ops/<op>/<op>.py."""
    return importlib.import_module(f"ops.{op}.{op}")


def accumulator(dtype) -> tl.dtype:
    """The type in which values of `dtype` are added up."""
    element = from_any(dtype)
    if element.is_floating():
        return tl.float64 if element.is_fp64() else tl.float32
    return tl.int32 if element.primitive_bitwidth < 64 else tl.int64


def block(n: int, least: int = 16, most: int = 1024) -> int:
    return max(least, min(most, ty.next_power_of_2(n)))


def _matrix_steps(x) -> list[int]:
    """Strides in elements of [batches, rows, columns]; those of a missing dimension are 0."""
    return [0] * (3 - x.ndim) + _steps(x) if x is not None else [0, 0, 0]


def matmul(a, b, c, tile=(32, 32, 32), group_m=4, *, bias=None, residual=None, scale_a=None,
           scale_b=None, activation="none", rows=None, columns=None, parts=1, whole=0, instances=None):
    """rows, columns: of a tile, below its powers of two; parts: that the steps of each tile behind the
    first `whole` ones are made in."""
    (m, k), n, batches = a.shape[-2:], b.shape[-1], max(a.shape[0] if a.ndim == 3 else 1, 1)
    rows, columns = rows or tile[0], columns or tile[1]
    tiles = ty.cdiv(m, rows) * ty.cdiv(n, columns) * batches
    partials = arrived = None
    if parts > 1:
        partials = np.full(parts * (tiles - whole) * rows * columns, np.nan, np.float32)
        arrived = np.zeros(tiles - whole, np.int32)
    kernels("matmul").matmul[(instances or whole + (tiles - whole) * parts,)](
        a, b, c, bias, residual, scale_a, scale_b, partials, arrived, m, n, k, batches,
        *_matrix_steps(a), *_matrix_steps(b), *_matrix_steps(c), *_matrix_steps(residual),
        0 if scale_a is None else int(scale_a.size > 1),
        0 if scale_b is None else int(scale_b.size > 1), whole, parts,
        ty.cdiv(ty.cdiv(k, tile[2]), parts), BLOCK_M=tile[0], BLOCK_N=tile[1], BLOCK_K=tile[2],
        ROWS=rows, COLUMNS=columns, GROUP_M=group_m, ACC=accumulator(a.dtype), BATCHED=a.ndim == 3,
        SPLIT=parts > 1, BIAS=bias is not None, RESIDUAL=residual is not None,
        SCALED=scale_a is not None, ACTIVATION=activation)
    assert arrived is None or not arrived.any(), "counters are 0 again"


def _on_rows(kernel, arrays, x, y, at_once, *options):
    """Launches one of the kernels that give each instance `at_once` rows."""
    rows, n = x.shape
    kernel[(ty.cdiv(rows, at_once),)](*arrays, rows, n, _steps(x)[0], _steps(y)[0], *options,
                                      ROWS=at_once, BLOCK=block(n), ONCE=n <= block(n),
                                      WHOLE=n % block(n) == 0)


def softmax(x, y, at_once=1):
    _on_rows(kernels("softmax").softmax, (x, y), x, y, at_once)


def rms_norm(x, weight, y, eps=1e-6, at_once=1):
    _on_rows(kernels("rms_norm").rms_norm, (x, weight, y), x, y, at_once, eps)


def layer_norm(x, weight, bias, y, eps=1e-5, at_once=1):
    _on_rows(kernels("layer_norm").layer_norm, (x, weight, bias, y), x, y, at_once, eps)


def attention(q, k, v, out, mask=None, causal=False, scale=None, tile=(16, 16)):
    batch, heads, q_len, head = q.shape
    k_len = k.shape[2]
    steps = [s // x.itemsize for x in (q, k, v, out) for s in x.strides[:3]]
    m_steps, kind = [0, 0, 0, 0], "none"
    if mask is not None:
        full = np.broadcast_to(mask, (batch, heads, q_len, k_len))
        m_steps = [s // mask.itemsize for s in full.strides]
        kind = "keep" if mask.dtype == np.int8 else "add"
    kernels("attention").attention[(ty.cdiv(q_len, tile[0]), batch * heads)](
        q, k, v, mask, out, heads, heads // k.shape[1], q_len, k_len, head,
        head**-0.5 if scale is None else scale, *steps, *m_steps, CAUSAL=causal, MASK=kind,
        BLOCK_Q=tile[0], BLOCK_K=tile[1], BLOCK_D=block(head), EVEN=k_len % tile[1] == 0)


def decode(q, k, v, out, lengths=None, causal=False, splits=1, instances=3, tile=16, pieces=4):
    """q, out: [batch, heads, tokens, head]; tile: keys at a time; pieces: of rows, combined at a time."""
    batch, heads, tokens, head = q.shape
    kv_heads, group = k.shape[1], heads // k.shape[1]
    partials = arrived = None
    if splits > 1:
        partials = np.full(splits * batch * heads * tokens * (head + 2), np.nan, np.float32)
        arrived = np.zeros(batch * kv_heads, np.int32)
    steps = [_steps(x)[:3] for x in (q, k, v, out)]
    kernels("decode").decode[(instances,)](
        q, k, v, lengths, out, partials, arrived, batch * kv_heads * splits, splits, kv_heads,
        k.shape[2], head, head**-0.5, *steps[0], *steps[1], *steps[2], *steps[3], GROUP=group,
        TOKENS=tokens, CAUSAL=causal, BLOCK_R=block(group * tokens), BLOCK_K=tile,
        BLOCK_D=block(head), BLOCK_S=block(splits, 1), BLOCK_P=pieces, PIECE=block(head, most=128))
    assert arrived is None or not arrived.any(), "counters are 0 again"


def swiglu(gate, out, up=None):
    """Without `up`, `gate` holds both side by side."""
    rows, n = out.shape
    up = gate[:, n:] if up is None else up
    blocks = ty.cdiv(n, block(n))
    kernels("swiglu").swiglu[(rows * blocks,)](
        gate, up, out, n, blocks, _steps(gate)[0], _steps(up)[0], _steps(out)[0], BLOCK=block(n),
        WHOLE=n % block(n) == 0)


def rope(q, q_out, cos, sin, k=None, k_out=None, positions=None, interleaved=False, tile=(4, 8)):
    """tile: heads and tokens at a time."""
    batch, heads, tokens, head = q.shape
    k_heads = 0 if k is None else k.shape[1]
    steps = [step for x in (q, q_out, k, k_out)
             for step in ((0, 0, 0) if x is None else _steps(x)[:3])]
    place = [0, 0] if positions is None else ([0] + _steps(positions))[-2:]
    tiles = ty.cdiv(heads, tile[0]) + ty.cdiv(k_heads, tile[0])
    kernels("rope").rope[(ty.cdiv(tokens, tile[1]), tiles, batch)](
        q, q_out, k, k_out, cos, sin, positions, cos.shape[0], tokens, heads, k_heads, head // 2,
        *steps, _steps(cos)[0], _steps(sin)[0], *place, INTERLEAVED=interleaved, BLOCK_H=tile[0],
        BLOCK_T=tile[1], BLOCK_D=block(head // 2, 8))


class Workspace:
    """Staging, signals and epochs of one operator on this rank; collective to make."""

    def __init__(self, dtype, capacity: int, instances: int, *, slots: int = 1, second=None):
        """capacity: elements a rank and buffer; slots: signals for each rank."""
        world = ty.num_ranks()
        self.instances, self.capacity = instances, capacity
        self.stage = ty.empty((2, world * capacity), dtype, name="stage")
        self.entered = ty.signals(world, name="entered")
        self.ready = ty.signals(world * slots, name="ready")
        self.done = ty.signals(world * slots, name="done")
        self.result = ty.empty((2, world * capacity), second or dtype, name="result")
        self.epochs = np.zeros(instances, np.int64)


_shown: dict[int, object] = {}  # by rank


class _Shown:
    """An array that the other ranks, threads of this process, use where it is; of a world on a device it
    is there meanwhile. Collective to make."""

    def __init__(self, array):
        self.array, self.there = array, array
        if getattr(ty.init(), "device", 0) and array.size:
            self.there = ty.empty(array.shape, array.dtype, name="shown")
            self.there.copy_from(array)

    def everyones(self, first: int) -> list:
        """That of all ranks from rank `first` on, and nothing for the rest of the 8 that form direct takes."""
        world = ty.num_ranks()
        _shown[ty.rank()] = self.there
        ty.barrier()
        found = [_shown[(first + i) % world] for i in range(world)]
        ty.barrier()
        return found + [None] * (8 - world)

    def finish(self) -> None:
        if self.there is not self.array:
            self.array[...] = self.there.numpy()
            self.there.free()


def _launch_direct(op: str, ws, shown: list, n: int, *rest, **constants):
    """Form direct of `op`. shown: (array, first rank), its first arguments. n: elements to or from each peer."""
    arrays = [_Shown(array) for array, _ in shown]
    peers = [one for array, (_, first) in zip(arrays, shown) for one in array.everyones(first)]
    getattr(kernels(op), f"{op}_direct")[(ws.instances,)](
        *peers, *rest, RANKS=ty.num_ranks(), BLOCK=block(n // 4, 64), TAIL=64, **constants)
    for array in arrays:
        array.finish()


def all_gather(ws, x, out, form="push", n=None):
    """n: elements of a full shard; by default an equal split of out."""
    n = ty.cdiv(out.size, ty.num_ranks()) if n is None else n
    kernel = getattr(kernels("all_gather"), f"all_gather_{form}")
    if form == "direct":
        return _launch_direct("all_gather", ws, [(out, ty.rank() + 1)], n, x, ws.ready, ws.epochs, n, out.size)
    kernel[(ws.instances,)](x, out, ws.stage, ws.entered, ws.ready, ws.epochs, n, out.size,
                            ws.capacity, BLOCK=block(n))


def reduce_scatter(ws, x, out, form="push"):
    n, world = ty.cdiv(x.size, ty.num_ranks()), ty.num_ranks()
    kernel = getattr(kernels("reduce_scatter"), f"reduce_scatter_{form}")
    if form == "direct":
        return _launch_direct("reduce_scatter", ws, [(x, 0)], n, out, ws.ready, ws.epochs, n, x.size,
                              ACC=accumulator(x.dtype))
    capacity = ws.capacity if form == "push" else ws.capacity * world
    kernel[(ws.instances,)](x, out, ws.stage, ws.entered, ws.ready, ws.epochs, n, x.size,
                            capacity, ACC=accumulator(x.dtype), BLOCK=block(n))


def all_reduce(ws, x, out, form="one_shot"):
    module, constants = kernels("all_reduce"), dict(ACC=accumulator(x.dtype), BLOCK=block(x.size))
    if form == "direct":
        _launch_direct("all_reduce", ws, [(x, 0), (out, ty.rank() + 1)], x.size // ty.num_ranks(),
                       ws.ready, ws.epochs, x.size, ACC=accumulator(x.dtype))
    elif form == "one_shot":
        module.all_reduce_one_shot[(ws.instances,)](
            x, out, ws.stage, ws.entered, ws.ready, ws.epochs, x.size, ws.capacity, **constants)
    else:
        module.all_reduce_two_shot[(ws.instances,)](
            x, out, ws.stage, ws.result, ws.entered, ws.ready, ws.done, ws.epochs, x.size,
            ws.capacity, **constants)


def all_to_all(ws, x, out, form="push"):
    n = x.size // ty.num_ranks()
    kernel = getattr(kernels("all_to_all"), f"all_to_all_{form}")
    if form == "direct":
        return _launch_direct("all_to_all", ws, [(out, ty.rank() + 1)], n, x, ws.ready, ws.epochs, n)
    kernel[(ws.instances,)](x, out, ws.stage, ws.entered, ws.ready, ws.epochs, n, ws.capacity,
                            BLOCK=block(n))


def broadcast(ws, x, out, root, form="push"):
    kernel = getattr(kernels("broadcast"), f"broadcast_{form}")
    if form == "direct":
        return _launch_direct("broadcast", ws, [(out, ty.rank() + 1)], out.size, x, ws.ready, ws.epochs,
                              root, out.size)
    kernel[(ws.instances,)](x, out, ws.stage, ws.entered, ws.ready, ws.epochs, root, out.size,
                            ws.capacity, BLOCK=block(out.size))


class Schedule:
    """What an overlapped product leaves open: who communicates and computes, and how it is cut.

    comm: instances that send (ag_gemm), in `chunks` chunks of a rank's rows; size: rows and columns
    of a tile, below its powers of two; form: of gemm_ar; in_place: ag_gemm reads own rows where they
    are; mixed: own tiles come between those of others (gemm_rs, gemm_ar direct).
    """

    def __init__(self, compute=2, chunks=2, comm=1, tile=(16, 16, 16), size=None, form="two_shot",
                 in_place=True, mixed=True):
        self.compute, self.chunks, self.comm = compute, chunks, comm
        self.tile, self.size, self.form = tile, size or tile[:2], form
        self.in_place, self.mixed = in_place, mixed

    def tiles(self, m: int, n: int) -> int:
        return ty.cdiv(m, self.size[0]) * ty.cdiv(n, self.size[1])

    def constants(self, dtype) -> dict:
        return dict(BLOCK_M=self.tile[0], BLOCK_N=self.tile[1], BLOCK_K=self.tile[2],
                    ROWS=self.size[0], COLUMNS=self.size[1], GROUP_M=2, ACC=accumulator(dtype))


def rows_of(m: int, rank: int, world: int) -> slice:
    """The rows that `rank` owns of m; the last ranks may have fewer, or none."""
    n = ty.cdiv(m, world)
    return slice(min(rank * n, m), min((rank + 1) * n, m))


def _steps(x) -> list[int]:
    return [s // x.itemsize for s in x.strides]


def ag_gemm(ws, a, b, c, schedule, gathered=None):
    m, (k, n) = c.shape[0], b.shape
    rows = ty.cdiv(m, ty.num_ranks())
    kernels("ag_gemm").ag_gemm[(schedule.comm + schedule.compute,)](
        a, b, c, gathered, ws.stage, ws.stage, ws.entered, ws.ready, ws.epochs, a.shape[0], m, n, k, rows,
        ty.cdiv(rows, schedule.chunks), ws.stage.shape[1], *_steps(b), *_steps(c),
        IN_PLACE=schedule.in_place, CHUNKS=schedule.chunks, COMM=schedule.comm, **schedule.constants(a.dtype))


def gemm_rs(ws, a, b, out, schedule):
    (m, k), n = a.shape, b.shape[1]
    rows = ty.cdiv(m, ty.num_ranks())
    kernels("gemm_rs").gemm_rs[(schedule.compute,)](
        a, b, out, ws.stage, ws.entered, ws.ready, ws.epochs, m, n, k,
        rows, out.shape[0], ws.stage.shape[1], *_steps(a), *_steps(b), *_steps(out),
        RANKS=ty.num_ranks(), MIXED=schedule.mixed, SHARED=rows < schedule.size[0], KIND=from_any(ws.stage.dtype),
        **schedule.constants(a.dtype))


def gemm_ar(ws, a, b, out, schedule):
    (m, k), n, world, rank = a.shape, b.shape[1], ty.num_ranks(), ty.rank()
    rows = ty.cdiv(m, world)
    steps = [*_steps(a), *_steps(b), *_steps(out)]
    constants = dict(KIND=from_any(ws.stage.dtype), **schedule.constants(a.dtype))
    if schedule.form == "one_shot":
        kernels("gemm_ar").gemm_ar_one_shot[(schedule.compute,)](
            a, b, out, ws.stage, ws.entered, ws.ready, ws.epochs, m, n, k, ws.stage.shape[1], *steps,
            **constants)
    elif schedule.form == "direct":
        shown = _Shown(out)
        kernels("gemm_ar").gemm_ar_direct[(schedule.compute,)](
            *shown.everyones(rank + 1), a, b, ws.stage, ws.entered, ws.ready, ws.done, ws.epochs, m, n, k, rows,
            min((rank + 1) * rows, m), ws.stage.shape[1], *steps, RANKS=world, MIXED=schedule.mixed, **constants)
        shown.finish()
    else:
        kernels("gemm_ar").gemm_ar_two_shot[(schedule.compute,)](
            a, b, out, ws.stage, ws.result, ws.entered, ws.ready, ws.done, ws.epochs, m, n, k, rows,
            ws.stage.shape[1], ws.result.shape[1], *steps, **constants)
