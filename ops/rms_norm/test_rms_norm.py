# SPDX-FileCopyrightText: The Tilery authors
# SPDX-License-Identifier: Apache-2.0
"""rms_norm against float64, with weights of another type (case 53)."""

import direct
import numpy as np
import pytest
from backends import assert_close, numpy_type, random_array


@pytest.mark.parametrize("dtype,weight_type", [("fp32", "fp32"), ("fp16", "fp16"),
                                               ("bf16", "fp32"), ("bf16", "bf16")])
@pytest.mark.parametrize("rows,n,at_once", [(1, 1, 1), (5, 17, 1), (5, 17, 2), (2, 512, 1), (9, 128, 4),
                                            (2, 1536, 1), (2, 2880, 1), (1, 3072, 1)])
def test_rms_norm(backend, dtype, weight_type, rows, n, at_once):
    rng = np.random.default_rng(n)
    x, weight = random_array(rng, (rows, n), dtype), random_array(rng, (n,), weight_type)
    y = np.zeros((rows, n), numpy_type(dtype))
    direct.rms_norm(x, weight, y, 1e-6, at_once)
    wide = x.astype(np.float64)
    scale = 1 / np.sqrt((wide**2).mean(axis=-1, keepdims=True) + 1e-6)
    assert_close(y, wide * scale * weight.astype(np.float64))
