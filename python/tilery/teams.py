# SPDX-FileCopyrightText: The Tilery authors
# SPDX-License-Identifier: Apache-2.0
"""Teams: some ranks of a world, with collectives, symmetric memory and launches of their own."""

from __future__ import annotations

import operator

from tilery import world as worlds
from tilery.errors import ConfigError, LaunchError

_INT32 = range(-(2**31), 2**31)


def team(ranks, name: str = "team", *, of=None):
    """Collective over all ranks: the team of `ranks`, which it numbers from 0 in this order.

    `of`: the team whose ranks these are (None: the world). Every rank calls it with one list, those
    that are not in it too: they get a team of rank -1, whose use is an error. `team=` of ty.zeros,
    ty.signals, ty.barrier, of launches and operators takes it. Errors: LaunchError that lists the
    ranks' differing lists.

    Example: `tp = ty.team([0, 2], "tp"); x = ty.zeros(8, ty.float32, team=tp)`.
    """
    worlds.checked_name(name)
    try:
        listed = [operator.index(rank) for rank in ranks]
    except TypeError:
        raise ConfigError(f"team '{name}' takes a list of ranks, got {ranks!r}") from None
    if any(rank not in _INT32 for rank in listed):
        raise LaunchError(f"a rank of team '{name}' does not fit in 32 bits: {listed}")
    return worlds.current_team(of).team(listed, name)


def split(color: int | None, key: int = 0, name: str = "team", *, of=None):
    """Collective over all ranks: one team for each color, in the order of `key` and then of rank.

    color: a whole number of 0 or more, or None to join no team.

    Example: `pairs = ty.split(ty.rank() // 2, name="pairs")`.
    """
    try:
        numbers = (-1 if color is None else operator.index(color), operator.index(key))
    except TypeError:
        raise ConfigError(f"ty.split takes whole numbers, got color {color!r} and key {key!r}") \
            from None
    if (color is not None and numbers[0] < 0) or any(n not in _INT32 for n in numbers):
        raise ConfigError(f"ty.split takes a color from 0 and a key of 32 bits, got color {color!r} "
                          f"and key {key!r}")
    return worlds.current_team(of).split(*numbers, worlds.checked_name(name))
