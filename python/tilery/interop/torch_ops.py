# SPDX-FileCopyrightText: The Tilery authors
# SPDX-License-Identifier: Apache-2.0
"""The operator library as torch custom operators with fake implementations, so that torch.compile
traces around them. They have no gradients."""

from __future__ import annotations

import functools

from tilery import ops


def _rows(x):
    """The last dimension's rows as a matrix that an operator takes."""
    flat = x.reshape(-1, x.shape[-1])
    return flat if flat.stride(-1) == 1 else flat.contiguous()


def _like(x):
    import torch
    return torch.empty(x.shape, dtype=x.dtype, device=x.device)


def _product(a, b, bias=None, residual=None, scale_a=None, scale_b=None, activation="none",
             dtype=None):
    """Where a @ b goes: sums of integers are wider, products of 8-bit floats are bfloat16."""
    import torch
    if dtype is None and (a.dtype.is_floating_point and a.element_size() == 1
                          or a.dtype == torch.int8 and scale_a is not None):
        dtype = torch.bfloat16
    elif dtype is None:
        dtype = torch.int32 if a.dtype == torch.int8 else a.dtype
    return torch.empty((*a.shape[:-1], b.shape[-1]), dtype=dtype, device=a.device)


def matmul(a, b, bias=None, residual=None, scale_a=None, scale_b=None, activation="none",
           dtype=None):
    out = _product(a, b, scale_a=scale_a, dtype=dtype)
    ops.matmul(a, b, out, bias, residual, scale_a, scale_b, activation=activation)
    return out


def softmax(x):
    out = _like(x)
    ops.softmax(_rows(x), _rows(out))
    return out


def rms_norm(x, weight, eps=1e-6):
    out = _like(x)
    ops.rms_norm(_rows(x), weight, _rows(out), eps=eps)
    return out


def layer_norm(x, weight=None, bias=None, eps=1e-5):
    out = _like(x)
    ops.layer_norm(_rows(x), _rows(out), weight, bias, eps=eps)
    return out


def attention(q, k, v, mask=None, causal=False, scale=None):
    q, k, v = (t if t.stride(-1) == 1 else t.contiguous() for t in (q, k, v))
    out = _like(q)
    ops.attention(q, k, v, out, *(() if mask is None else (mask,)), causal=causal, scale=scale)
    return out


def decode(q, k, v, lengths=None, causal=False, scale=None):
    q, k, v = (t if t.stride(-1) == 1 else t.contiguous() for t in (q, k, v))
    out = _like(q)
    ops.decode(q, k, v, out, lengths, causal=causal, scale=scale)
    return out


def swiglu(gate, up=None):
    out = _half(gate) if up is None else _like(gate)
    ops.swiglu(_rows(gate), _rows(out), *(() if up is None else (_rows(up),)))
    return out


def _half(x):
    import torch
    return torch.empty((*x.shape[:-1], x.shape[-1] // 2), dtype=x.dtype, device=x.device)


def rope(q, k, cos, sin, positions=None, interleaved=False):
    q, k = (t if t.stride(-1) == 1 else t.contiguous() for t in (q, k))
    outs = _like(q), _like(k)
    ops.rope(q, outs[0], cos, sin, k, outs[1], *(() if positions is None else (positions,)),
             interleaved=interleaved)
    return outs


# What runs, its schema, and what it returns when only shapes are asked for.
_OPERATORS = {
    "matmul": (matmul, "(Tensor a, Tensor b, Tensor? bias=None, Tensor? residual=None, "
                       "Tensor? scale_a=None, Tensor? scale_b=None, str activation='none', "
                       "ScalarType? dtype=None) -> Tensor", _product),
    "softmax": (softmax, "(Tensor x) -> Tensor", _like),
    "rms_norm": (rms_norm, "(Tensor x, Tensor weight, float eps=1e-06) -> Tensor",
                 lambda x, weight, eps=1e-6: _like(x)),
    "layer_norm": (layer_norm, "(Tensor x, Tensor? weight=None, Tensor? bias=None, "
                               "float eps=1e-05) -> Tensor",
                   lambda x, weight=None, bias=None, eps=1e-5: _like(x)),
    "attention": (attention, "(Tensor q, Tensor k, Tensor v, Tensor? mask=None, "
                             "bool causal=False, float? scale=None) -> Tensor",
                  lambda q, k, v, mask=None, causal=False, scale=None: _like(q)),
    "decode": (decode, "(Tensor q, Tensor k, Tensor v, Tensor? lengths=None, bool causal=False, "
                       "float? scale=None) -> Tensor",
               lambda q, k, v, lengths=None, causal=False, scale=None: _like(q)),
    "swiglu": (swiglu, "(Tensor gate, Tensor? up=None) -> Tensor",
               lambda gate, up=None: _half(gate) if up is None else _like(gate)),
    "rope": (rope, "(Tensor q, Tensor k, Tensor cos, Tensor sin, Tensor? positions=None, "
                   "bool interleaved=False) -> (Tensor, Tensor)",
             lambda q, k, cos, sin, positions=None, interleaved=False: (_like(q), _like(k))),
}


@functools.cache
def define() -> dict:
    """Registers all of them once; returns the callables by name."""
    import torch

    made = {}
    for name, (run, schema, fake) in _OPERATORS.items():
        operator = torch.library.custom_op(f"tilery::{name}", run, mutates_args=(), schema=schema)
        operator.register_fake(fake)
        made[name] = operator
    return made
