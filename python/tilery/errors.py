# SPDX-FileCopyrightText: The Tilery authors
# SPDX-License-Identifier: Apache-2.0
"""The exceptions of the package: one class for each kind of fault, all under `Error`.

The kinds are those of the C interface (`tilery_status`), so that an error has the same class
whether the interpreter, the compiler or the runtime found it.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class Error(Exception):
    """Base of all errors of tilery. `str(error)` is lower case, says where and how to fix."""


class CompileError(Error):
    """The kernel's source is wrong: types, names, unsupported constructs."""


class ConfigError(Error):
    """An option, a knob or an environment variable is wrong."""


class TargetError(Error):
    """The target lacks a feature, which the message names."""


class LaunchError(Error):
    """A launch is wrong: arguments, grid, residency, or a failed device assertion."""


class PeerError(Error):
    """Another rank died or failed."""


class WaitTimeout(Error):
    """A wait expired, or a deadlock was found."""


class InternalError(Error):
    """A bug in tilery itself."""


# Index: tilery_status.
KINDS = (None, CompileError, ConfigError, TargetError, LaunchError, PeerError, WaitTimeout,
         InternalError)


def describe(error: BaseException) -> str:
    """Class and text of any exception; the class alone when making the text raises.

    Example: `describe(ValueError("no"))` is `"ValueError: no"`.
    """
    try:
        return f"{type(error).__name__}: {error}"
    except Exception:
        return type(error).__name__


def nearest(word: str, candidates: Iterable[str]) -> str:
    """Text that names the candidate nearest to `word`, or lists all of them.

    Example: `nearest("num_warp", ["num_warps"])` is `"did you mean 'num_warps'?"`.
    """
    candidates = list(candidates)
    close = difflib.get_close_matches(word, candidates, n=1, cutoff=0.5)
    if close:
        return f"did you mean '{close[0]}'?"
    return "known names: " + ", ".join(candidates) if candidates else "there are none"
