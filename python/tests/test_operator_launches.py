# SPDX-FileCopyrightText: The Tilery authors
# SPDX-License-Identifier: Apache-2.0
"""What operators launch on a device with warps, seen by a driver that records launches."""

import importlib
from pathlib import Path

import pytest
from test_devices import fake

import tilery as ty

SHOW = '''
        def show(count):
            for at in range(fake.fake_cuda_launch_count() - count, fake.fake_cuda_launch_count()):
                launch = fake.fake_cuda_launch_at(at)
                print(launch.kernel.decode(), launch.threads, *launch.grid)

        def arrays(*shapes, kind="bf16"):
            return [ty.zeros(shape, kind, device="cuda") for shape in shapes]

        class Part:
            """Elements of memory from one of them on, as another library's array."""
            def __init__(self, x, shape, first=0):
                size = x.dtype.itemsize
                self.shape, self.strides = shape, np.empty(shape, f"f{size}").strides
                address = x.address + first * size if 0 not in shape else 0
                self.__cuda_array_interface__ = dict(shape=shape, typestr=f"<f{size}", version=3,
                                                     data=(address, False))
'''


def launches(code: str) -> list[str]:
    """Nothing is measured, which would be launched as well."""
    return fake(SHOW + code, TILERY_CALIBRATION="off").splitlines()


@pytest.mark.parametrize("rows,n,threads,instances", [
    (3, 100, 32, 3), (3, 4096, 128, 3), (3, 8192, 256, 3), (3, 32768, 512, 3), (300, 32768, 512, 264), (3, 50000, 256, 3),
    (100_000, 128, 64, 6250), (3000, 128, 32, 750), (5000, 2048, 64, 5000)])
def test_rows(rows, n, threads, instances):
    assert launches(f'''
        x, weight, y = arrays(({rows}, {n}), {n}, ({rows}, {n}))
        ty.ops.softmax(x, y)
        ty.ops.rms_norm(x, weight, y)
        ty.ops.layer_norm(x, y)
        show(3)
    ''') == [f"{name} {threads} {instances} 1 1" for name in ("softmax", "rms_norm", "layer_norm")]


@pytest.mark.parametrize("m,n,k,kind,launched", [
    (8192, 8192, 8192, "bf16", "384 132"),    # more tiles than processors
    (512, 5120, 8192, "bf16", "384 108"),     # 4 x 27 tiles of 192 columns
    (64, 5120, 25600, "bf16", "256 80"),      # 40 tiles in two parts
    (16, 5120, 25600, "bf16", "256 80"),      # 16 of 64 rows
    (512, 1000, 512, "fp32", "128 128"), (100, 1000, 513, "bf16", "256 8")])
def test_matmul(m, n, k, kind, launched):
    assert launches(f'''
        a, b, c = arrays(({m}, {k}), ({k}, {n}), ({m}, {n}), kind="{kind}")
        ty.ops.matmul(a, b, c)
        show(1)
    ''') == [f"matmul {launched} 1 1"]


def test_attention():
    """Consumer warps and a group of four that copies, where products run by themselves."""
    assert launches('''
        for tokens, kind in ((2000, "bf16"), (50, "fp16"), (2000, "fp32")):
            q, k, v, out = arrays(*[(1, 2, tokens, 128)] * 4, kind=kind)
            ty.ops.attention(q, k, v, out)
            show(1)
    ''') == ["attention 384 16 2 1", "attention 256 1 2 1", "attention 128 32 2 1"]


def test_decode():
    """Shares of the keys fill the processors (132 here) evenly; none where sequences do, or where there
    is little to share."""
    assert launches('''
        for batch, keys in ((1, 8192), (4, 8192), (16, 8192), (64, 8192), (1, 50)):
            q, k, v, out = arrays((batch, 64, 128), *[(batch, 8, keys, 128)] * 2, (batch, 64, 128))
            ty.ops.decode(q, k, v, out)
            show(1)
        q, k, v, out = arrays((1, 64, 256), *[(1, 8, 8192, 256)] * 2, (1, 64, 256))
        ty.ops.decode(q, k, v, out)
        show(1)
    ''') == ["decode 256 128 1 1"] * 3 + ["decode 256 132 1 1", "decode 256 8 1 1", "decode 384 128 1 1"]


def test_elementwise():
    assert launches('''
        gate, up, out = arrays(*[(5, 9000)] * 3)
        ty.ops.swiglu(gate, out, up)
        q, k = arrays((2, 40, 33, 128), (2, 8, 33, 128))
        cos, sin = arrays((33, 64), (33, 64), kind="fp32")
        ty.ops.rope(q, q, cos, sin, k, k)
        show(2)
    ''') == ["swiglu 128 15 1 1", "rope 128 5 6 2"]


