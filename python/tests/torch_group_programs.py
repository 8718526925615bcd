# SPDX-FileCopyrightText: The Tilery authors
# SPDX-License-Identifier: Apache-2.0
"""What each rank runs in test_torch_parallel.py: layers, groups, mistakes, symmetric memory."""

import copy

import torch
import torch.distributed as dist
from kernel_text import make
from torch import nn
from torch_arrays import close, leaf, own, random, ranks, refused

import tilery as ty
from tilery.interop import torch as interop
from tilery.interop import torch_groups


# ---- Layers --------------------------------------------------------------------------------


def layers(device, dtype, sequence_parallel, bias, tokens, features):
    """A column-parallel and a row-parallel layer, one after the other, beside two of torch's."""
    rank, size = ranks()
    dtype = getattr(torch, dtype)
    torch.manual_seed(3)
    whole = [nn.Linear(10, features, bias, dtype=dtype), nn.Linear(features, 6, bias, dtype=dtype)]
    torch.manual_seed(3)
    options = dict(sequence_parallel=sequence_parallel, dtype=dtype)
    ours = [interop.ColumnParallelLinear(10, features, bias, **options),
            interop.RowParallelLinear(features, 6, bias, **options)]
    for kind, made, layer in zip((interop.ColumnParallelLinear, interop.RowParallelLinear), ours, whole):
        taken = kind.from_linear(layer, sequence_parallel=sequence_parallel)
        for name, value in made.state_dict().items():
            assert torch.equal(value, taken.state_dict()[name]), name
    shapes = {name: list(value.shape) for name, value in ours[0].state_dict().items()}
    assert shapes["weight"] == list(own(whole[0].weight).shape) and ("bias" in shapes) == bias
    ours = [layer.to(device) for layer in ours]
    x = random(8, *tokens, 10, dtype=dtype)
    expected_in, grad = leaf(x), random(9, *tokens, 6, dtype=dtype)
    whole = [layer.double() for layer in whole]
    expected = whole[1](torch.tanh(whole[0](expected_in.double())))
    expected.backward(grad.double())
    part = own if sequence_parallel else (lambda x: x)
    mine = leaf(part(x), device)
    more = {"extent": tokens[0]} if sequence_parallel else {}
    out = ours[1](torch.tanh(ours[0](mine, **more)))
    close(out, part(expected), dtype, 4, "output")
    out.backward(part(grad).to(device))
    close(mine.grad, part(expected_in.grad), dtype, 6, "gradient of the input")
    for made, layer, dim in ((ours[0], whole[0], 0), (ours[1], whole[1], 1)):
        close(made.weight.grad, own(layer.weight.grad, dim), dtype, 6, f"weight {dim}")
        if bias:
            close(made.bias.grad, own(layer.bias.grad) if dim == 0 else layer.bias.grad, dtype, 6,
                  f"bias {dim}")
        restored = made.to_linear()
        assert torch.equal(restored.weight.cpu(), layer.weight.to(dtype))
        assert not bias or torch.equal(restored.bias.cpu(), layer.bias.to(dtype))


def whole_inputs_and_outputs(device):
    """gather_output and input_is_parallel=False: everything in between is whole."""
    torch.manual_seed(1)
    whole = [nn.Linear(5, 9), nn.Linear(9, 4)]
    ours = [interop.ColumnParallelLinear.from_linear(whole[0], gather_output=True).to(device),
            interop.RowParallelLinear.from_linear(whole[1], input_is_parallel=False).to(device)]
    x, expected_x = leaf(random(2, 7, 5), device), leaf(random(2, 7, 5))
    middle = ours[0](x)
    assert middle.shape == (7, 9)
    out, expected = ours[1](middle.relu()), whole[1](whole[0](expected_x).relu())
    close(out, expected, torch.float32, 8)
    out.square().sum().backward()
    expected.square().sum().backward()
    close(x.grad, expected_x.grad, torch.float32, 16)
    close(ours[0].weight.grad, own(whole[0].weight.grad), torch.float32, 16)
    close(ours[1].weight.grad, own(whole[1].weight.grad, 1), torch.float32, 16)


