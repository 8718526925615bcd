# SPDX-FileCopyrightText: The Tilery authors
# SPDX-License-Identifier: Apache-2.0
"""Linear layers whose weight is spread over the ranks of a process group.

With W the weight [out_features, in_features] of the nn.Linear that they stand for, a column-parallel
layer holds some rows of W (columns of W^T), a row-parallel one some columns. One after the other they
need one communication each way (Shoeybi et al., "Megatron-LM", 2019, section 3).

With sequence parallelism the first dimension of what lies between two such pairs is spread over the
ranks too: tokens [S / ranks, B, H] or [tokens / ranks, H], and the communication is part of the products.
"""

from __future__ import annotations

import math

import torch
from torch import nn

from tilery.errors import ConfigError
from tilery.interop import torch_collectives as collectives, torch_products as products
from tilery.interop.torch_groups import name_of, part, size_of


class _ParallelLinear(nn.Module):
    """What both have in common. `sharded_dim` is the dimension of the weight that is spread."""

    sharded_dim: int

    def __init__(self, in_features: int, out_features: int, bias: bool = True, *, group=None,
                 sequence_parallel: bool = False, device=None, dtype=None):
        super().__init__()
        self.in_features, self.out_features = in_features, out_features
        self.group, self.group_name = group, name_of(group)
        self.ranks, self.sequence_parallel = size_of(self.group_name), sequence_parallel
        shape = [out_features, in_features]
        shape[self.sharded_dim] = self._part()[1]
        self.weight = nn.Parameter(torch.empty(shape, device=device, dtype=dtype))
        if bias:
            rows = shape[0] if self.sharded_dim == 0 else out_features
            self.bias = nn.Parameter(torch.empty(rows, device=device, dtype=dtype))
        else:
            self.register_parameter("bias", None)
        self.reset_parameters()

    def _part(self) -> tuple[int, int]:
        """Where this rank's part of the weight begins, and its extent."""
        whole = (self.out_features, self.in_features)[self.sharded_dim]
        return part(self.group_name, whole)

    def reset_parameters(self) -> None:
        """Draws the whole weight as nn.Linear does and keeps this rank's part. So ranks that are
        seeded alike get parts of one weight, the one that nn.Linear has after the same seed."""
        if self.weight.is_meta:
            return
        weight = self.weight.new_empty(self.out_features, self.in_features, requires_grad=False)
        nn.init.kaiming_uniform_(weight, a=math.sqrt(5))
        bias = None
        if self.bias is not None:
            bound = 1 / math.sqrt(self.in_features) if self.in_features else 0
            bias = weight.new_empty(self.out_features).uniform_(-bound, bound)
        self._take(weight, bias)

    @torch.no_grad()
    def _take(self, weight, bias) -> None:
        self.weight.copy_(weight.narrow(self.sharded_dim, *self._part()))
        if bias is not None:
            self.bias.copy_(bias.narrow(0, *self._part()) if self.sharded_dim == 0 else bias)

    @classmethod
    def from_linear(cls, linear: nn.Linear, group=None, **options):
        """This rank's part of a layer that every rank holds whole; options as of the class.

        Example: `ColumnParallelLinear.from_linear(mlp.up, group, sequence_parallel=True)`.
        """
        made = cls(linear.in_features, linear.out_features, linear.bias is not None, group=group,
                   device="meta", dtype=linear.weight.dtype, **options)
        made.to_empty(device=linear.weight.device)
        made._take(linear.weight, linear.bias)
        for name, parameter in linear.named_parameters():
            getattr(made, name).requires_grad_(parameter.requires_grad)
        return made

    @torch.no_grad()
    def to_linear(self) -> nn.Linear:
        """The whole layer. Collective over the group."""
        made = nn.Linear(self.in_features, self.out_features, self.bias is not None, device="meta",
                         dtype=self.weight.dtype).to_empty(device=self.weight.device)
        whole = (self.out_features, self.in_features)[self.sharded_dim]
        made.weight.copy_(collectives.all_gather(self.weight, self.group, dim=self.sharded_dim,
                                                 extent=whole))
        if self.bias is not None:
            spread = self.sharded_dim == 0
            made.bias.copy_(collectives.all_gather(self.bias, self.group, extent=whole) if spread
                            else self.bias)
        return made

    def extra_repr(self) -> str:
        return (f"in_features={self.in_features}, out_features={self.out_features}, "
                f"bias={self.bias is not None}, ranks={self.ranks}, "
                f"sequence_parallel={self.sequence_parallel}")

    def __deepcopy__(self, memo):
        """Process groups cannot be copied; copies of the layer are on the same one."""
        made = self.__class__.__new__(self.__class__)
        memo[id(self)] = made
        memo[id(self.group)] = self.group
        import copy
        made.__dict__.update({key: copy.deepcopy(value, memo) for key, value in self.__dict__.items()})
        return made