@pytest.mark.parametrize("ranks,most", [(2, 64), (3, 32), (4, 32), (7, 16)])
def test_instances_of_collectives_are_resident(ranks, most):
    """132 processors are shared by the ranks; numbers of instances are powers of two."""
    shown = launches(f"""
        def body():
            n = 8 << 20
            x, out, small = arrays(n, n, 8192, kind="fp16")
            rows = ty.cdiv(n, ty.num_ranks())
            own = Part(x, [min(rows, n - ty.rank() * rows)])
            blocks = [n // ty.num_ranks() * ty.num_ranks()]
            for form in ("push", "pull", "copies", "flagged", "direct"):
                ty.ops.all_gather(own, out, form=form)
            for form in ("push", "pull", "copies", "flagged", "direct"):
                ty.ops.reduce_scatter(out, own, form=form)
                ty.ops.all_to_all(Part(x, blocks), Part(out, blocks), form=form)
            for form in ("one_shot", "two_shot", "copies", "flagged", "direct"):
                ty.ops.all_reduce(x, out, form=form)
            ty.ops.broadcast(x, out, form="push")
            ty.ops.all_reduce(small, small, form="flagged")
        ty.spawn(body, ranks={ranks}, device="cuda", heap_bytes=2 << 30)
        show(fake.fake_cuda_launch_count())
    """)
    grids = {(name, int(x)) for name, _, x, *_ in map(str.split, shown)}
    assert grids == {("open_call", 1), ("all_reduce_flagged", min(8, most))} | {
        (name, most) for name in (
            "all_gather_push", "all_gather_pull", "all_gather_flagged", "collect", "add_arrivals",
            "reduce_scatter_push", "reduce_scatter_pull", "reduce_scatter_flagged",
            "all_to_all_push", "all_to_all_pull", "all_to_all_flagged",
            "all_reduce_one_shot", "all_reduce_two_shot", "all_reduce_flagged", "broadcast_push",
            "all_gather_direct", "reduce_scatter_direct", "all_to_all_direct", "all_reduce_direct")}


@pytest.mark.parametrize("op,form", [("gemm_rs", "overlapped"), ("gemm_ar", "one_shot"),
                                     ("gemm_ar", "two_shot"), ("gemm_ar", "direct")])
def test_ranks_with_different_operands_share_their_tiles(op, form):
    """The workspaces, which have a signal for each tile, would differ else. Bulk copies need an address
    and strides that divide by 16 bytes; rank 3 has no part of K."""
    assert launches(f"""
        def body(kind, m, n, part):
            rank = ty.rank()
            k = (512, 511, 512, 0)[rank]
            a, b, out = arrays(m * 512 + 1, (512, n), (m, n), kind=kind)
            rows = ty.cdiv(m, 4)
            own = max(min(rows, m - rank * rows), 0) if part else m
            ty.ops.{op}(Part(a, [m, k], rank == 2), Part(b, [k, n]), Part(out, [own, n]), form="{form}")
        for kind, m, n in (("fp16", 2048, 4096), ("fp16", 5, 7), ("fp32", 300, 512)):
            ty.spawn(lambda: body(kind, m, n, "{op}" == "gemm_rs"), ranks=4, device="cuda",
                     heap_bytes=1 << 30)
            names = [fake.fake_cuda_launch_at(at) for at in range(fake.fake_cuda_launch_count() - 4,
                                                                  fake.fake_cuda_launch_count())]
            print(len([x for x in names if x.kernel.decode().startswith("{op}")]),
                  {{x.grid[0] for x in names}})
    """) == ["4 {33}"] * 3


@pytest.mark.parametrize("m,misaligned,copied", [
    (2048, 0, 0),   # whole tiles of 128 rows on each rank
    (2048, 1, 4),   # bulk copies could not bring the rows from where they are
    (2000, 0, 2),   # rank 0's last chunk, rank 1's first one; not the end of rank 1, where all rows end
    (100, 0, 8)])   # one tile
def test_own_rows_are_copied_only_where_a_tile_has_others_too(m, misaligned, copied):
    """Each of 2 ranks copies 4 chunks and as many signals to the other; within a rank, `copied` in all."""
    assert launches(f"""
        def body():
            a, b, c = arrays({m} * 512 + 1, (512, 4096), ({m}, 4096), kind="fp16")
            offset = ty.rank() if {misaligned} else 0
            options = dict(form="copies", chunks=4, block_m=128)
            ty.ops.ag_gemm(Part(a, [{m} // 2, 512], offset), Part(b, [512, 4096]), Part(c, [{m}, 4096]),
                           **options)
            ty.barrier()
            if ty.rank() == 0:
                fake.fake_cuda_reset()
            ty.barrier()
            ty.ops.ag_gemm(Part(a, [{m} // 2, 512], offset), Part(b, [512, 4096]), Part(c, [{m}, 4096]),
                           **options)
        ty.spawn(body, ranks=2, device="cuda", heap_bytes=1 << 30)
        print(fake.fake_cuda_calls().decode().split().count("cuMemcpyAsync"))
    """) == [str(2 * (2 * 4 + copied))]


