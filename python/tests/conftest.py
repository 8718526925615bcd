# SPDX-FileCopyrightText: The Tilery authors
# SPDX-License-Identifier: Apache-2.0
"""Fixtures of the Python tests."""

import signal

from backends import backend, compiled, interpreted  # noqa: F401

# Where tests run in the background their shell ignores Ctrl-C, which processes that they start would inherit.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_addoption(parser):
    parser.addoption("--programs", type=int, default=200, help="random programs to compare")
    parser.addoption("--programs-seed", type=int, default=20, help="seed of the first part")
