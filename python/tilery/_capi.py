# SPDX-FileCopyrightText: The Tilery authors
# SPDX-License-Identifier: Apache-2.0
"""include/tilery/tilery.h through ctypes; the library is opened when it is first needed."""

from __future__ import annotations

import ctypes
import functools
import importlib.machinery
import importlib.util
import json
import threading
from ctypes import POINTER, c_char_p, c_double, c_int32, c_int64, c_size_t, c_uint32, \
    c_uint64, c_void_p
from pathlib import Path

from tilery import knobs
from tilery.errors import KINDS, ConfigError, InternalError

_PACKAGE = Path(__file__).resolve().parent


class TensorRecord(ctypes.Structure):
    """tilery_tensor."""

    _fields_ = [("data", c_void_p), ("shape", POINTER(c_int64)), ("strides", POINTER(c_int64)),
                ("rank", c_int32), ("dtype", c_int32), ("read_only", c_int32),
                ("device", c_uint32)]


class DeviceRecord(ctypes.Structure):
    """tilery_device_properties."""

    _fields_ = [("name", c_char_p), ("target", c_char_p), ("processors", c_int32),
                ("assembly_version", c_int32), ("memory_bytes", c_int64),
                ("shared_bytes", c_int64)]


_STATUS = c_int32
# name: (result, argument types)
_FUNCTIONS = {
    "error_message": (c_char_p, []),
    "version": (c_char_p, []),
    "world_init": (_STATUS, [c_char_p, POINTER(c_void_p)]),
    "group_create": (_STATUS, [c_char_p, POINTER(c_void_p)]),
    "group_rank": (_STATUS, [c_void_p, c_int32, POINTER(c_void_p)]),
    "group_abort": (None, [c_void_p, c_int32, c_char_p]),
    "group_destroy": (None, [c_void_p]),
    "world_rank": (c_int32, [c_void_p]),
    "world_size": (c_int32, [c_void_p]),
    "world_leave": (_STATUS, [c_void_p]),
    "world_destroy": (None, [c_void_p]),
    "set_interrupt_check": (None, [c_void_p]),
    "world_barrier": (_STATUS, [c_void_p, c_double]),
    "world_all_gather_bytes": (_STATUS, [c_void_p, c_char_p, c_char_p, c_size_t, c_char_p]),
    "team_create": (_STATUS, [c_void_p, POINTER(c_int32), c_int32, c_char_p, POINTER(c_void_p)]),
    "world_split": (_STATUS, [c_void_p, c_int32, c_int32, c_char_p, POINTER(c_void_p)]),
    "world_describe": (c_char_p, [c_void_p]),
    "world_trace_summary": (c_char_p, [c_void_p]),
    "symmetric_alloc_typed": (_STATUS, [c_void_p, c_size_t, c_char_p, c_char_p,
                                        POINTER(c_void_p)]),
    "symmetric_free": (_STATUS, [c_void_p, c_void_p]),
    "symmetric_register": (_STATUS, [c_void_p, c_void_p, c_size_t, c_char_p, c_char_p]),
    "symmetric_drop": (_STATUS, [c_void_p, c_void_p]),
    "symmetric_collect": (_STATUS, [c_void_p, c_void_p * 32, POINTER(c_int32)]),
    "symmetric_contains": (c_int32, [c_void_p, c_void_p, c_size_t]),
    "symmetric_at": (_STATUS, [c_void_p, c_void_p, c_int32, POINTER(c_void_p)]),
    "signal_notify": (_STATUS, [c_void_p, c_void_p, c_int32, c_uint64, c_int32]),
    "signal_wait": (_STATUS, [c_void_p, c_void_p, c_uint64, c_int32, c_double]),
    "put": (_STATUS, [c_void_p, c_void_p, c_void_p, c_size_t, c_int32]),
    "get": (_STATUS, [c_void_p, c_void_p, c_void_p, c_size_t, c_int32]),
    "device_count": (c_int32, []),
    "device_named": (_STATUS, [c_char_p, POINTER(c_int32)]),
    "device_describe": (_STATUS, [c_int32, POINTER(DeviceRecord)]),
    "device_of": (c_int32, [c_void_p]),
    "device_allocate": (_STATUS, [c_int32, c_size_t, POINTER(c_void_p)]),
    "device_release": (_STATUS, [c_int32, c_void_p, c_size_t]),
    "device_copy": (_STATUS, [c_void_p, c_void_p, c_size_t]),
    "stream_use": (None, [c_void_p]),
    "synchronize": (_STATUS, [c_void_p, c_int32]),
    "function_load": (_STATUS, [c_char_p, c_char_p, POINTER(c_void_p)]),
    "function_create": (_STATUS, [c_char_p, POINTER(c_void_p)]),
    "function_destroy": (None, [c_void_p]),
    "function_describe": (c_char_p, [c_void_p]),
    "constant_intern": (_STATUS, [c_char_p, POINTER(c_uint64)]),
    "options_intern": (_STATUS, [c_char_p, POINTER(c_void_p)]),
    "function_compile": (_STATUS, [c_void_p, c_void_p, c_char_p, c_int32, POINTER(c_void_p)]),
    "kernel_text": (c_char_p, [c_void_p, c_char_p]),
    "kernel_write_object": (_STATUS, [c_void_p, c_char_p]),
    "ops_list": (c_char_p, []),
    "op_call": (_STATUS, [c_char_p, c_void_p, POINTER(TensorRecord), c_int32, c_char_p]),
    "op_explain": (_STATUS, [c_char_p, c_void_p, POINTER(TensorRecord), c_int32, c_char_p,
                             POINTER(c_char_p)]),
    "calibrate": (_STATUS, [c_void_p, POINTER(c_char_p)]),
    "cache_describe": (c_char_p, []),
    "cache_clear": (_STATUS, []),
    "doctor": (c_char_p, []),
}


