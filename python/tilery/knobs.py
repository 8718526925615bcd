# SPDX-FileCopyrightText: The Tilery authors
# SPDX-License-Identifier: Apache-2.0
"""Every environment variable that tilery reads; the only module that touches os.environ.

The table repeats runtime/base/knobs.def; a test compares the two.
"""

from __future__ import annotations

import math
import os
import re
import warnings
from typing import NamedTuple

from tilery.errors import ConfigError, nearest


class Knob(NamedTuple):
    """One variable: its type, its default and one sentence."""

    type: type
    default: object
    sentence: str


KNOBS = {
    "TILERY_TIMEOUT_S": Knob(
        float, 60.0,
        "Seconds after which a wait fails with a report; 0 waits for ever.",
    ),
    "TILERY_HEAP_BYTES": Knob(
        int, 64 << 30,
        "Address space of one rank's symmetric heap; memory is taken only when touched.",
    ),
    "TILERY_CACHE_DIR": Knob(
        str, "",
        "Directory of compiled kernels; empty: the user's cache directory.",
    ),
    "TILERY_CACHE_BYTES": Knob(
        int, 4 << 30,
        "Size of that directory beyond which the least recently used kernels are removed; 0: no "
        "limit.",
    ),
    "TILERY_CALIBRATION": Knob(
        str, "",
        "Measured costs by which communicating operators choose how they run: a file that `tilery "
        "calibrate` wrote, or off: built-in figures; empty: kept in the cache's directory and measured "
        "when they are not there.",
    ),
    "TILERY_TRACE": Knob(
        str, "",
        "File that gets the timeline of the world when it is finalized; empty: none.",
    ),
    "TILERY_LOG": Knob(
        str, "warning",
        "Least severe message to print: debug, info, warning, error or off.",
    ),
    "TILERY_INTERPRET": Knob(
        bool, False,
        "Run kernels as plain Python in the executable reference.",
    ),
    "TILERY_CHECK": Knob(
        bool, False,
        "Check every access against the memory passed and that all ranks launch the same grid; on GPUs "
        "wait for each launch.",
    ),
    "TILERY_SEED": Knob(
        int, -1,
        "Seed of the in-process world's schedule when the program gives none; -1: unseeded.",
    ),
    "TILERY_SPIN_US": Knob(
        int, 20,
        "Microseconds a rank spins before it sleeps when all its program instances wait.",
    ),
    "TILERY_CPU": Knob(
        str, "native",
        "Vector instructions for kernels on the CPU: native, avx512 or avx2.",
    ),
    "TILERY_CUDA_LIBRARY": Knob(
        str, "libcuda.so.1",
        "The driver library of NVIDIA GPUs; none: do not look for one.",
    ),
    "TILERY_SHARE_DEVICE": Knob(
        bool, False,
        "Let ranks share a device when there are more ranks than devices.",
    ),
    "TILERY_GPU_ARCH": Knob(
        str, "",
        "The GPU to generate code for instead of the one that is there, which must be newer: sm_80, "
        "sm_89, ...; empty: the one that is there.",
    ),
    "TILERY_DUMP_IR": Knob(
        str, "",
        "Directory that gets the core, vector, llvm and asm text of each compiled kernel; empty: "
        "none.",
    ),
    "TILERY_JOB_TOKEN": Knob(
        str, "",
        "Secret that the ranks of one job present to each other; `tilery run` makes one.",
    ),
    "TILERY_LIBRARY": Knob(
        str, "",
        "Path of libtilery.so for the Python package; empty: the one beside it.",
    ),
    "TILERY_REQUIRE_CPU": Knob(
        bool, False,
        "Tests: fail instead of skipping when the library is absent.",
    ),
}
_TRUE, _FALSE = ("1", "on", "true"), ("0", "off", "false")
_SUFFIXES = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40}
_LEVELS = ("debug", "info", "warning", "error", "off")
# What a value must be beyond its type, as in runtime/base/knobs.cpp.
_ALLOWED = {
    "TILERY_TIMEOUT_S": (lambda value: 0 <= value < math.inf,
                         "a number of seconds, 0 for none"),
    "TILERY_HEAP_BYTES": (lambda value: value >= 1, "1 or more"),
    "TILERY_CACHE_BYTES": (lambda value: value >= 0, "0 or more"),
    "TILERY_SEED": (lambda value: value >= -1, "0 or more, or -1 for none"),
    "TILERY_SPIN_US": (lambda value: value >= 0, "0 or more"),
    "TILERY_LOG": (lambda value: value in _LEVELS, "debug, info, warning, error or off"),
}


def get(name: str):
    """The value of a knob, in its type; ConfigError when the text does not fit.

    Example: `get("TILERY_TIMEOUT_S")` is 60.0 unless the environment says otherwise.
    """
    knob = KNOBS[name]
    text = os.environ.get(name)
    if not text:
        return knob.default
    value = _parse(name, knob.type, text)
    allowed, wanted = _ALLOWED.get(name, (lambda _: True, ""))
    if not allowed(value):
        raise ConfigError(f"{name} is '{text}'; it takes {wanted}")
    return value


def _parse(name: str, kind: type, text: str):
    if kind is bool:
        if text in _TRUE + _FALSE:
            return text in _TRUE
        raise ConfigError(f"{name} is '{text}'; it takes 1 or 0")
    if kind is int:
        return _integer(name, text)
    try:
        return kind(text)
    except ValueError:
        raise ConfigError(f"{name} is '{text}'; it takes a number") from None


def _integer(name: str, text: str) -> int:
    parts = re.fullmatch(r"(-?\d+)([kmgt]?)", text, re.I | re.A)
    value = int(parts[1]) * _SUFFIXES[parts[2].lower()] if parts else 1 << 63
    if not -(1 << 63) <= value < 1 << 63:
        raise ConfigError(f"{name} is '{text}'; it takes a whole number (k, M, G and T multiply "
                          "by 1024)")
    return value


def warn_unknown() -> None:
    """Warns once of each variable TILERY_* that does not exist, with the nearest name."""
    known = list(KNOBS)
    for name in sorted(os.environ):
        if name.startswith("TILERY_") and name not in known:
            warnings.warn(f"unknown variable {name} is ignored; {nearest(name, known)}",
                          stacklevel=3)
