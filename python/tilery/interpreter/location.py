# SPDX-FileCopyrightText: The Tilery authors
# SPDX-License-Identifier: Apache-2.0
"""Gives an error of the interpreter the form file:line:column, with the source underlined."""

from __future__ import annotations

import itertools
import linecache
from pathlib import Path

from tilery.errors import Error
from tilery.interpreter import state


def position(frame) -> tuple[str, int, int, int]:
    """(file, line, first column, end column) of what `frame` executes, columns from 1."""
    code = frame.f_code
    return _position(code, frame.f_lasti, frame.f_lineno)


def _position(code, lasti: int, line: int) -> tuple[str, int, int, int]:
    found = next(itertools.islice(code.co_positions(), lasti // 2, None), None)
    start, end_line, column, end = found if found else (line, line, None, None)
    if column is None or start != line or end_line != line:
        text = linecache.getline(code.co_filename, line)
        column = len(text) - len(text.lstrip())
        end = max(column + 1, len(text.rstrip()))
    return code.co_filename, line, column + 1, end + 1


def short(frame) -> str:
    """"file.py:31" of the user's frame at or above `frame`."""
    frame = state.users_frame(frame)
    return f"{Path(frame.f_code.co_filename).name}:{frame.f_lineno}" if frame else "?"


def locate(error: Error, traceback) -> Error:
    """The same error with the user's place in front, once."""
    if getattr(error, "located", False):
        return error
    found = None
    while traceback is not None:
        if state.is_users(traceback.tb_frame.f_code.co_filename):
            found = traceback
        traceback = traceback.tb_next
    if found is None:
        return error
    text = render(_position(found.tb_frame.f_code, found.tb_lasti, found.tb_lineno), str(error))
    located = type(error)(text)
    located.located = True
    return located


def render(where: tuple[str, int, int, int], message: str) -> str:
    file, line, column, end = where
    source = linecache.getline(file, line).rstrip("\n")
    message, _, hint = message.partition("; ")
    text = f"{file}:{line}:{column}: error: {message}"
    if source:
        text += f"\n{source}\n{' ' * (column - 1)}{'~' * max(1, end - column)}"
    return text + (f"\nhint: {hint}" if hint else "")
