# SPDX-FileCopyrightText: The Tilery authors
# SPDX-License-Identifier: Apache-2.0
"""Arrays of int32 in a GPU's memory, in every way in which programs and other libraries allocate it."""

import ctypes

import tilery as ty


def _index() -> int:
    return ty.init().device - 1


def tilery(count: int):
    return ty.zeros(count, ty.int32, device=f"cuda:{_index()}")


def torch_caching(count: int):
    """With expandable segments where PYTORCH_CUDA_ALLOC_CONF says so."""
    import torch
    return torch.empty(count, dtype=torch.int32, device=f"cuda:{_index()}")


def torch_symmetric(count: int):
    import os

    import torch
    import torch.distributed as dist
    import torch.distributed._symmetric_memory as symmetric
    torch.cuda.set_device(_index())
    if not dist.is_initialized():
        dist.init_process_group("nccl", init_method=f"tcp://127.0.0.1:{os.environ['MASTER_PORT']}",
                                rank=ty.rank(), world_size=ty.num_ranks())
    return symmetric.empty(count, dtype=torch.int32, device=f"cuda:{_index()}")


class Array:
    """Somebody else's array: an address and a shape."""

    def __init__(self, address: int, count: int):
        self.shape = (count,)
        self.__cuda_array_interface__ = {"shape": (count,), "typestr": "<i4", "version": 3, "strides": None,
                                         "data": (address, False)}


def _driver():
    """The driver, with the context of this rank's device."""
    ty.zeros(1, ty.int32, device=f"cuda:{_index()}")  # opens it, for this rank alone
    cuda, context = ctypes.CDLL("libcuda.so.1"), ctypes.c_void_p()
    assert cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), _index()) == 0
    cuda.cuCtxSetCurrent.argtypes = [ctypes.c_void_p]
    assert cuda.cuCtxSetCurrent(context) == 0
    return cuda


def cuda_malloc(count: int):
    cuda, memory = _driver(), ctypes.c_uint64()
    assert cuda.cuMemAlloc_v2(ctypes.byref(memory), ctypes.c_size_t(4 * count)) == 0
    return Array(memory.value, count)


def cuda_malloc_async(count: int):
    cuda, memory = _driver(), ctypes.c_uint64()
    assert cuda.cuMemAllocAsync(ctypes.byref(memory), ctypes.c_size_t(4 * count), None) == 0
    assert cuda.cuCtxSynchronize() == 0
    return Array(memory.value, count)


def cuda_managed(count: int):
    cuda, memory = _driver(), ctypes.c_uint64()
    assert cuda.cuMemAllocManaged(ctypes.byref(memory), ctypes.c_size_t(4 * count), 1) == 0
    return Array(memory.value, count)


class _Properties(ctypes.Structure):  # CUmemAllocationProp, CUmemAccessDesc
    _fields_ = [("type", ctypes.c_int32), ("handles", ctypes.c_int32), ("where", ctypes.c_int32),
                ("device", ctypes.c_int32), ("rest", ctypes.c_uint64 * 2)]


class _Access(ctypes.Structure):
    _fields_ = [("where", ctypes.c_int32), ("device", ctypes.c_int32), ("flags", ctypes.c_int32)]


def cuda_pieces(count: int, handles: int = 1):
    """Mapped from pieces of 2 MiB, whose handles are file descriptors; the array begins in the first one and
    ends in the last."""
    from ctypes import byref, c_size_t, c_uint64

    cuda, piece = _driver(), 2 << 20
    total = (4 * count + 2 * piece - 1) // piece * piece
    base = c_uint64()
    assert cuda.cuMemAddressReserve(byref(base), c_size_t(total), c_size_t(0), c_uint64(0), c_uint64(0)) == 0
    for begin in range(0, total, piece):
        handle, kind = c_uint64(), _Properties(1, handles, 1, _index())
        assert cuda.cuMemCreate(byref(handle), c_size_t(piece), byref(kind), c_uint64(0)) == 0
        assert cuda.cuMemMap(c_uint64(base.value + begin), c_size_t(piece), c_size_t(0), handle, c_uint64(0)) == 0
        access = _Access(1, _index(), 3)
        assert cuda.cuMemSetAccess(c_uint64(base.value + begin), c_size_t(piece), byref(access), c_size_t(1)) == 0
    return Array(base.value + piece - 512, count)


def cuda_private_pieces(count: int):
    """Without handles."""
    return cuda_pieces(count, handles=0)


SHARED = ["tilery", "torch_caching", "torch_symmetric", "cuda_malloc", "cuda_pieces"]
PRIVATE = ["cuda_malloc_async", "cuda_managed", "cuda_private_pieces"]
