# SPDX-FileCopyrightText: The Tilery authors
# SPDX-License-Identifier: Apache-2.0
"""Core level of the kernel language: every name of `tl`, with its NumPy reference semantics.

Compiled kernels never call these functions: the front end knows them by name. Under
`ty.interpret()` a kernel runs as plain Python on them.
"""

from tilery.language.dtypes import (  # noqa: F401
    bfloat16, dtype, float8e4nv, float8e5, float16, float32, float64, int1, int8, int16, int32,
    int64, pointer_type, uint8, uint16, uint32, uint64,
)
from tilery.language.math import (  # noqa: F401
    abs, cdiv, ceil, clamp, cos, div_rn, erf, exp, exp2, fdiv, floor, fma, log, log2, maximum,
    minimum, next_power_of_2, rsqrt, sigmoid, sin, sqrt, sqrt_rn, tanh, umulhi,
)
from tilery.language.memory import (  # noqa: F401
    advance, atomic_add, atomic_and, atomic_cas, atomic_max, atomic_min, atomic_or, atomic_xchg,
    atomic_xor, load, load_tensor_descriptor, make_block_ptr, make_tensor_descriptor, store,
    store_tensor_descriptor, tensor_descriptor,
)
from tilery.language.reductions import (  # noqa: F401
    argmax, argmin, associative_scan, cumprod, cumsum, histogram, max, min, reduce, softmax, sort,
    sum, topk, xor_sum,
)
from tilery.language.shapes import (  # noqa: F401
    arange, assume, broadcast, broadcast_to, cast, cat, debug_barrier, device_assert, device_print,
    dot, expand_dims, flip, full, gather, interleave, join, max_constancy, max_contiguous,
    multiple_of, num_programs, permute, program_id, range, ravel, reshape, split, static_assert,
    static_print, static_range, swizzle2d, trans, view, where, zeros, zeros_like,
)
from tilery.language.values import block_type, constexpr, tensor  # noqa: F401
from tilery.language import shapes as _shapes


class PropagateNan:
    """How maximum, minimum and clamp treat a NaN."""

    NONE = "none"
    ALL = "all"


def _method(function):
    return lambda self, *args, **kwargs: function(self, *args, **kwargs)


for _name in "reshape view ravel permute trans broadcast_to expand_dims split gather".split():
    setattr(tensor, _name, _method(getattr(_shapes, _name)))
for _function in (abs, cdiv, exp, exp2, log, log2, cos, sin, tanh, sqrt, rsqrt, sigmoid, floor, ceil,
                  erf):
    setattr(tensor, _function.__name__, _method(_function))
