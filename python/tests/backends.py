# SPDX-FileCopyrightText: The Tilery authors
# SPDX-License-Identifier: Apache-2.0
"""Fixtures that run a test in the interpreter, on the CPU and on an accelerator; tolerances."""

from __future__ import annotations

import numpy as np
import pytest
import staging

import tilery as ty
from tilery import _capi, knobs


def require_library() -> None:
    """Skips with the reason while the library is not built; fails where that is not allowed."""
    if _capi.find() is not None:
        return
    reason = "libtilery.so is not built"
    if knobs.get("TILERY_REQUIRE_CPU"):
        pytest.fail(reason)
    pytest.skip(reason)


def require_device() -> None:
    """Skips with the reason when no accelerator can be used."""
    reason = staging.missing() or staging.lost()
    if reason:
        pytest.skip(reason)


@pytest.fixture(params=["interpret", "cpu", "cuda"])
def backend(request, monkeypatch):
    """The name of the backend that launches in this test use. On "cuda" the test's arrays are
    copied to the device and back (staging.py)."""
    if request.param == "cpu":
        require_library()
    if request.param == "cuda":
        require_device()
        ty.finalize()  # a world of other tests has its memory on the host
        staging.install(monkeypatch, request.param)
    with ty.interpret(request.param == "interpret"):
        yield request.param
    if request.param == "cuda":
        ty.finalize()


@pytest.fixture
def interpreted():
    with ty.interpret():
        yield "interpret"


@pytest.fixture
def compiled():
    require_library()
    with ty.interpret(False):
        yield "cpu"


@pytest.fixture(params=["cpu", "cuda"])
def host(request, monkeypatch):
    """Where operators called with their host side run; "cuda" as in `backend`."""
    require_library()
    if request.param == "cuda":
        require_device()
        ty.finalize()
        staging.install(monkeypatch, request.param)
    with ty.interpret(False):
        yield request.param
    if request.param == "cuda":
        ty.finalize()


def numpy_type(name: str) -> np.dtype:
    """The NumPy type of a kernel language name: "fp32", "bf16", "int8"."""
    from tilery.language.dtypes import from_any
    return from_any(name).numpy


def random_array(rng, shape, name: str = "fp32", scale: float = 1.0) -> np.ndarray:
    """Normal floats or small integers of the type `name`."""
    ty_ = numpy_type(name)
    if np.issubdtype(ty_, np.integer):
        return rng.integers(-8 if name[0] == "i" else 0, 8, size=shape).astype(ty_)
    return (rng.standard_normal(shape) * scale).astype(np.float32).astype(ty_)


_EPSILON = {"float64": 2.0**-52, "float32": 2.0**-23, "float16": 2.0**-10, "bfloat16": 2.0**-7}


def assert_close(actual, expected64, *, depth: int = 1, ulps: float = 2.0, addends=()) -> None:
    """`actual` against a float64 reference.

    addends: what is added up after each has been rounded to the type of `actual`, which adds half a
    unit of each to the bound.

    float32 within 1e-5 relative; halves within `ulps` units of the correctly rounded value; for
    sums of `depth` products the bound grows with sqrt(depth) of the float32 rounding error.
    """
    name = actual.dtype.name
    expected64 = np.asarray(expected64, np.float64)
    if name not in _EPSILON:
        np.testing.assert_array_equal(actual, expected64.astype(actual.dtype))
        return
    wide = actual.astype(np.float64)
    scale = np.maximum(np.abs(expected64), 1.0 if depth > 1 else 2.0**-14)
    accumulate = 2.0**-23 * 4 * np.sqrt(depth) * (np.sqrt(depth) if depth > 1 else 1)
    bound = (1e-5 if name == "float32" else 1e-13 if name == "float64"
             else ulps * _EPSILON[name]) * scale
    bound = bound + (accumulate * scale if depth > 1 and name != "float64" else 0)
    for addend in addends:
        bound = bound + _EPSILON[name] / 2 * np.abs(addend)
    with np.errstate(invalid="ignore"):
        wrong = ~((np.abs(wide - expected64) <= bound) | (wide == expected64) |
                  (np.isnan(wide) & np.isnan(expected64)))
    if wrong.any():
        at = tuple(int(i[0]) for i in np.nonzero(wrong))
        raise AssertionError(f"{int(wrong.sum())} of {wrong.size} elements differ; first at {at}: "
                             f"got {wide[at]}, expected {expected64[at]}")
