# SPDX-FileCopyrightText: The Tilery authors
# SPDX-License-Identifier: Apache-2.0
"""Products that communicate, with gradients that do so as well.

Shapes: a is [rows, ..., K], b [K, N], of any strides, so that `weight.t()` of a linear layer costs no
copy. Products are fp32, fp16 or bf16, in autocast its type, and add up in fp32; local products are torch's.

The gradients are those of tensor parallelism with sequence parallelism (Korthikanti et al., "Reducing
Activation Recomputation in Large Transformer Models", 2022, section 4.2.2).
"""

from __future__ import annotations

import torch

from tilery.errors import LaunchError
from tilery.interop.torch_collectives import _all_gather, _reduce_scatter, operator
from tilery.interop.torch_groups import name_of, part, run, size_of


def _matrix(x):
    """x itself unless it is expanded, or has steps in both dimensions."""
    return x if 1 in x.stride() and 0 not in x.stride() else x.contiguous()


def _flat(x):
    """As a matrix of rows."""
    return _matrix(x.flatten(0, -2) if x.dim() > 1 else x.unsqueeze(0))


def _check_rows(operator: str, a, extent, group: str) -> None:
    """Parts are of whole rows; those of a flattened tensor must be those of its first dimension."""
    if a.dim() < 2:
        raise LaunchError(f"{operator}: 'a' has shape {list(a.shape)}; it needs two dimensions or more")
    if a.dim() > 2 and extent % size_of(group):
        raise LaunchError(f"{operator}: a first dimension of {extent} is not a multiple of "
                          f"{size_of(group)} ranks, which 'a' with {a.dim()} dimensions needs; "
                          "flatten it to [tokens, K], or pad it")


def _weight_gradient(a, grad, b):
    """a^T @ grad, laid out as b: torch copies a gradient whose layout is not the parameter's."""
    a, grad = _flat(a), _flat(grad)
    return (grad.t() @ a).t() if b.stride(0) == 1 else a.t() @ grad


def _bias_gradient(bias: bool, grad):
    return _flat(grad).sum(0) if bias else None


def _add(out, bias):
    return out if bias is None else out.add_(bias)


def _remember(ctx, inputs, output) -> None:
    a, b, bias, *ctx.rest = inputs
    ctx.bias = bias is not None
    ctx.save_for_backward(a, b)


def _gather_shapes(a, b, bias, extent, gathered, group):
    _check_rows("all_gather_matmul", a, extent, group)
    rows = extent if gathered else 0
    return (a.new_empty((extent, *a.shape[1:-1], b.shape[1])), a.new_empty((rows, *a.shape[1:])))


def _remember_gather(ctx, inputs, output) -> None:
    a, b, bias, ctx.extent, ctx.gathered, ctx.group = inputs
    ctx.bias = bias is not None
    ctx.save_for_backward(output[1] if ctx.gathered else a, b)
    ctx.set_materialize_grads(False)


def _gather_backward(ctx, grad, grad_gathered):
    kept, b = ctx.saved_tensors
    group, needs = ctx.group, ctx.needs_input_grad
    grad_a = grad_b = grad_bias = None
    if grad is not None:
        if needs[0]:
            grad_a = _matmul_reduce_scatter(grad, b.t(), None, group)
        if needs[1]:
            full = kept if ctx.gathered else _all_gather(kept, ctx.extent, False, group)
            grad_b = _weight_gradient(full, grad, b)
        grad_bias = _bias_gradient(ctx.bias and needs[2], grad)
    if grad_gathered is not None and needs[0]:
        more = _reduce_scatter(grad_gathered, group)
        grad_a = more if grad_a is None else grad_a + more
    return grad_a, grad_b, grad_bias, None, None, None


@operator("all_gather_matmul", "(Tensor a, Tensor b, Tensor? bias, SymInt extent, bool gathered, "
          "str group) -> (Tensor, Tensor)", _gather_shapes, _gather_backward, _remember_gather)
def _all_gather_matmul(a, b, bias, extent, gathered, group):
    out, full = _gather_shapes(a, b, bias, extent, gathered, group)
    more = (_flat(full),) if gathered else ()
    run("ag_gemm", group, _flat(a).contiguous(), _matrix(b), _flat(out), *more)
    return _add(out, bias), full


def _scatter_shape(a, b, bias, group):
    _check_rows("matmul_reduce_scatter", a, a.shape[0], group)
    return a.new_empty((part(group, a.shape[0])[1], *a.shape[1:-1], b.shape[1]))


