# SPDX-FileCopyrightText: The Tilery authors
# SPDX-License-Identifier: Apache-2.0
"""Sources of arrays: NumPy scalars and views, DLPack, torch-like tensors, empty arrays."""

import array
import ctypes
import gc
import weakref

import numpy as np
import pytest
import staging
from kernel_text import make
from test_errors import fails

import tilery as ty
from tilery import ops

COPY = '''@ty.jit
def kernel(x, out, n, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    tl.store(out + at, tl.load(x + at, mask=at < n), mask=at < n)
'''


class OnlyDlpack:
    """An array that can be taken over by DLPack alone."""

    def __init__(self, array, device=(1, 0)):
        self.array, self.device = array, device

    def __dlpack__(self, **options):
        return self.array.__dlpack__(**options)

    def __dlpack_device__(self):
        return self.device


class TorchLike:
    """What the package uses of a torch tensor."""

    def __init__(self, array, device="cpu"):
        self.array, self.shape, self.device = array, array.shape, device
        self.dtype = f"torch.{array.dtype.name}"

    def data_ptr(self):
        return self.array.ctypes.data

    def element_size(self):
        return self.array.itemsize

    def stride(self):
        return tuple(s // self.array.itemsize for s in self.array.strides)


def as_ctypes(array):
    return (ctypes.c_float * array.size).from_buffer(array)


SOURCES = [np.asarray, OnlyDlpack, TorchLike, memoryview, as_ctypes]


@pytest.mark.parametrize("wrap", SOURCES)
def test_sources(backend, wrap):
    x, out = np.arange(10, dtype=np.float32), np.zeros(10, np.float32)
    make(COPY)[(1,)](wrap(x), wrap(out), 10, BLOCK=16)
    np.testing.assert_array_equal(out, x)


@pytest.mark.parametrize("wrap", SOURCES)
def test_sources_of_operators(compiled, wrap):
    """`eps` is NumPy's too."""
    x, weight, y = np.arange(10, dtype=np.float32) - 3, np.full(10, 2, np.float32), np.zeros(10, np.float32)
    rows = [wrap(array) for array in (x, weight, y)]
    with pytest.raises(ty.LaunchError, match="rms_norm: 'x' has 1 dimensions, needs 2"):
        ops.rms_norm(*rows)
    if wrap is as_ctypes:
        return
    ops.rms_norm(wrap(x.reshape(2, 5)), wrap(weight[:5]), wrap(y.reshape(2, 5)), eps=np.float32(0.25))
    expected = x.reshape(2, 5) / np.sqrt(np.mean(x.reshape(2, 5)**2, axis=1, keepdims=True) + 0.25) * 2
    np.testing.assert_allclose(y.reshape(2, 5), expected, rtol=1e-5)


class Claims:
    """Its own shape and strides are others than those of its memory."""

    shape, strides = (4, 4), (4,)

    def __init__(self, array):
        self.__array_interface__ = array.__array_interface__


def test_only_the_protocol_says_what_an_array_is(compiled):
    x, y = np.arange(8, dtype=np.float32).reshape(2, 4), np.zeros((2, 4), np.float32)
    ops.softmax(Claims(x), y)
    expected = np.exp(x - x.max(axis=1, keepdims=True))
    np.testing.assert_allclose(y, expected / expected.sum(axis=1, keepdims=True), rtol=1e-5)


def test_buffers(backend):
    kernel, out = make(COPY), np.zeros(4, np.uint8)
    kernel[(1,)](bytes([1, 2, 3, 4]), out, 4, BLOCK=4)
    assert out.tolist() == [1, 2, 3, 4]
    numbers, copied = array.array("i", [5, 6, 7, 8]), array.array("i", [0] * 4)
    kernel[(1,)](numbers, copied, 4, BLOCK=4)
    assert copied == numbers
    with pytest.raises(ty.LaunchError, match="argument 'x' has element type [|]S1, which kernels do not know"):
        kernel[(1,)](memoryview(b"abcd").cast("c"), out, 4, BLOCK=4)
    with pytest.raises(ty.LaunchError, match="argument 'x' has element type 'P' of a buffer, which kernels"):
        kernel[(1,)](memoryview(bytes(16)).cast("P"), out, 2, BLOCK=4)
    with pytest.raises(ty.LaunchError, match="read-only|writes"):
        kernel[(1,)](numbers, bytes(16), 4, BLOCK=4)


class Grows:
    """Appends to a buffer while the arguments are read."""

    def __init__(self, buffer):
        self.buffer = buffer

    @property
    def __array_interface__(self):
        self.buffer.append(0)
        raise AttributeError


@pytest.mark.parametrize("call", [lambda x, y: ops.softmax(x, y), lambda x, y: make(COPY)[(1,)](x, y, 4, BLOCK=4)])
def test_buffers_keep_their_size_during_a_call(compiled, call):
    numbers = array.array("f", [1] * 4)
    with pytest.raises(BufferError, match="exporting buffers"):
        call(numbers, Grows(numbers))
    numbers.append(5)
    assert len(numbers) == 5


class MadeOnDemand:
    """An array of which each request makes a copy, and which tells how many copies live."""

    def __init__(self, array):
        self.array, self.copies = array, []

    def __dlpack_device__(self):
        return (1, 0)

    def __dlpack__(self, **options):
        copy = self.array.copy()
        self.copies.append(weakref.ref(copy))
        return copy.__dlpack__(**options)


def test_arrays_made_on_demand_live_as_long_as_the_launch(backend):
    size = 1 << 16
    x, out = MadeOnDemand(np.arange(size, dtype=np.float32)), np.zeros(size, np.float32)
    make(COPY)[(1,)](x, out, size, BLOCK=size)
    np.testing.assert_array_equal(out, x.array)
    gc.collect()
    assert x.copies and all(copy() is None for copy in x.copies)


def test_the_converter_hands_over_the_owner(compiled):
    kernel = make(COPY)
    x = MadeOnDemand(np.zeros(4, np.float32))
    kernel._native()
    record, owner = kernel._records.make(x, 0)
    assert len(record) == 24 and x.copies[0]() is not None
    del owner
    assert x.copies[0]() is None


@pytest.mark.parametrize("device,wrap", [((2, 0), OnlyDlpack), ("cuda:0", TorchLike)])
def test_other_devices(backend, device, wrap):
    """Without a device the error says why there is none; with one, that the memory is not its own."""
    x = np.zeros(4, np.float32)
    texts = ["argument 'x' is", "device", "tilery cannot use"] if staging.missing() else \
        ["argument 'x' says that", "is a device's memory, but no device that tilery can use has it"]
    with fails(ty.LaunchError, *texts):
        make(COPY)[(1,)](wrap(x, device), x, 4, BLOCK=4)


def test_views_are_pointers_to_their_first_element(backend):
    x, out = np.arange(100, dtype=np.float32).reshape(10, 10), np.zeros(4, np.float32)
    make(COPY)[(1,)](x[3:, 2:], out, 4, BLOCK=4)
    np.testing.assert_array_equal(out, [32, 33, 34, 35])


def test_empty_arrays(backend):
    empty = np.zeros((0, 3), np.float32)
    make(COPY)[(1,)](empty, empty, 0, BLOCK=4)


@pytest.mark.parametrize("value", [np.int8(-3), np.uint8(200), np.int64(2**40), np.uint64(2**63),
                                   np.float32(0.1), np.float64(0.1), np.bool_(True), 5, True, 0.5])
def test_scalars(backend, value):
    kind = np.float64 if isinstance(value, (float, np.floating)) else \
        np.uint64 if isinstance(value, np.uint64) else np.int64
    out = np.zeros(1, kind)
    make("@ty.jit\ndef kernel(out, v):\n    tl.store(out, v)\n")[(1,)](out, value)
    expected = np.float32(value) if isinstance(value, float) and type(value) is float else value
    assert out[0] == kind(expected)


def test_a_read_only_array_that_is_only_read(backend):
    x, out = np.arange(4, dtype=np.float32), np.zeros(4, np.float32)
    x.flags.writeable = False
    make(COPY)[(1,)](x, out, 4, BLOCK=4)
    np.testing.assert_array_equal(out, x)


def test_constants_of_every_kind(backend):
    kernel = make('''@ty.jit
def kernel(out, A: tl.constexpr, B: tl.constexpr, C: tl.constexpr, D: tl.constexpr):
    if B == "yes" and D is None:
        tl.store(out, A * C[0] + C[1][1])
''')
    out = np.zeros(1, np.float32)
    kernel[(1,)](out, 3, "yes", (2, (0, 0.5)), None)
    assert out[0] == 6.5
    with fails(ty.LaunchError, "argument 'A'") if backend == "cpu" else pytest.raises(Exception):
        kernel[(1,)](out, object(), "yes", (2, (0, 0.5)), None)
