# SPDX-FileCopyrightText: The Tilery authors
# SPDX-License-Identifier: Apache-2.0
"""Worlds from the host: spawn, symmetric memory, barriers, failures, signals by the host."""

import numpy as np
import pytest
from kernel_text import make
from test_errors import fails

import tilery as ty


def test_results_in_rank_order(backend):
    assert ty.spawn(lambda: (ty.rank(), ty.num_ranks()), ranks=3) == [(0, 3), (1, 3), (2, 3)]
    assert ty.spawn(lambda a, b: a + b + ty.rank(), ranks=2, args=(10, 5)) == [15, 16]


def test_mesh(backend):
    def body():
        return ty.rank(0), ty.rank(1), ty.num_ranks(0), ty.num_ranks(1)
    assert ty.spawn(body, ranks=6, mesh=[2, 3])[4] == (1, 1, 2, 3)


def test_mesh_inside_a_kernel(backend):
    kernel = make('''@ty.jit
def kernel(out):
    tl.store(out, dl.rank(0))
    tl.store(out + 1, dl.rank(1))
    tl.store(out + 2, dl.num_ranks(1))
    tl.store(out + 3, dl.rank() + dl.num_ranks())
''')

    def body():
        out = np.zeros(4, np.int32)
        kernel[(1,)](out)
        return out.tolist()
    assert ty.spawn(body, ranks=6, mesh=[2, 3])[5] == [1, 2, 3, 11]


def test_symmetric_tensors(backend):
    def body():
        x = ty.zeros((3, 4), "bf16", name="x")
        assert x.shape == (3, 4) and x.strides == (4, 1) and x.nbytes == 24
        assert x.address % 4096 == 0 and not x.numpy().astype(np.float32).any()
        x.numpy()[...] = ty.rank() + 1
        ty.barrier()
        total = sum(float(x.at(r).numpy()[2, 3]) for r in range(ty.num_ranks()))
        ty.barrier()
        x.free()
        with fails(ty.LaunchError, "'x' was freed"):
            x.numpy()
        return total
    assert ty.spawn(body, ranks=4) == [10.0] * 4


def test_empty_and_scalar_tensors(backend):
    def body():
        return ty.zeros((0, 5), "fp32").numpy().shape, ty.empty((), "int64").numpy().shape
    assert ty.spawn(body, ranks=2) == [((0, 5), ())] * 2


def test_dlpack_and_array_protocols(backend):
    def body():
        x = ty.zeros(6, "fp32")
        np.from_dlpack(x)[...] = np.arange(6)
        x[0] = 9
        half = ty.zeros(2, "bf16")
        assert np.asarray(half).dtype == half.dtype.numpy
        assert x.__array_interface__["data"][0] == x.address
        return np.asarray(x).tolist(), len(x), float(x[5])
    assert ty.spawn(body, ranks=1) == [([9, 1, 2, 3, 4, 5], 6, 5.0)]


def test_different_sizes_are_refused(backend):
    with fails(ty.LaunchError, "rank 0", "rank 1", "40", "44"):
        ty.spawn(lambda: ty.zeros(10 + ty.rank(), "fp32", name="shard"), ranks=2)


def test_different_types_are_refused(backend):
    with fails(ty.LaunchError, r"rank 0.*fp32\[8\]", r"rank 1.*int32\[8\]"):
        ty.spawn(lambda: ty.zeros(8, ("fp32", "int32")[ty.rank()], name="x"), ranks=2)
    with fails(ty.LaunchError, r"signal\[8\]", r"uint64\[8\]"):
        ty.spawn(lambda: ty.signals(8, "x") if ty.rank() else ty.zeros(8, "uint64", "x"), ranks=2)
    with fails(ty.LaunchError, r"fp32\[2, 4\]", r"fp32\[4, 2\]"):
        ty.spawn(lambda: ty.zeros([(2, 4), (4, 2)][ty.rank()], "fp32", name="x"), ranks=2)


