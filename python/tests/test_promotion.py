# SPDX-FileCopyrightText: The Tilery authors
# SPDX-License-Identifier: Apache-2.0
"""Triton 3.6's type promotion: the resulting type of each pair, on both back ends."""

import numpy as np
import pytest
from kernel_text import make

# (left, right, operation, result); a literal is written as itself.
RULES = [
    ("int8", "int16", "+", "int16"), ("int8", "uint8", "+", "uint8"),
    ("int32", "uint8", "+", "int32"), ("int32", "uint32", "+", "uint32"),
    ("int32", "int64", "*", "int64"), ("int64", "uint32", "-", "int64"),
    ("fp16", "fp16", "*", "fp16"), ("fp16", "fp16", "/", "fp32"), ("bf16", "bf16", "+", "bf16"),
    ("bf16", "bf16", "/", "fp32"), ("fp16", "bf16", "+", "fp16"), ("bf16", "fp32", "+", "fp32"),
    ("fp16", "int32", "+", "fp16"), ("bf16", "int8", "+", "fp32"), ("fp32", "int64", "*", "fp32"),
    ("fp32", "fp64", "+", "fp64"), ("int32", "int32", "/", "fp32"), ("int8", "int8", "*", "int8"),
    ("int8", "1", "+", "int8"), ("uint8", "7", "*", "uint8"), ("int8", "1.5", "+", "fp32"),
    ("fp16", "1.5", "*", "fp16"), ("bf16", "2", "+", "bf16"), ("fp16", "2.0", "/", "fp32"),
    ("int64", "3", "+", "int64"), ("fp32", "1e300", "+", "fp32"), ("int32", "int32", "//", "int32"),
    ("int16", "int16", "<", "int1"), ("int16", "int32", "&", "int32"),
]
LONG = {"fp16": "float16", "bf16": "bfloat16", "fp32": "float32", "fp64": "float64"}

SOURCE = '''@ty.jit
def kernel(out):
    a = tl.full((4,), 3, tl.{left})
    b = {right}
    c = a {symbol} b
    tl.static_assert(c.dtype == tl.{result}, "the type is not {result}")
    tl.store(out + tl.arange(0, 4), 1)
'''


@pytest.mark.parametrize("left,right,symbol,result", RULES)
def test_promotion(backend, left, right, symbol, result):
    literal = right[0].isdigit()
    value = right if literal else f"tl.full((4,), 2, tl.{LONG.get(right, right)})"
    source = SOURCE.format(left=LONG.get(left, left), right=value, symbol=symbol,
                           result=LONG.get(result, result))
    out = np.zeros(4, np.int32)
    make(source)[(1,)](out)
    assert (out == 1).all()


REDUCED = [("sum", "int8", "int32"), ("sum", "uint8", "uint32"), ("sum", "int64", "int64"),
           ("sum", "fp32", "fp32"), ("max", "fp16", "fp32"), ("max", "bf16", "fp32"),
           ("max", "int8", "int32"), ("min", "int64", "int64"), ("sum", "fp16", "fp16")]


@pytest.mark.parametrize("op,source,result", REDUCED)
def test_type_of_a_reduction(backend, op, source, result):
    kernel = make(f'''@ty.jit
def kernel(out):
    a = tl.full((4,), 3, tl.{LONG.get(source, source)})
    c = tl.{op}(a, axis=0)
    tl.static_assert(c.dtype == tl.{LONG.get(result, result)}, "the type is not {result}")
    tl.store(out, 1)
''')
    out = np.zeros(1, np.int32)
    kernel[(1,)](out)
    assert out[0] == 1


@pytest.mark.parametrize("value,expected", [(1, 2), (16, 17), (2**31 - 1, 2**31 - 1 + 1 - 2**32),
                                            (2**31, 2**31 + 1), (-1, 0)])
def test_integer_arguments(backend, value, expected):
    """An argument of 1 or divisible by 16 has the type of any other int32; larger ones int64."""
    out = np.zeros(1, np.int64)
    make('''@ty.jit
def kernel(out, n):
    tl.store(out, n + 1)
''')[(1,)](out, value)
    assert out[0] == expected