def layer_details(device):
    rank, size = ranks()
    layer = interop.ColumnParallelLinear(4, 2 * size, device=device)
    assert f"ranks={size}" in repr(layer)
    twin = copy.deepcopy(layer)
    assert twin.group is layer.group and torch.equal(twin.weight, layer.weight)
    x = random(1, 3, 4, device=device)
    assert torch.equal(twin(x), layer(x))
    frozen = nn.Linear(4, 2 * size)
    frozen.weight.requires_grad_(False)
    assert not interop.ColumnParallelLinear.from_linear(frozen).weight.requires_grad
    meta = interop.RowParallelLinear(4 * size, 4, device="meta")
    assert meta.weight.is_meta and meta.weight.shape == (4, 4)
    filled = meta.to_empty(device=device)
    torch.manual_seed(0)
    filled.reset_parameters()
    torch.manual_seed(0)
    assert torch.equal(filled.weight, interop.RowParallelLinear(4 * size, 4, device=device).weight)


# ---- Groups --------------------------------------------------------------------------------


def groups(device):
    """Groups of some ranks: disjoint ones at the same time, overlapping ones, those of a mesh."""
    rank, size = ranks()
    halves = [dist.new_group([*range(begin, size, 2)]) for begin in (0, 1)]
    total = interop.all_reduce(torch.full((3,), rank + 1.0, device=device), halves[rank % 2])
    assert (total == sum(range(rank % 2 + 1, size + 1, 2))).all()
    low, high = dist.new_group([0, 1]), dist.new_group([*range(1, size)])
    teams = [interop.team(group, device=device) for group in (low, high)]
    for team, group, members in ((teams[0], low, [0, 1]), (teams[1], high, [*range(1, size)])):
        if rank not in members:
            assert team is None
            continue
        assert team is interop.team(group) and team.size == len(members)
        assert team.rank == members.index(rank)
        gathered = interop.all_gather(torch.full((1,), rank, device=device), group)
        assert gathered.tolist() == members
    if rank > 1:
        return refused(interop.all_reduce, torch.zeros(1), low)
    return ""


