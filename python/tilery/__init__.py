# SPDX-FileCopyrightText: The Tilery authors
# SPDX-License-Identifier: Apache-2.0
"""Tilery: kernels that compute and communicate at the same time.

    import tilery as ty
    import tilery.language as tl
"""

from __future__ import annotations

import importlib

from tilery.errors import (  # noqa: F401
    CompileError, ConfigError, Error, InternalError, LaunchError, PeerError, TargetError,
    WaitTimeout,
)

__version__ = "0.1.0"

# Public names by the module that defines them; loaded at first use to keep the import cheap.
_PUBLIC = {
    "kernels": ("jit", "interpret", "interpreting", "JITFunction"),
    "world": ("init", "spawn", "rank", "num_ranks", "empty", "zeros", "signals", "barrier",
              "finalize", "trace_summary"),
    "teams": ("team", "split"),
    "registration": ("register",),
    "tensor": ("Tensor",),
    "devices": ("synchronize",),
    "device_array": ("DeviceArray",),
    "tuning": ("autotune", "heuristics", "Config"),
    "diagnosis": ("doctor",),
}
_WHERE = {name: module for module, names in _PUBLIC.items() for name in names}
_SUBMODULES = ("language", "ops", "errors", "knobs", "interop", "interpreter")
_DTYPES = ("int1", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64",
           "float16", "bfloat16", "float32", "float64", "float8e4nv", "float8e5")


def cdiv(x: int, y: int) -> int:
    """Ceiling division: `cdiv(10, 4)` is 3."""
    return -(-x // y)


def next_power_of_2(n: int) -> int:
    """The smallest power of two >= n, at least 1."""
    return 1 << max(0, n - 1).bit_length()


def __getattr__(name: str):
    if name in _WHERE:
        value = getattr(importlib.import_module(f"tilery.{_WHERE[name]}"), name)
    elif name in _SUBMODULES:
        value = importlib.import_module(f"tilery.{name}")
    elif name in _DTYPES:
        value = getattr(importlib.import_module("tilery.language.dtypes"), name)
    else:
        raise AttributeError(f"module 'tilery' has no attribute '{name}'")
    globals()[name] = value
    return value


def __dir__():
    return sorted([*globals(), *_WHERE, *_SUBMODULES, *_DTYPES])
