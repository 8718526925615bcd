# SPDX-FileCopyrightText: The Tilery authors
# SPDX-License-Identifier: Apache-2.0
"""Fixtures of the Python tests."""

from backends import backend, compiled, interpreted  # noqa: F401


def pytest_addoption(parser):
    parser.addoption("--programs", type=int, default=200, help="random programs to compare")
    parser.addoption("--programs-seed", type=int, default=20, help="seed of the first part")
