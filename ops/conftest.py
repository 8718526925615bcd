# SPDX-FileCopyrightText: The Tilery authors
# SPDX-License-Identifier: Apache-2.0
"""Fixtures of the operators' tests."""

from backends import backend, compiled, host, interpreted  # noqa: F401