def test_wrong_shapes_and_types(backend):
    def body():
        assert ty.zeros((np.int64(2), 3), "fp32").shape == (2, 3)
        assert ty.zeros(np.int32(4), "fp32").shape == (4,)
        for shape in (2.5, (2, 2.0), None):
            with fails(ty.LaunchError, "'x' cannot have shape", "whole numbers"):
                ty.zeros(shape, "fp32", name="x")
        with fails(ty.LaunchError, "'x' needs an element type"):
            ty.zeros(4, None, name="x")
        with fails(ty.LaunchError, "'x' of shape", f"{2**63} bytes"):
            ty.zeros((2**31, 2**30), "fp32", name="x")
    ty.spawn(body, ranks=np.int64(1))


def test_views_end_with_their_owner(backend):
    def body():
        x = ty.zeros((2, 4), "fp32", name="x")
        views = [x.reshape(8), x.reshape(4, 2).reshape([8]), x.at(0)]
        with fails(ty.LaunchError, "extents are >= 0"):
            x.reshape(-2, -4)
        with fails(ty.LaunchError, "'x' is a view"):
            views[1].free()
        x.free()
        for view in views:
            with fails(ty.LaunchError, "'x' was freed"):
                view.numpy()
            with fails(ty.LaunchError, "'x' was freed"):
                view.record()
    ty.spawn(body, ranks=1)


def test_negative_extents(backend):
    with fails(ty.LaunchError, "'x' cannot have shape"):
        ty.spawn(lambda: ty.zeros((2, -1), "fp32", name="x"), ranks=1)


def test_a_failing_rank_ends_the_others(backend):
    """The exception of the rank that failed first comes out; nobody waits for ever."""
    def body():
        if ty.rank() == 1:
            raise ValueError("rank 1 is out of ideas")
        ty.barrier()
    with pytest.raises(ValueError, match="rank 1 is out of ideas") as caught:
        ty.spawn(body, ranks=3, timeout=20.0)
    assert caught.value.__notes__ == ["raised on rank 1 of 3"]


def test_spawn_options(backend):
    with fails(ty.ConfigError, "ranks >= 1, not 0"):
        ty.spawn(lambda: None, ranks=0)
    for timeout in (float("nan"), -1, "soon"):
        with fails(ty.ConfigError, f"timeout is {timeout!r}", "number of seconds"):
            ty.spawn(lambda: None, ranks=1, timeout=timeout)
    with fails(ty.ConfigError, "another world"):
        ty.spawn(lambda: ty.spawn(lambda: None, ranks=2), ranks=1)
    with fails(ty.ConfigError, "mesh"):
        ty.spawn(lambda: None, ranks=4, mesh=[3, 2])


def test_a_world_of_one(backend):
    out = np.zeros(2, np.int32)
    make('''@ty.jit
def kernel(out):
    tl.store(out, dl.rank())
    tl.store(out + 1, dl.num_ranks())
''')[(1,)]  # launched below, after ty.init

    def body():
        return ty.rank(), ty.num_ranks()
    assert ty.spawn(body, ranks=1) == [(0, 1)]
    assert out.tolist() == [0, 0]


def test_the_mesh_axis_is_checked(backend):
    with fails(ty.LaunchError, "axis 2", "mesh"):
        ty.spawn(lambda: ty.rank(2), ranks=2)


def test_rank_out_of_range(backend):
    def body():
        return ty.zeros(4, "fp32").at(7)
    with fails(ty.LaunchError, "rank 7 does not exist", "0 to 1"):
        ty.spawn(body, ranks=2)


@pytest.mark.parametrize("seed", [1, 2])
def test_a_seed_gives_one_schedule(backend, seed):
    """The order in which instances of all ranks take numbers repeats with the seed."""
    if backend == "cuda":
        pytest.skip("a world on a device has no seed: the device chooses the schedule (docs/gpu.md)")
    kernel = make('''@ty.jit
def kernel(counter, out):
    tl.store(out + tl.program_id(0), tl.atomic_add(counter, 1))
''')

    def body():
        counter, out = np.zeros(1, np.int32), np.zeros(16, np.int32)
        kernel[(16,)](counter, out)
        return out.tolist()
    orders = [ty.spawn(body, ranks=2, seed=seed) for _ in range(2)]
    assert orders[0] == orders[1]
    assert sorted(orders[0][0]) == list(range(16))
