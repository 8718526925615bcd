# SPDX-FileCopyrightText: The Tilery authors
# SPDX-License-Identifier: Apache-2.0
"""Runs tests written for host arrays on an accelerator: arrays of a launch or of an operator are
copied to the device and back, symmetric memory is of a kind that the host reaches too. TEST_DEVICES
names several ("cuda:0,cuda:1"): spawned ranks take them in turn, each with arrays on its own."""

from __future__ import annotations

import ctypes
import functools
import os
import threading

import numpy as np

import tilery as ty
from tilery import _capi, arguments, devices, kernels, ops, tuning, world as worlds

# Copies begin at the same place of a line as their originals, so that alignment is the same.
_LINE = 256


class _Pool:
    """Device memory that is kept: giving it back would wait for grids that wait for each other."""

    def __init__(self, device: int):
        self.device, self.free, self.lock = device, {}, threading.Lock()

    def take(self, nbytes: int) -> tuple[int, int]:
        size = max(4096, 1 << (nbytes - 1).bit_length())
        with self.lock:
            if self.free.get(size):
                return self.free[size].pop(), size
        return _capi.handle_from("device_allocate", self.device, size), size

    def give(self, address: int, size: int) -> None:
        with self.lock:
            self.free.setdefault(size, []).append(address)


class _Span:
    """Host memory [low, high) and its copy."""

    def __init__(self, low: int, high: int, written: bool):
        self.low, self.high, self.written = low, high, written
        self.block = self.size = self.copy = 0

    def upload(self, pool: _Pool) -> None:
        self.block, self.size = pool.take(self.high - self.low + _LINE)
        self.copy = self.block + self.low % _LINE
        _capi.call("device_copy", self.copy, self.low, self.high - self.low)

    def download(self) -> None:
        if self.written:
            _capi.call("device_copy", self.low, self.copy, self.high - self.low)


class Stage:
    """The copies of one call's arrays; those that share memory share a copy."""

    def __init__(self, pool: _Pool, arrays):
        self.pool, self.spans = pool, []
        for array in sorted((a for a in arrays if a.device == 0 and a.nbytes > 0),
                            key=lambda a: a.address):
            low, high = array.address, array.address + array.nbytes
            if self.spans and low < self.spans[-1].high:
                last = self.spans[-1]
                last.high, last.written = max(last.high, high), last.written or array.writable
            else:
                self.spans.append(_Span(low, high, array.writable))
        for span in self.spans:
            span.upload(pool)

    def moved(self, array):
        """The argument that stands for `array` on the device."""
        span = next((s for s in self.spans if s.low <= array.address < s.high), None)
        if array.device or span is None:
            return array
        return arguments.ArrayArgument(array.address - span.low + span.copy, array.nbytes, array.shape,
                                       array.byte_strides, array.dtype, array.writable,
                                       array.symmetric, None, self.pool.device)

    def finish(self) -> None:
        for span in self.spans:
            span.download()

    def release(self) -> None:
        for span in self.spans:
            self.pool.give(span.block, span.size)


@functools.cache
def _pool(device: int) -> _Pool:
    return _Pool(device)


def _here(pool: _Pool) -> _Pool:
    """That of the device of the calling rank, else `pool`."""
    world = worlds.current(required=False)
    return _pool(getattr(world, "device", 0) or pool.device)


def _staged_launch(original, pool, self, grid, args, *rest):
    self._native()
    pool = _here(pool)
    arrays = [self._records._array(value, at) for at, value in enumerate(args)]
    stage = Stage(pool, [array for array in arrays if array is not None])
    try:
        original(self, grid, tuple(value if array is None else stage.moved(array)
                                   for array, value in zip(arrays, args)), *rest)
        devices.synchronize()
    finally:
        # What a kernel stored before it failed can be seen, as on the host.
        stage.finish()
        stage.release()