def mesh(device):
    rank, size = ranks()
    made = dist.device_mesh.init_device_mesh("cpu", (size // 2, 2), mesh_dim_names=("dp", "tp"))
    layer = interop.ColumnParallelLinear(4, 6, group=made["tp"], gather_output=True, device=device)
    assert layer.ranks == 2 and layer.weight.shape == (3, 4)
    x = random(1, 5, 4, device=device)
    both = [torch.empty(3, 4) for _ in range(2)]
    dist.all_gather(both, layer.weight.detach().cpu(), made.get_group("tp"))
    bias = [torch.empty(3) for _ in range(2)]
    dist.all_gather(bias, layer.bias.detach().cpu(), made.get_group("tp"))
    close(layer(x), x.cpu() @ torch.cat(both).t() + torch.cat(bias), torch.float32, 4)
    mean = interop.all_reduce(torch.full((2,), float(rank), device=device), made["dp"]) / (size // 2)
    assert (mean == rank % 2 + (size // 2 - 1)).all()


def a_group_that_is_made_again(device):
    """Names of groups come back; so may the world."""
    rank, size = ranks()
    for members in ([0, 1], [0, size - 1]):
        group = dist.new_group(members)
        if rank in members:
            assert interop.all_gather(torch.tensor([rank], device=device), group).tolist() == members
            dist.destroy_process_group(group)
        else:
            interop.team(group)
    for _ in range(2):
        ty.finalize()
        total = interop.all_reduce(torch.ones(4, device=device))
        assert (total == size).all()


def mistakes(device):
    """Texts of errors that every rank gets; afterwards the ranks go on."""
    rank, size = ranks()
    x = torch.zeros(2, 4, device=device)
    odd = torch.zeros(size + 1, 2, 4, device=device)
    texts = {
        "lengths": refused(interop.all_gather, torch.zeros(2 + rank % 2, 4, device=device)),
        "flatten": refused(interop.matmul_reduce_scatter, odd, torch.zeros(4, 3, device=device)),
        "vector": refused(interop.all_gather_matmul, x[0], torch.zeros(4, 3, device=device)),
        "types": refused(interop.matmul_all_reduce, x, torch.zeros(4, 3, device=device).half()),
        "depth": refused(interop.matmul_all_reduce, x, torch.zeros(5, 3, device=device)),
        "blocks": refused(interop.all_to_all, torch.zeros(size + 1, device=device)),
        "whole input": refused(interop.RowParallelLinear, 4, 4, sequence_parallel=True,
                               input_is_parallel=False),
        "root": refused(interop.broadcast, x, size),
    }
    if device == "cuda":
        texts["place"] = refused(interop.all_reduce, torch.zeros(3))
    assert (interop.all_reduce(torch.ones(3, device=device)) == size).all()
    return texts


def two_hosts(device):
    """Ranks that say that they are on other hosts; each host has a world of its own."""
    rank, size = ranks()
    torch_groups._host = lambda: f"host {rank // 2}"
    sides = [dist.new_group([begin, begin + 1]) for begin in range(0, size, 2)]
    gathered = interop.all_gather(torch.tensor([rank], device=device), sides[rank // 2])
    assert gathered.tolist() == [rank // 2 * 2, rank // 2 * 2 + 1]
    assert ty.num_ranks() == 2
    return refused(interop.all_reduce, torch.ones(2, device=device))


def a_world_of_ones_own(device):
    """The program has made the world, with another number for each rank."""
    rank, size = ranks()
    ty.finalize()
    place = {"device": f"cuda:{torch.cuda.current_device()}"} if device == "cuda" else {}
    ty.init(rank=size - 1 - rank, size=size, master_port="own", **place)
    assert ty.rank() == size - 1 - rank
    gathered = interop.all_gather(torch.tensor([rank], device=device))
    assert gathered.tolist() == [*range(size)]
    pair = dist.new_group([0, 1])
    assert interop.team(pair) is None if rank > 1 else interop.team(pair).rank == rank


def a_rank_that_does_not_come(device):
    """A group that only its own ranks come to, while the others are elsewhere."""
    rank, size = ranks()
    pair = dist.new_group([0, 1])
    place = {"device": f"cuda:{torch.cuda.current_device()}"} if device == "cuda" else {}
    ty.init(rank=rank, size=size, master_port="late", timeout_s=2.0, **place)
    interop.all_reduce(torch.ones(1, device=device))
    text = refused(interop.all_reduce, torch.ones(1, device=device), pair) if rank < 2 else ""
    dist.barrier()
    return text


def groups_out_of_step(device):
    """Groups that are used for the first time while other ranks use others, which overlap."""
    rank, size = ranks()
    first, second, crossing = (dist.new_group(members) for members in ([0, 1], [2, 3], [1, 3]))
    used = (first, first, second, crossing)[rank]
    if rank > 1:
        return refused(interop.team, used, device=device)
    interop.team(used, device=device)
    return ""


# ---- Memory --------------------------------------------------------------------------------

SHIFT = """@ty.jit
def kernel(inbox, arrived, x, n, BLOCK: tl.constexpr):
    following = (dl.rank() + 1) % dl.num_ranks()
    at = tl.arange(0, BLOCK)
    tl.store(dl.symm_at(inbox, following) + at, tl.load(x + at, mask=at < n), mask=at < n)
    dl.notify(arrived, following)
    dl.wait(arrived)
"""


def symmetric_memory(device):
    """Symmetric memory as torch's tensors, in torch's functions and in kernels."""
    rank, size = ranks()
    team = interop.team(device=device)
    for element in (ty.float32, ty.bfloat16, ty.float16, ty.int64):
        ours = ty.zeros((4, 8), element, "inbox", team=team)
        arrived = ty.signals(1, "arrived", team=team)
        inbox = torch.from_dlpack(ours)
        assert inbox.device.type == device and inbox.shape == (4, 8) and not inbox.float().any()
        assert inbox.data_ptr() == ours.address
        ty.barrier(team=team)
        x = torch.full((32,), rank + 1.0, device=device).to(inbox.dtype)
        make(SHIFT)[(1,)](inbox, arrived, x, 32, BLOCK=32, team=team)
        assert (inbox.float() == (rank - 1) % size + 1).all()
        inbox.fill_(7)
        ty.barrier(team=team)
        assert (ours.numpy().astype("float32") == 7).all()
    total = torch.from_dlpack(ty.zeros(100, ty.float32, "total", team=team))
    ty.ops.all_reduce(torch.ones(100, device=device), total, team=team)
    assert (total == size).all()
