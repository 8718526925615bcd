# SPDX-FileCopyrightText: The Tilery authors
# SPDX-License-Identifier: Apache-2.0
"""Fixtures of the Python tests."""

from backends import backend, compiled, interpreted  # noqa: F401