def _staged_check(original, pool, self, config, args, kwargs):
    """The autotuner compiles for the arguments that its launches will have."""
    def is_host(value):
        return isinstance(value, np.ndarray)
    values = [*args, *kwargs.values()]
    stage = Stage(pool, [arguments.from_value("array", value) for value in values if is_host(value)])
    try:
        moved = [stage.moved(arguments.from_value("array", value)) if is_host(value) else value
                 for value in values]
        return original(self, config, moved[:len(args)], dict(zip(kwargs, moved[len(args):])))
    finally:
        stage.release()


class _Moved:
    """An operator's tensor on the device, with the shape of the one on the host."""

    def __init__(self, value, argument):
        strides = getattr(value, "strides", None)
        item = argument.dtype.itemsize
        self.shape = tuple(value.shape)
        self.strides = tuple(value.stride(d) * item for d in range(len(self.shape))) \
            if strides is None or isinstance(value, ty.Tensor) else tuple(strides)
        self.argument = argument


def _staged_call(original, pool, name, *tensors, **options):
    pool = _here(pool)
    arrays = [None if value is None else arguments.from_value("tensor", value) for value in tensors]
    stage = Stage(pool, [array for array in arrays if array is not None])
    try:
        original(name, *[value if array is None or array.device
                         else _Moved(value, stage.moved(array))
                         for value, array in zip(tensors, arrays)], **options)
        devices.synchronize()
    finally:
        stage.finish()
        stage.release()


def _unwrapped(original, name, value):
    return value.argument if isinstance(value, _Moved) else original(name, value)


_HEAP_BYTES = 64 << 20


def _spawn(original, device, fn, *args, **options):
    for host_only in ("seed", "delay"):
        options.pop(host_only, None)
    options["heap_bytes"] = options.get("heap_bytes") or _HEAP_BYTES
    several = os.environ.get("TEST_DEVICES", "").split(",")
    ranks = options.get("ranks", args[0] if args else 0)
    if len(several) > 1 and ranks > 1:
        options["device"], options["share_device"] = several[:ranks], True
    return original(fn, *args, **({"device": device, "shared_heap": True} | options))


def _init(original, device, **options):
    if options or worlds.current(required=False) is not None:
        return original(**options)
    return original(device=device, shared_heap=True, heap_bytes=_HEAP_BYTES)


def install(monkeypatch, device: str) -> None:
    """Until the test ends, launches, operators and spawned worlds use `device`."""
    pool = _pool(devices.number(device))
    launch, call = kernels.JITFunction._launch_native, ops.call
    staged = functools.partial(_staged_call, call, pool)
    monkeypatch.setattr(kernels.JITFunction, "_launch_native",
                        lambda self, *args: _staged_launch(launch, pool, self, *args))
    check = tuning.Autotuner._cannot_compile
    monkeypatch.setattr(tuning.Autotuner, "_cannot_compile",
                        lambda self, *args: _staged_check(check, pool, self, *args))
    for name in [op["name"] for op in ops.list()]:  # before `call`, of which their module makes them
        monkeypatch.setattr(ops, name, functools.partial(staged, name), raising=False)
    monkeypatch.setattr(ops, "call", staged)
    monkeypatch.setattr(arguments, "from_value",
                        functools.partial(_unwrapped, arguments.from_value))
    spawn = functools.partial(_spawn, worlds.spawn, device)
    monkeypatch.setattr(worlds, "spawn", spawn)
    monkeypatch.setattr(ty, "spawn", spawn, raising=False)
    init = functools.partial(_init, worlds.init, device)
    monkeypatch.setattr(worlds, "init", init)
    monkeypatch.setattr(ty, "init", init, raising=False)


def lost() -> str:
    """Why the device cannot be used by this process any more; "" when it can."""
    try:
        devices.synchronize()
    except ty.Error as error:
        return str(error).splitlines()[0] if "device is lost" in str(error) else ""
    return ""


def missing() -> str:
    """Why no accelerator can be used; "" when one can."""
    if _capi.find() is None:
        return "libtilery.so is not built"
    if _capi.library().tilery_device_count() > 0:
        return ""
    result = ctypes.c_int32()
    _capi.library().tilery_device_named(b"cuda", ctypes.byref(result))
    return _capi.message()
