# SPDX-FileCopyrightText: The Tilery authors
# SPDX-License-Identifier: Apache-2.0
"""Registration of the user's arrays in the interpreter: symmetric objects that are made of them."""

from __future__ import annotations

from tilery.errors import LaunchError


class Registrations:
    """What one rank has registered in a world; the methods of tilery.registration.Registrations."""

    def __init__(self, world):
        self.world = world
        self.kept: dict[int, object] = {}  # what keeps the memory, by address

    def add(self, address: int, nbytes: int, label: str, type_text: str, owner) -> None:
        from tilery.interpreter.world import SymmetricObject

        world, circle = self.world, self.world.circle
        why = self._why_not(address, nbytes)
        offers = world.meet("register", (nbytes, type_text, address, why), "a registration")
        if len({offer[:2] for offer in offers}) > 1:
            raise LaunchError("the ranks disagree about a collective operation: " +
                              ", ".join(f"rank {r}: registration of {size} bytes as '{label}', {text}"
                                        for r, (size, text, *_) in enumerate(offers)))
        for rank, (*_, reason) in enumerate(offers):
            if reason:
                raise LaunchError(f"'{label}' cannot be registered: on {circle.rank_text(rank)} it {reason}")
        self._require_apart(label, [offer[2] for offer in offers], nbytes)
        number = circle.counts[world.rank, "register"]
        thing = circle.registered.setdefault(number, SymmetricObject(label, nbytes, circle))
        thing.bases[world.own_seat] = address
        if thing not in world.group.objects:
            world.group.objects.append(thing)
        self.kept[address] = owner

    def _why_not(self, address: int, nbytes: int) -> str:
        if nbytes == 0:
            return "has no elements"
        for thing in self.world.group.objects:
            base = thing.bases.get(self.world.own_seat, 0)
            if thing.circle is self.world.circle and base < address + nbytes and address < base + thing.nbytes:
                return (f"has memory in common with '{thing.label}', which is registered\nhint: register the "
                        "whole once, and pass parts of it")
        return ""

    def _require_apart(self, label: str, addresses: list[int], nbytes: int) -> None:
        names = [self.world.circle.rank_text(rank) for rank in range(len(addresses))]
        for a, first in enumerate(addresses):
            for b in range(a + 1, len(addresses)):
                if abs(first - addresses[b]) < nbytes:
                    raise LaunchError(f"'{label}' cannot be registered: {names[a]} and {names[b]} bring the "
                                      "same memory\nhint: each rank registers memory of its own")

    def ended(self, address: int) -> None:
        self.kept.pop(address, None)

    def drop(self, address: int) -> None:
        """The array stays until the world ends."""