def _scatter_backward(ctx, grad):
    a, b = ctx.saved_tensors
    needs, extent, group = ctx.needs_input_grad, a.shape[0], ctx.rest[0]
    grad_a = full = None
    if needs[0]:
        grad_a, full = _all_gather_matmul(grad, b.t(), None, extent, True, group)
    elif needs[1] or ctx.bias:
        full = _all_gather(grad, extent, False, group)
    grad_b = _weight_gradient(a, full, b) if needs[1] else None
    return grad_a, grad_b, _bias_gradient(ctx.bias and needs[2], full), None


@operator("matmul_reduce_scatter", "(Tensor a, Tensor b, Tensor? bias, str group) -> Tensor",
          _scatter_shape, _scatter_backward, _remember)
def _matmul_reduce_scatter(a, b, bias, group):
    out = _scatter_shape(a, b, bias, group)
    run("gemm_rs", group, _flat(a), _matrix(b), _flat(out))
    return _add(out, bias)


def _reduce_backward(ctx, grad):
    a, b = ctx.saved_tensors
    needs = ctx.needs_input_grad
    return (grad @ b.t() if needs[0] else None, _weight_gradient(a, grad, b) if needs[1] else None,
            _bias_gradient(ctx.bias and needs[2], grad), None)


@operator("matmul_all_reduce", "(Tensor a, Tensor b, Tensor? bias, str group) -> Tensor",
          lambda a, b, bias, group: a.new_empty((*a.shape[:-1], b.shape[1])), _reduce_backward,
          _remember)
def _matmul_all_reduce(a, b, bias, group):
    out = a.new_empty((*a.shape[:-1], b.shape[1]))
    run("gemm_ar", group, _flat(a), _matrix(b), _flat(out))
    return _add(out, bias)


class _ReplicatedMatmul(torch.autograd.Function):
    @staticmethod
    def forward(ctx, a, b, bias, group):
        ctx.save_for_backward(a, b)
        ctx.bias, ctx.group = bias is not None, group
        return torch.nn.functional.linear(a, b.t(), bias)

    @staticmethod
    def backward(ctx, grad):
        a, b = ctx.saved_tensors
        needs = ctx.needs_input_grad
        return (_matmul_all_reduce(grad, b.t(), None, ctx.group) if needs[0] else None,
                _weight_gradient(a, grad, b) if needs[1] else None,
                _bias_gradient(ctx.bias and needs[2], grad), None)


def _in_autocast(a, *others):
    """The operands in the type of torch.autocast where it is on, as torch's products have them."""
    device = a.device.type
    if not torch.is_autocast_enabled(device):
        return a, *others
    dtype = torch.get_autocast_dtype(device)
    return tuple(x if x is None else x.to(dtype) for x in (a, *others))


def all_gather_matmul(a, b, bias=None, group=None, *, extent: int | None = None,
                      return_gathered: bool = False):
    """all_gather(a) @ b + bias, tiles computed as their rows arrive: [rows, ..., N].

    a: this rank's rows [rows / ranks, ..., K]; b [K, N] and bias [N] may differ between ranks, also in N.
    extent: all rows together, needed where they do not divide evenly (a is then [own rows, K]).
    return_gathered: returns (product, all_gather(a)), and keeps the latter for the backward pass,
    which gathers again otherwise. Gradients: of a by matmul_reduce_scatter, of b and bias of this rank's own.

    Example: `y = all_gather_matmul(x, weight.t(), group=group)`.
    """
    group = name_of(group)
    a, b, bias = _in_autocast(a, b, bias)
    extent = a.shape[0] * size_of(group) if extent is None else extent
    product, gathered = _all_gather_matmul(a, b, bias, extent, return_gathered, group)
    return (product, gathered) if return_gathered else product


def matmul_reduce_scatter(a, b, bias=None, group=None):
    """This rank's rows of the sum over ranks of a @ b, plus bias: [rows / ranks, ..., N].

    a [rows, ..., K], b [K, N]; K may differ between ranks. bias [N], the same on all ranks, is added
    once. Gradients: of a by all_gather_matmul, of bias over all rows.
    """
    return _matmul_reduce_scatter(*_in_autocast(a, b, bias), name_of(group))


def matmul_all_reduce(a, b, bias=None, group=None):
    """The sum over ranks of a @ b, plus bias, the same bits on every rank: [rows, ..., N].

    a [rows, ..., K], b [K, N]; K may differ between ranks. bias [N], the same on all ranks, is added
    once. Gradients are local products: what follows is the same on all ranks.
    """
    return _matmul_all_reduce(*_in_autocast(a, b, bias), name_of(group))


def replicated_matmul(a, b, bias=None, group=None):
    """a @ b + bias, where a is the same on all ranks and b is not: a local product, whose gradient of
    a is the sum over ranks (matmul_all_reduce)."""
    return _ReplicatedMatmul.apply(*_in_autocast(a, b, bias), name_of(group))