class ColumnParallelLinear(_ParallelLinear):
    """nn.Linear of which each rank computes some output features: [..., out_features / ranks].

    group: a ProcessGroup, a DeviceMesh of one dimension, or None for all ranks. The input is the same on all
    ranks, or with sequence_parallel this rank's part of the first dimension; then the output has all of it.
    gather_output: the output has all features, the same on all ranks. Parts of features, and of the first
    dimension, are ceil(extent / ranks) long until nothing is left. `weight` [out_features / ranks,
    in_features] and `bias` are this rank's, in state_dict as well.

    Example: `up = ColumnParallelLinear(1024, 4096, group=tp); down = RowParallelLinear(4096, 1024,
    group=tp); y = down(gelu(up(x)))`.
    """

    sharded_dim = 0

    def __init__(self, in_features: int, out_features: int, bias: bool = True, *, group=None,
                 sequence_parallel: bool = False, gather_output: bool = False, device=None, dtype=None):
        super().__init__(in_features, out_features, bias, group=group, device=device, dtype=dtype,
                         sequence_parallel=sequence_parallel)
        self.gather_output = gather_output

    def forward(self, x, extent: int | None = None):
        """extent: of the whole first dimension where it does not divide evenly (sequence_parallel)."""
        if self.sequence_parallel:
            out = products.all_gather_matmul(x, self.weight.t(), self.bias, self.group, extent=extent)
        else:
            out = products.replicated_matmul(x, self.weight.t(), self.bias, self.group)
        if not self.gather_output:
            return out
        return collectives.all_gather(out, self.group, dim=-1, extent=self.out_features,
                                      replicated=True)


class RowParallelLinear(_ParallelLinear):
    """nn.Linear of which each rank has some input features; the partial results are added up.

    group: as of ColumnParallelLinear. The input is [..., in_features / ranks], this rank's features as a
    column-parallel layer leaves them; with input_is_parallel=False it has all of them, the same on all
    ranks. The output is the same on all ranks, or with sequence_parallel this rank's part of its first
    dimension. `weight` [out_features, in_features / ranks] is this rank's, `bias` the same on all ranks, and
    added once; its gradient is over all tokens in either case.
    """

    sharded_dim = 1

    def __init__(self, in_features: int, out_features: int, bias: bool = True, *, group=None,
                 sequence_parallel: bool = False, input_is_parallel: bool = True, device=None,
                 dtype=None):
        if sequence_parallel and not input_is_parallel:
            raise ConfigError("RowParallelLinear with sequence_parallel=True takes this rank's "
                              "features of all tokens; input_is_parallel=False does not go with it")
        super().__init__(in_features, out_features, bias, group=group, device=device, dtype=dtype,
                         sequence_parallel=sequence_parallel)
        self.input_is_parallel = input_is_parallel

    def forward(self, x):
        if not self.input_is_parallel:
            x = collectives.shard(x, self.group, dim=-1)
        product = (products.matmul_reduce_scatter if self.sequence_parallel
                   else products.matmul_all_reduce)
        return product(x, self.weight.t(), self.bias, self.group)
