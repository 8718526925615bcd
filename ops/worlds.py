# SPDX-FileCopyrightText: The Tilery authors
# SPDX-License-Identifier: Apache-2.0
"""Inputs and worlds for the tests of communicating operators.

Every rank's input comes from a generator seeded with its rank, so that a test computes the
expected result without any communication.
"""

from __future__ import annotations

import numpy as np
from backends import random_array

import tilery as ty

RANKS = [1, 2, 3, 4, 8]


def data_of(rank: int, shape, dtype: str = "fp32", call: int = 0) -> np.ndarray:
    return random_array(np.random.default_rng([7, rank, call]), shape, dtype)


def run(body, ranks: int, **options) -> list:
    """ty.spawn with a timeout that a hanging test reaches soon."""
    return ty.spawn(body, ranks=ranks, timeout=30.0, **options)
