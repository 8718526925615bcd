# SPDX-FileCopyrightText: The Tilery authors
# SPDX-License-Identifier: Apache-2.0
"""torch: tensors of both kinds of device, streams, graphs, our operators as custom ones."""

import time

import numpy as np
import pytest
from backends import require_device, require_library
from kernel_text import make

import tilery as ty
from tilery.interop.torch import register_ops

torch = pytest.importorskip("torch", reason="torch is not installed (pip install torch)")

ADD = '''@ty.jit
def kernel(x, y, out, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = at < n
    tl.store(out + at, tl.load(x + at, mask=mask) + tl.load(y + at, mask=mask), mask=mask)
'''
EMPTY = "@ty.jit\ndef kernel(x):\n    pass\n"


@pytest.fixture(params=["cpu", "cuda"])
def device(request):
    require_library()
    if request.param == "cuda":
        require_device()
        if not torch.cuda.is_available():
            pytest.skip("this torch has no CUDA device")
    with ty.interpret(False):
        yield request.param


@pytest.fixture
def gpu():
    require_library()
    require_device()
    if not torch.cuda.is_available():
        pytest.skip("this torch has no CUDA device")
    with ty.interpret(False):
        yield "cuda"


def add(x, y, out, kernel=make(ADD), **options):
    kernel[(ty.cdiv(out.numel(), 256),)](x, y, out, out.numel(), BLOCK=256, **options)
    return out


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16", "int32", "int64"])
def test_tensors_of_every_type(device, dtype):
    dtype = getattr(torch, dtype)
    x = torch.arange(1000, device=device).to(dtype) % 100
    y = (torch.arange(1000, device=device) // 10).to(dtype)
    assert torch.equal(add(x, y, torch.empty_like(x)), x + y)


def test_views_and_offsets(device):
    x = torch.arange(4096.0, device=device)
    out = torch.zeros(1000, device=device)
    add(x[1:1001], x[2:1002], out)
    assert torch.equal(out, x[1:1001] + x[2:1002])


def test_a_tensor_without_memory_is_refused():
    with pytest.raises(ty.LaunchError, match="argument 'x' is on device 'meta', which kernels "
                                             "cannot use"):
        make(EMPTY)[(1,)](torch.zeros(4, device="meta"))


def test_a_view_that_torch_negates_is_refused(device):
    x = torch.zeros(8, dtype=torch.complex64, device=device).conj().imag
    for use in (lambda: make(EMPTY)[(1,)](x), lambda: ty.ops.softmax(x[None, ::2], x[None, ::2])):
        with pytest.raises(ty.LaunchError, match="'x' is a view whose elements torch negates when it reads them"):
            use()
    make(EMPTY)[(1,)](x.resolve_neg())


def test_arrays_of_two_devices(gpu):
    x = torch.zeros(4, device=gpu)
    with pytest.raises(ty.LaunchError, match="argument 'x' of 'kernel' is in memory of cuda:0, "
                                             "argument 'y' in memory of the host"):
        add(x, torch.zeros(4), x)


def test_the_current_stream_is_used(gpu):
    side = torch.cuda.Stream()
    x = torch.zeros(1 << 20, device=gpu)
    out = torch.zeros_like(x)
    torch.cuda.synchronize()
    with torch.cuda.stream(side):
        torch.cuda._sleep(100_000_000)
        x.fill_(3.0)
        add(x, x, out)
        result = out.clone()
    side.synchronize()
    assert (result == 6).all()
    add(x, x, out, stream=side)
    side.synchronize()
    assert (out == 6).all()


def test_a_graph_replays_our_kernels(gpu):
    x, y = torch.ones(5000, device=gpu), torch.ones(5000, device=gpu)
    out = torch.zeros_like(x)
    add(x, y, out)  # compiled before
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        add(x, y, out)
        add(out, y, out)
    for value in (2.0, 5.0):
        x.fill_(value)
        graph.replay()
        torch.cuda.synchronize()
        assert (out == value + 2).all()


def test_a_kernel_can_be_compiled_while_a_graph_is_captured(gpu):
    x = torch.ones(300, device=gpu)
    out = torch.zeros_like(x)
    kernel = make(ADD.replace(" + tl.load(y", " - 2 * tl.load(y"))
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        add(x, x, out, kernel)
    graph.replay()
    torch.cuda.synchronize()
    assert (out == -1).all()


def test_arrays_go_both_ways(gpu):
    ours = ty.zeros((4, 8), ty.float32, device="cuda")
    ours.copy_from(np.arange(32.0).reshape(4, 8))
    for theirs in (torch.from_dlpack(ours), torch.as_tensor(ours, device=gpu)):
        assert theirs.shape == (4, 8) and theirs[3, 7].item() == 31
    theirs.fill_(7)
    torch.cuda.synchronize()
    assert (ours.numpy() == 7).all()


def test_operators(device):
    made = register_ops()
    g = torch.Generator().manual_seed(1)
    a, b = (torch.randn(64, 64, generator=g).to(device) for _ in range(2))
    torch.testing.assert_close(made["matmul"](a, b), a @ b, rtol=1e-3, atol=1e-3)
    x = torch.randn(3, 5, 100, generator=g).to(device)
    torch.testing.assert_close(torch.ops.tilery.softmax(x), x.softmax(-1))
    weight, bias = (torch.randn(100, generator=g).to(device) for _ in range(2))
    torch.testing.assert_close(
        torch.ops.tilery.layer_norm(x, weight, bias),
        torch.nn.functional.layer_norm(x, (100,), weight, bias), rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(
        torch.ops.tilery.rms_norm(x, weight),
        x * torch.rsqrt((x * x).mean(-1, keepdim=True) + 1e-6) * weight, rtol=1e-4, atol=1e-4)
    q, k, v = (torch.randn(2, 4, 33, 32, generator=g).to(device) for _ in range(3))
    torch.testing.assert_close(
        torch.ops.tilery.attention(q, k, v, causal=True),
        torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True),
        rtol=1e-3, atol=1e-3)


def test_a_product_and_what_follows(device):
    register_ops()
    generator = torch.Generator().manual_seed(3)
    a, b, bias, residual = (torch.randn(shape, generator=generator).to(device) for shape in (
        (2, 33, 40), (2, 40, 24), (24,), (2, 33, 24)))
    product = torch.ops.tilery.matmul(a, b, bias, residual, activation="silu")
    expected = torch.nn.functional.silu(a.double() @ b.double() + bias) + residual
    torch.testing.assert_close(product.double(), expected, rtol=1e-4, atol=1e-4)
    small, other = (torch.randint(-9, 9, shape, generator=generator, dtype=torch.int8).to(device)
                    for shape in ((33, 40), (40, 24)))
    assert torch.equal(torch.ops.tilery.matmul(small, other).cpu(),
                       (small.cpu().int() @ other.cpu().int()))
    rows, columns = torch.rand(33, device=device), torch.rand(24, device=device)
    scaled = torch.ops.tilery.matmul(small, other, scale_a=rows, scale_b=columns,
                                     dtype=torch.float32)
    torch.testing.assert_close(
        scaled.double(), (small.double() @ other.double()) * rows.double()[:, None] * columns,
        rtol=1e-5, atol=1e-5)


def test_operators_of_decoding(device):
    register_ops()
    g = torch.Generator().manual_seed(2)
    q = torch.randn(3, 8, 1, 64, generator=g).to(device)
    k, v = (torch.randn(3, 2, 100, 64, generator=g).to(device) for _ in range(2))
    lengths = torch.tensor([100, 7, 64], dtype=torch.int32, device=device)
    hidden = torch.arange(100, device=device)[None, :] >= lengths[:, None]
    bias = torch.zeros(3, 1, 1, 100, device=device).masked_fill(hidden[:, None, None], -torch.inf)
    expected = torch.nn.functional.scaled_dot_product_attention(
        q, k.repeat_interleave(4, 1), v.repeat_interleave(4, 1), bias)
    torch.testing.assert_close(torch.ops.tilery.decode(q, k, v, lengths), expected, rtol=1e-3,
                               atol=1e-3)
    gate, up = (torch.randn(2, 5, 100, generator=g).to(device) for _ in range(2))
    expected = torch.nn.functional.silu(gate) * up
    torch.testing.assert_close(torch.ops.tilery.swiglu(gate, up), expected)
    torch.testing.assert_close(torch.ops.tilery.swiglu(torch.cat([gate, up], -1)), expected)
    angles = torch.rand(100, 32, generator=g).to(device)
    positions = torch.tensor([[99], [6], [63]], device=device)
    for x, turned in zip((q, k[:, :, :1]), torch.ops.tilery.rope(
            q, k[:, :, :1], angles.cos(), angles.sin(), positions)):
        cos, sin = angles[positions].cos()[:, None], angles[positions].sin()[:, None]
        left, right = x.chunk(2, -1)
        torch.testing.assert_close(
            turned, torch.cat([left * cos - right * sin, right * cos + left * sin], -1),
            rtol=1e-5, atol=1e-5)


def plain_attention(q, k, v):
    return torch.nn.functional.scaled_dot_product_attention(
        q.double(), *(x.double().repeat_interleave(q.shape[1] // x.shape[1], 1) for x in (k, v)))


def test_decode_in_graphs_and_on_streams(gpu):
    """Each stream and each graph has its own counters, which every call leaves at 0."""
    register_ops()
    g = torch.Generator().manual_seed(4)
    q, other = (torch.randn(2, 16, 1, 128, generator=g).to(gpu, torch.bfloat16) for _ in range(2))
    k, v = (torch.randn(2, 2, 8000, 128, generator=g).to(gpu, torch.bfloat16) for _ in range(2))
    expected = [plain_attention(x, k, v) for x in (q, other)]
    check = lambda values: [torch.testing.assert_close(x.double(), y, rtol=2e-2, atol=2e-3)  # noqa: E731
                            for x, y in zip(values, expected)]
    first = [torch.ops.tilery.decode(x, k, v) for x in (q, other)]
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        recorded = [torch.ops.tilery.decode(x, k, v) for x in (q, other)]
    streams = [torch.cuda.Stream() for _ in range(2)]
    for _ in range(5):
        for x in recorded:
            x.zero_()
        torch.cuda.synchronize()
        beside = []
        for stream, x in zip(streams, (q, other)):
            with torch.cuda.stream(stream):
                beside.append(torch.ops.tilery.decode(x, k, v))
        graph.replay()
        torch.cuda.synchronize()
        for values in (recorded, beside):
            check(values)
            assert all(torch.equal(x, y) for x, y in zip(values, first))


def test_fake_operators_have_the_right_shapes():
    register_ops()
    with torch._subclasses.FakeTensorMode():
        a = torch.empty(5, 7, dtype=torch.int8)
        product = torch.ops.tilery.matmul(a, torch.empty(7, 3, dtype=torch.int8))
        scale = torch.empty(1)
        halves = torch.ops.tilery.matmul(a, a.T, scale_a=scale, scale_b=scale)
        assert halves.dtype == torch.bfloat16 and halves.shape == (a.shape[0], a.shape[0])
        assert product.shape == (5, 3) and product.dtype == torch.int32
        x = torch.empty(2, 4, 9, 16, dtype=torch.bfloat16)
        assert torch.ops.tilery.attention(x, x, x).shape == x.shape
        assert torch.ops.tilery.softmax(x).dtype == torch.bfloat16
        assert torch.ops.tilery.swiglu(x).shape == (2, 4, 9, 8)
        assert torch.ops.tilery.swiglu(x, x).shape == x.shape
        assert torch.ops.tilery.decode(x, x, x).shape == x.shape
        angles = torch.empty(9, 8)
        assert [y.shape for y in torch.ops.tilery.rope(x, x[:, :1], angles, angles)] == [
            (2, 4, 9, 16), (2, 1, 9, 16)]


def test_torch_compile_works_around_operators(device):
    register_ops()

    def block(x, weight):
        return torch.ops.tilery.softmax(torch.relu(x) + 1) * weight

    x = torch.linspace(-3, 3, 400).reshape(4, 100).to(device)
    weight = torch.arange(100.0, device=device)
    compiled = torch.compile(block, backend="aot_eager" if device == "cpu" else "inductor",
                             fullgraph=True)
    torch.testing.assert_close(compiled(x, weight), (torch.relu(x) + 1).softmax(-1) * weight)


def microseconds(call) -> float:
    best = float("inf")
    for _ in range(30):
        torch.cuda.synchronize()
        begin = time.perf_counter()
        for _ in range(100):
            call()
        best = min(best, (time.perf_counter() - begin) / 100)
    torch.cuda.synchronize()
    return best * 1e6


def test_a_launch_costs_little(gpu, record_property):
    x = torch.zeros(16, device=gpu)
    kernel = make(EMPTY)[(1,)]
    ours, torchs = microseconds(lambda: kernel(x)), microseconds(lambda: x.add_(1.0))
    record_property("launch_us", ours)
    record_property("torch_launch_us", torchs)
    print(f"launch of an empty kernel: {ours:.2f} us; torch's x.add_(1.0): {torchs:.2f} us")
    assert ours < 10
