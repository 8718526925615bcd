# SPDX-FileCopyrightText: The Tilery authors
# SPDX-License-Identifier: Apache-2.0
"""`ty.doctor()`: what was found, what was not and why, and a short self-test."""

from __future__ import annotations

import importlib.util
import json
import platform

from tilery import _capi, knobs
from tilery.errors import ConfigError, Error


def doctor(self_test: bool = True) -> dict:
    """Facts about this installation: {"python", "library", "interpreter", "knobs", "self_test"}.

    Each part that is missing says why. Never raises.

    Example: `ty.doctor()["library"]["found"]`.
    """
    report = {"python": {"version": platform.python_version(), "machine": platform.machine()},
              "library": _library(), "interpreter": _interpreter(), "knobs": _knobs()}
    if self_test:
        report["self_test"] = _self_test(report["library"]["found"])
    return report


def _library() -> dict:
    path = _capi.find()
    if path is None:
        return {"found": False, "why": "libtilery.so is in none of these places",
                "tried": [str(p) for p in _capi.candidates()]}
    try:
        _capi.launcher()
        return {"found": True, "path": str(path), "version": _capi.text_from("version"),
                "targets": json.loads(_capi.text_from("doctor", error=ConfigError))}
    except (Error, AttributeError, ValueError) as error:
        return {"found": False, "path": str(path), "why": str(error)}


def _interpreter() -> dict:
    missing = [name for name in ("greenlet", "ml_dtypes") if not importlib.util.find_spec(name)]
    return {"found": "greenlet" not in missing,
            "why": f"not installed: {', '.join(missing)}" if missing else ""}


def _knobs() -> dict:
    return {name: _knob(name) for name in knobs.KNOBS if name != "TILERY_JOB_TOKEN"}


def _knob(name: str):
    try:
        return knobs.get(name)
    except ConfigError as error:
        return f"wrong: {error}"


def _self_test(compiled: bool) -> dict:
    """A two-rank kernel on each back end that was found."""
    from tilery.kernels import interpret

    results = {}
    for name, enabled in (("interpret", True), ("cpu", False)):
        if name == "cpu" and not compiled:
            results[name] = "skipped: no library"
            continue
        try:
            with interpret(enabled):
                results[name] = _exchange_between_two_ranks()
        except (Error, ImportError) as error:
            results[name] = f"failed: {error}"
    return results


def _exchange_between_two_ranks() -> str:
    import numpy as np

    from tilery import world
    from tilery.selftest import swap

    def body():
        mine, theirs = np.full(8, world.rank() + 1.0, np.float32), world.zeros(8, "fp32", "theirs")
        swap[(1,)](mine, theirs, world.signals(1, "arrived"), 8)
        return bool((theirs.numpy() == 2 - world.rank()).all())

    return "passed" if all(world.spawn(body, ranks=2, timeout=10.0)) else "failed: wrong values"
