# SPDX-FileCopyrightText: The Tilery authors
# SPDX-License-Identifier: Apache-2.0
"""Process groups of torch.distributed as teams of tilery's world.

Operators are handed the group's name, since that is what torch.compile can trace; the team behind it
is made at the first run and kept.
"""

from __future__ import annotations

import os
import secrets
import weakref
from pathlib import Path
from typing import NamedTuple

import torch
import torch.distributed as distributed
from torch.distributed.distributed_c10d import _resolve_process_group as group_named

from tilery import ops, world as worlds
from tilery.errors import LaunchError, WaitTimeout
from tilery.interop.torch import _first_device


class Kept(NamedTuple):
    """The team that a group of this name had; names come back when groups are destroyed."""

    group: weakref.ref
    team: worlds.NativeWorld


_LABEL = "process group"  # of all teams: ranks must agree on it
_kept: dict[str, Kept] = {}
# By world: the number in torch.distributed of each rank of the world.
_numbers: weakref.WeakKeyDictionary = weakref.WeakKeyDictionary()


def name_of(group=None) -> str:
    """What operators call the group: a ProcessGroup, a DeviceMesh of one dimension, None for all."""
    if not distributed.is_initialized():
        raise LaunchError("torch.distributed is not initialised, so that there is no process group; "
                          "call torch.distributed.init_process_group first")
    if group is None:
        return distributed.group.WORLD.group_name
    if hasattr(group, "get_group"):
        group = group.get_group()
    if not hasattr(group, "group_name"):
        raise LaunchError("this rank does not belong to the process group (new_group returned "
                          f"{group!r} here); only its members call collectives on it")
    return group.group_name


@torch.compiler.assume_constant_result
def size_of(name: str) -> int:
    return group_named(name).size()


@torch.compiler.assume_constant_result
def rank_of(name: str) -> int:
    return group_named(name).rank()


def part(name: str, extent: int) -> tuple[int, int]:
    """Where this rank's part of `extent` rows begins, and how many they are: as many on each rank,
    until none are left (docs/operators.md)."""
    rows = -(-extent // size_of(name))
    begin = min(rank_of(name) * rows, extent)
    return begin, min(rows, extent - begin)


def team(group=None, *, device=None) -> worlds.NativeWorld:
    """The tilery team of a process group (None: of all ranks), with its ranks in its order.

    `team=` of ty.zeros, of launches and of ty.ops takes it. The functions of this module call it when
    a group is first used; then it is collective: over all ranks of torch.distributed when tilery's
    world does not exist yet, over all ranks of that world when the group has fewer. Disjoint groups,
    such as the rows of a DeviceMesh, can be first used at the same time. A rank that is in none passes
    what torch.distributed.new_group returned. Where ranks use a group at different times, as in
    pipelines, let all of them call this at the start.

    device: where symmetric memory is to be when the world is made here, a torch.device; the
    default is torch's current GPU if the program uses one, else the host. The world that is made
    consists of the ranks on this host. Errors: LaunchError (a member is not in tilery's world, ranks
    that disagree), those of ty.init.

    Example: `tp = team(mesh["tp"]); x = ty.zeros(8, ty.float32, team=tp)`.
    """
    if group == distributed.GroupMember.NON_GROUP_MEMBER and distributed.is_initialized():
        world = world_for(device)
        _numbers_in(world)
        world.split(-1, 0, _LABEL)
        return None
    return team_named(name_of(group), device)


def team_named(name: str, device=None) -> worlds.NativeWorld:
    group, kept = group_named(name), _kept.get(name)
    world = world_for(device)
    if kept is None or kept.group() is not group or not kept.team.alive or kept.team.whole is not world:
        kept = _kept[name] = Kept(weakref.ref(group), _make(group, world))
    return kept.team


def world_for(device):
    """The world of the calling rank; made when there is none yet."""
    world = worlds.current(required=False)
    if world is None:
        world = _join(_default_device() if device is None else torch.device(device))
    if world.kind != "native":
        raise LaunchError("process groups cannot be used in an interpreted world; leave "
                          "TILERY_INTERPRET and ty.interpret() away")
    return world


def _default_device() -> torch.device:
    return torch.device("cuda" if torch.cuda.is_initialized() else "cpu")


def _host() -> str:
    """What processes that can share memory have in common: the boot and the network namespace, in
    which they find each other."""
    boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    return f"{boot} {os.stat('/proc/self/ns/net').st_ino}"


def _join(device: torch.device):
    """Joins the world of the ranks on this host. Its name and token come from its first rank."""
    everyone = [None] * distributed.get_world_size()
    distributed.all_gather_object(everyone, (_host(), secrets.token_hex(16)))
    mine = distributed.get_rank()
    members = [rank for rank, (host, _) in enumerate(everyone) if host == everyone[mine][0]]
    secret = everyone[members[0]][1]
    where = {}
    if device.type == "cuda":
        index = torch.cuda.current_device() if device.index is None else device.index
        where = {"device": f"cuda:{index}"}
    return worlds.init(rank=members.index(mine), size=len(members), master_addr="127.0.0.1",
                       master_port=secret, token=secret, **where)


def _numbers_in(world) -> list[int]:
    if world not in _numbers:
        own = distributed.get_rank().to_bytes(8, "little")
        _numbers[world] = [int.from_bytes(text, "little") for text in world.all_gather_bytes(own)]
    return _numbers[world]


def _make(group, world):
    numbers, wanted = _numbers_in(world), distributed.get_process_group_ranks(group)
    missing = [rank for rank in wanted if rank not in numbers]
    if missing:
        raise LaunchError(f"ranks {missing} of process group {wanted} are not in tilery's world, which "
                          f"consists of ranks {numbers} of torch.distributed (those of one host)")
    if wanted == numbers:
        return world
    try:
        made = world.split(wanted[0], wanted.index(distributed.get_rank()), _LABEL)
    except WaitTimeout as error:
        raise WaitTimeout(f"the first use of process group {wanted} waits for all ranks {numbers}, and "
                          "some have not come; let all of them call tilery.interop.torch.team at "
                          f"the start\nnote: {error}") from None
    got = [numbers[rank] for rank in made.ranks]
    if got != wanted:
        raise LaunchError(f"process group {wanted} was first used while other ranks used another one: "
                          f"together they are {got}; let all ranks call tilery.interop.torch.team for "
                          "their groups in one order")
    return made


def run(operator: str, name: str, *tensors, **options) -> None:
    """Runs a communicating operator of ty.ops on the ranks of the group of that name."""
    members = team_named(name, tensors[0].device)
    for tensor in tensors:
        if tensor is not None:
            _check_place(operator, tensor, members)
    ops.call(operator, *tensors, team=members, **options)


def _check_place(operator: str, tensor, members) -> None:
    """A rank that finds a tensor elsewhere must say so before the others wait for it."""
    on_host = tensor.device.type == "cpu"
    number = 0 if on_host else _first_device() + (tensor.device.index or 0)
    if number != members.device:
        where = "the host" if members.device == 0 else f"cuda:{members.device - _first_device()}"
        raise LaunchError(f"{operator}: a tensor is on {tensor.device}, but tilery's world has its "
                          f"memory on {where}; move the tensor, or make the world with "
                          f"ty.init(device=...) or tilery.interop.torch.team(device=...)")
