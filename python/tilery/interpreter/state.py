# SPDX-FileCopyrightText: The Tilery authors
# SPDX-License-Identifier: Apache-2.0
"""Which task of the interpreter runs now: a program instance, a rank's host code, or none."""

from __future__ import annotations

import sys
from pathlib import Path

from tilery.errors import CompileError

_PACKAGE = str(Path(__file__).resolve().parent.parent)
# Code of the package that a user's frame is never in.
_INSIDE = tuple(f"{_PACKAGE}/{name}" for name in
                ("language/", "interpreter/", "kernels.py", "world.py", "tensor.py", "tuning.py"))


def task():
    """The running task, or None outside of the interpreter's scheduler."""
    greenlets = sys.modules.get("greenlet")
    return getattr(greenlets.getcurrent(), "task", None) if greenlets else None


def instance():
    """The running program instance; an error outside of a kernel."""
    running = task()
    if running is None or running.program_id is None:
        raise CompileError("functions of tilery.language work only inside a kernel; "
                           "launch it with kernel[grid](...)")
    return running


def inside_kernel() -> bool:
    running = task()
    return running is not None and running.program_id is not None


def is_users(filename: str) -> bool:
    return not filename.startswith(_INSIDE)


def users_frame(frame):
    """The innermost frame at or above `frame` that is the user's code, or None."""
    while frame is not None and not is_users(frame.f_code.co_filename):
        frame = frame.f_back
    return frame