def test_chunks_are_a_power_of_two():
    """Each of 2 ranks has 14 MiB of rows, which go in 2 chunks of 4 MiB or more, each with a signal."""
    assert launches("""
        def body():
            a, b, c = arrays((14336, 512), (512, 256), (28672, 256), kind="fp16")
            ty.ops.ag_gemm(a, b, c, form="copies")
            ty.barrier()
            if ty.rank() == 0:
                fake.fake_cuda_reset()
            ty.barrier()
            ty.ops.ag_gemm(a, b, c, form="copies")
        ty.spawn(body, ranks=2, device="cuda", heap_bytes=1 << 30)
        print(fake.fake_cuda_calls().decode().split().count("cuMemcpyAsync"))
    """) == [str(2 * 2 * 2)]


def test_own_parts_are_gathered_without_copies():
    """Each of 2 ranks copies 3 chunks and their signals to the other, and none to itself."""
    assert launches("""
        def body():
            x, out = arrays(1 << 20, 1 << 21, kind="fp16")
            ty.ops.all_gather(x, out, form="copies", chunks=3)
            ty.barrier()
            if ty.rank() == 0:
                fake.fake_cuda_reset()
            ty.barrier()
            ty.ops.all_gather(x, out, form="copies", chunks=3)
        ty.spawn(body, ranks=2, device="cuda", heap_bytes=1 << 30)
        print(fake.fake_cuda_calls().decode().split().count("cuMemcpyAsync"))
    """) == ["12"]


STREAMS = """
        def body():
            x, = arrays(256, kind="fp32")
            a, b = (ctypes.c_void_p() for _ in range(2))
            for stream in (a, b):
                fake.cuStreamCreate(ctypes.byref(stream), 1)

            def ordered(*streams, team=ty.init()):
                ty.barrier()
                fake.fake_cuda_reset()
                ty.barrier()
                for stream in streams:
                    _capi.library().tilery_stream_use(stream)
                    ty.ops.all_reduce(x, x, form="flagged", team=team)
                _capi.library().tilery_stream_use(None)
                ty.barrier()
                calls = fake.fake_cuda_calls().decode().split()
                assert calls.count("cuEventRecord") == 2 * len(streams), calls
                return calls.count("cuStreamWaitEvent") // 2
"""


def test_operators_of_a_world_follow_each_other_in_all_streams():
    """An event behind each; waited for where the stream is another one than before, also when its owner
    has destroyed that."""
    assert launches(STREAMS + """
            found = [ordered(None, None), ordered(a, a), ordered(a, a), ordered(b, a, None)]
            ty.ops.all_reduce(x, x, form="flagged")
            _capi.library().tilery_stream_use(a)
            ty.ops.all_reduce(x, x, form="flagged")
            fake.cuStreamDestroy_v2(a)
            found += [ordered(b), ordered(b)]
            team = ty.init().split(0, ty.rank(), "other")
            found += [ordered(None, team=team), ordered(b), ordered(b, team=team)]
            if ty.rank() == 0:
                print(*found)
        ty.spawn(body, ranks=2, device="cuda")
    """) == ["0 1 0 3 1 0 0 0 1"]


def test_operators_of_a_recording_follow_each_other():
    """None waits for what is not recorded with it, which the driver would refuse, nor that for them."""
    assert launches(STREAMS + """
            def capture(number, *streams):
                for stream in streams:
                    fake.fake_cuda_capture(stream, number)

            found = [ordered(None, a)]
            capture(1000 + ty.rank(), a, b)
            found += [ordered(a), ordered(b), ordered(b, a)]
            capture(0, a)
            found += [ordered(a), ordered(None)]
            capture(2000 + ty.rank(), b)
            found += [ordered(b), ordered(a)]
            capture(0, b)
            found += [ordered(b)]
            if ty.rank() == 0:
                print(*found)
        ty.spawn(body, ranks=2, device="cuda")
    """) == ["1 0 1 1 0 1 0 1 1"]


def test_every_operator_is_watched_by_the_sanitizer(monkeypatch):
    """utils/gpu_sanitize.sh runs what utils/gpu_operators.py knows."""
    monkeypatch.syspath_prepend(str(Path(__file__).parents[2] / "utils"))
    known = importlib.import_module("gpu_operators")
    assert [op["name"] for op in ty.ops.list() if not hasattr(known, op["name"])] == []
