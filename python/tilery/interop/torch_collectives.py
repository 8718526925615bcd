# SPDX-FileCopyrightText: The Tilery authors
# SPDX-License-Identifier: Apache-2.0
"""Collectives on torch's process groups, as custom operators with gradients.

`group` is a ProcessGroup, a DeviceMesh of one dimension, or None for all ranks. All of them run on
torch's current stream. docs/torch.md tells which gradient each has, and why.
"""

from __future__ import annotations

import torch

from tilery.interop.torch_groups import name_of, part, run, size_of
from tilery.interop.torch_order import keep_order, order_in_inductor


def operator(name: str, schema: str, shape, backward=None, setup=None):
    """Makes the decorated function the custom operator tilery::<name>; `shape` is its fake. Calls stay in
    the program's order under torch.compile as well."""
    def make(function):
        made = torch.library.custom_op(f"tilery::{name}", function, mutates_args=(), schema=schema)

        @made.register_fake
        def fake(*args, **kwargs):
            order_in_inductor(made)
            return shape(*args, **kwargs)

        if backward is not None:
            made.register_autograd(backward, setup_context=setup)
        keep_order(made)
        return made
    return make


def own(x, extent: int, group: str):
    """Room for this rank's part of `extent` rows like those of x."""
    return x.new_empty((part(group, extent)[1], *x.shape[1:]))


def _remember(ctx, inputs, output) -> None:
    ctx.first, *ctx.rest = inputs[0].shape[:1], *inputs[1:]


def _gather_backward(ctx, grad):
    extent, replicated, group = ctx.rest
    if replicated:
        return grad.narrow(0, *part(group, extent)), None, None, None
    return _reduce_scatter(grad, group), None, None, None


@operator("all_gather", "(Tensor x, SymInt extent, bool replicated, str group) -> Tensor",
          lambda x, extent, replicated, group: x.new_empty((extent, *x.shape[1:])),
          _gather_backward, _remember)
def _all_gather(x, extent, replicated, group):
    out = x.new_empty((extent, *x.shape[1:]))
    run("all_gather", group, x.contiguous(), out)
    return out


def _scatter_backward(ctx, grad):
    return _all_gather(grad, ctx.first[0], False, ctx.rest[0]), None


@operator("reduce_scatter", "(Tensor x, str group) -> Tensor",
          lambda x, group: own(x, x.shape[0], group), _scatter_backward, _remember)
def _reduce_scatter(x, group):
    out = own(x, x.shape[0], group)
    run("reduce_scatter", group, x.contiguous(), out)
    return out


def _reduce_backward(ctx, grad):
    replicated, group = ctx.rest
    return grad if replicated else _all_reduce(grad, False, group), None, None


@operator("all_reduce", "(Tensor x, bool replicated, str group) -> Tensor",
          lambda x, replicated, group: x.new_empty(x.shape), _reduce_backward, _remember)
def _all_reduce(x, replicated, group):
    out = x.new_empty(x.shape)
    run("all_reduce", group, x.contiguous(), out)
    return out


@operator("all_to_all", "(Tensor x, str group) -> Tensor", lambda x, group: x.new_empty(x.shape),
          lambda ctx, grad: (_all_to_all(grad, ctx.rest[0]), None), _remember)
def _all_to_all(x, group):
    out = x.new_empty(x.shape)
    run("all_to_all", group, x.contiguous(), out)
    return out


def _broadcast_backward(ctx, grad):
    root, group = ctx.rest
    total = _all_reduce(grad, False, group)
    return total if part(group, size_of(group))[0] == root else torch.zeros_like(total), None, None


@operator("broadcast", "(Tensor x, int root, str group) -> Tensor",
          lambda x, root, group: x.new_empty(x.shape), _broadcast_backward, _remember)
def _broadcast(x, root, group):
    out = x.new_empty(x.shape)
    run("broadcast", group, x.contiguous(), out, root=root)
    return out


class _SumGradients(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, group):
        ctx.group = group
        return x.view_as(x)

    @staticmethod
    def backward(ctx, grad):
        return _all_reduce(grad, False, ctx.group), None


class _Shard(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, group):
        ctx.group, ctx.extent = group, x.shape[0]
        return x.narrow(0, *part(group, x.shape[0])).clone()

    @staticmethod
    def backward(ctx, grad):
        return _all_gather(grad, ctx.extent, False, ctx.group), None


def all_gather(x, group=None, *, dim: int = 0, extent: int | None = None, replicated: bool = False):
    """The ranks' x, joined along `dim` in the order of the group's ranks.

    extent: of the result along `dim`; needed where the parts differ, which are then ceil(extent /
    ranks) long until nothing is left. Gradient: this rank's part of the sum of all ranks' gradients
    (reduce_scatter). replicated=True says that all ranks go on with the same computation, so that
    their gradients are equal: it is this rank's part, without communication.

    Example: `full = all_gather(shard, group)` of [S / ranks, B, H] is [S, B, H].
    """
    group, first = name_of(group), x.movedim(dim, 0)
    total = first.shape[0] * size_of(group) if extent is None else extent
    return _all_gather(first, total, replicated, group).movedim(0, dim)


def reduce_scatter(x, group=None, *, dim: int = 0):
    """This rank's part along `dim` of the sum of all ranks' x. Gradient: all_gather.

    Parts are ceil(extent / ranks) long until nothing is left. Sums are in fp32 or wider.
    """
    return _reduce_scatter(x.movedim(dim, 0), name_of(group)).movedim(0, dim)


def all_reduce(x, group=None, *, replicated: bool = True):
    """The sum of all ranks' x, the same bits on every rank.

    Gradient: the gradient itself, because what follows is the same on all ranks (Megatron-LM's
    "reduce from the region"). replicated=False says that each rank goes on differently; then it is the sum
    of all ranks' gradients, as in torch.distributed.nn.functional.
    """
    return _all_reduce(x, replicated, name_of(group))


def all_to_all(x, group=None, *, split_dim: int = 0, concat_dim: int = 0):
    """Block p of x along `split_dim` goes to rank p; what arrives is joined along `concat_dim`.

    The extent along `split_dim` must be a multiple of the ranks. Gradient: all_to_all back.

    Example: attention over a sequence that is sharded turns [S / ranks, B, heads, D] into
    [S, B, heads / ranks, D] by `all_to_all(x, group, split_dim=2, concat_dim=0)`.
    """
    group = name_of(group)
    got = _all_to_all(x.movedim(split_dim, 0), group)
    if split_dim == concat_dim:
        return got.movedim(0, split_dim)
    blocks = got.unflatten(0, (size_of(group), -1)).unbind(0)
    return torch.cat([block.movedim(0, split_dim) for block in blocks], concat_dim)


def broadcast(x, root: int = 0, group=None):
    """x of rank `root` of the group, on every rank; x has its shape and type on all ranks.

    Gradient: on the root the sum of all ranks' gradients, elsewhere 0.
    """
    return _broadcast(x, root, name_of(group))


def sum_gradients(x, group=None):
    """x; its gradient is the sum of all ranks' gradients (Megatron-LM's "copy to the region").

    For what is the same on all ranks while each rank computes something else from it: the input of a
    column-parallel product, a norm's weight in a sequence-parallel region.
    """
    return _SumGradients.apply(x, name_of(group))


def shard(x, group=None, *, dim: int = 0):
    """This rank's part along `dim` of x, which is the same on all ranks. Gradient: all_gather."""
    return _Shard.apply(x.movedim(dim, 0), name_of(group)).movedim(0, dim)