def candidates() -> list[Path]:
    """Where the library is looked for, in order."""
    named = knobs.get("TILERY_LIBRARY")
    if named:
        return [Path(named)]
    checkout = _PACKAGE.parent.parent
    return [_PACKAGE / "lib" / "libtilery.so"] + [
        checkout / "build" / preset / "lib" / "libtilery.so" for preset in ("dev", "release")]


def find() -> Path | None:
    """The library's path, or None."""
    return next((path for path in candidates() if path.exists()), None)


@functools.cache
def library() -> ctypes.CDLL:
    """The opened library; ConfigError with the places tried when there is none."""
    path = find()
    if path is None:
        tried = ", ".join(str(p) for p in candidates())
        raise ConfigError(f"libtilery.so was not found (tried {tried}); build it with `make`, or "
                          "run kernels in the interpreter with ty.interpret()")
    try:
        loaded = ctypes.CDLL(str(path))
    except OSError as error:
        raise ConfigError(f"{path} cannot be opened: {error}") from None
    for name, (result, arguments) in _FUNCTIONS.items():
        function = getattr(loaded, f"tilery_{name}")
        function.restype, function.argtypes = result, arguments
    return loaded


@functools.cache
def launcher():
    """The extension module with the launch path."""
    library_path = find()
    library()
    places = [_PACKAGE] + ([library_path.parent] if library_path else [])
    for place in places:
        path = place / "_launch.abi3.so"
        if path.exists():
            loader = importlib.machinery.ExtensionFileLoader("tilery._launch", str(path))
            spec = importlib.util.spec_from_file_location("tilery._launch", path, loader=loader)
            module = importlib.util.module_from_spec(spec)
            loader.exec_module(module)
            entry = ctypes.cast(library().tilery_function_launch, c_void_p).value
            module.bind(entry)
            watched = module.watch(threading.main_thread().ident)
            library().tilery_set_interrupt_check(watched)
            return module
    raise ConfigError(f"_launch.abi3.so was not found in {', '.join(map(str, places))}; "
                      "build it with `make`")


def message() -> str:
    """The text of the last failure on this thread."""
    # Names that ranks tell each other are cut, perhaps within a character.
    return (library().tilery_error_message() or b"").decode(errors="replace")


def raise_interruption() -> None:
    """Raises what a signal handler raised while a call of this thread waited, if it did."""
    raised = launcher().take_interruption() if launcher.cache_info().currsize else None
    if raised is not None:
        raise raised


def check(status: int) -> None:
    """Raises the error that a status other than 0 stands for, or what a signal handler raised
    while the call waited."""
    if status:
        raise_interruption()
        kind = KINDS[status] if 0 < status < len(KINDS) else InternalError
        raise kind(message())


def call(name: str, *arguments) -> None:
    """Calls a function that returns a status."""
    check(getattr(library(), f"tilery_{name}")(*arguments))


def handle_from(name: str, *arguments) -> int:
    """Calls a function whose last parameter receives a handle; returns the handle."""
    result = c_void_p()
    check(getattr(library(), f"tilery_{name}")(*arguments, ctypes.byref(result)))
    return result.value or 0


def text_from(name: str, *arguments, error=InternalError) -> str:
    """Calls a function that returns text; null raises `error`."""
    result = getattr(library(), f"tilery_{name}")(*arguments)
    if result is None:
        raise error(message())
    return result.decode()


def encode(value) -> bytes:
    return json.dumps(value).encode()
