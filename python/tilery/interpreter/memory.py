# SPDX-FileCopyrightText: The Tilery authors
# SPDX-License-Identifier: Apache-2.0
"""The memory that pointers of an interpreted kernel refer to, with bounds and names.

A `Place` is one array behind a pointer argument, or one rank's copy of a symmetric object. An
active access outside of its place is an error that names the argument.
"""

from __future__ import annotations

import bisect
import ctypes

import numpy as np

from tilery.errors import LaunchError


class Place:
    """`nbytes` bytes at `base`, known to the user as `name`.

    `rank` is the owner; `object` identifies a symmetric object over all ranks (None for private
    memory); `remote` marks an address made by dl.symm_at, which is not translated again.
    """

    def __init__(self, name: str, base: int, nbytes: int, *, writable: bool = True, rank: int = 0,
                 symmetric=None, signal: bool = False, remote: bool = False):
        self.name = name
        self.base = base
        self.nbytes = nbytes
        self.writable = writable
        self.rank = rank
        self.symmetric = symmetric
        self.signal = signal
        self.remote = remote
        self._views: dict[np.dtype, np.ndarray] = {}

    def renamed(self, name: str, **changes) -> "Place":
        """The same memory under an argument's name."""
        fields = dict(writable=self.writable, rank=self.rank, symmetric=self.symmetric,
                      signal=self.signal, remote=self.remote)
        return Place(name, self.base, self.nbytes, **(fields | changes))

    def view(self, element: np.dtype) -> np.ndarray:
        """All of it as a flat array of `element` (a rest smaller than one is left out)."""
        view = self._views.get(element)
        if view is None:
            count = self.nbytes // element.itemsize
            if count == 0:
                view = np.empty(0, element)
            else:
                raw = (ctypes.c_uint8 * (count * element.itemsize)).from_address(self.base)
                view = np.frombuffer(raw, dtype=element)
            self._views[element] = view
        return view

    def indices(self, addresses: np.ndarray, element: np.dtype, what: str) -> np.ndarray:
        """Element numbers of active `addresses`, all checked to lie inside."""
        offsets = addresses - self.base
        size = element.itemsize
        if offsets.size:
            low, high = int(offsets.min()), int(offsets.max())
            if low < 0 or high + size > self.nbytes:
                wrong = low if low < 0 else int(offsets[offsets + size > self.nbytes].min())
                raise LaunchError(
                    f"{what} argument '{self.name}' out of bounds: element {wrong // size} of "
                    f"{self.nbytes // size}; mask the access or check the offsets")
            if size > 1 and np.any(offsets % size):
                raise LaunchError(
                    f"{what} argument '{self.name}' at a byte offset that is not a multiple of "
                    f"{size}")
        return offsets // size


class Places:
    """All places of a launch, for pointers whose origin was lost (tl.where, casts)."""

    def __init__(self, places):
        self.sorted = sorted(places, key=lambda place: place.base)
        self.bases = [place.base for place in self.sorted]

    def find(self, address: int) -> Place:
        index = bisect.bisect_right(self.bases, address) - 1
        if index >= 0 and address <= self.bases[index] + self.sorted[index].nbytes:
            return self.sorted[index]
        raise LaunchError(f"address {address:#x} belongs to no argument of this launch")
