# SPDX-FileCopyrightText: The Tilery authors
# SPDX-License-Identifier: Apache-2.0
"""Reference semantics: loads, stores, block pointers, tensor descriptors and atomics."""

from __future__ import annotations

import operator
import warnings

import numpy as np

from tilery.errors import CompileError, LaunchError
from tilery.interpreter import state
from tilery.language import dtypes as dt
from tilery.language.shapes import extents
from tilery.language.values import as_tensor, cast, plain, tensor


def _pointer(pointer, what: str) -> dt.dtype:
    if not isinstance(pointer, tensor) or not pointer.dtype.is_ptr():
        found = pointer.dtype if isinstance(pointer, tensor) else type(plain(pointer)).__name__
        raise CompileError(f"{what} needs a pointer, got {found}")
    element = pointer.dtype.element_ty
    if element == dt.signal:
        raise CompileError(f"{what} cannot touch a signal; use dl.notify and dl.wait")
    return element


def _groups(pointer: tensor, mask, what: str):
    """Yields (place, flat lane numbers, element numbers) of the active lanes."""
    element = pointer.dtype.element_ty.numpy
    addresses = pointer.data.reshape(-1)
    mask = plain(mask)
    if mask is None:
        lanes = np.arange(addresses.size)
    else:
        active = cast(mask, dt.int1).data
        try:
            active = np.broadcast_to(active, pointer.shape)
        except ValueError:
            raise CompileError(
                f"{what}: the mask has shape {list(active.shape)}, the pointer "
                f"{list(pointer.shape)}") from None
        lanes = np.flatnonzero(active)
    if pointer.place is not None:
        yield pointer.place, lanes, pointer.place.indices(addresses[lanes], element, what)
        return
    places = state.instance().places
    owners = [places.find(int(address)) for address in addresses[lanes]]
    for place in dict.fromkeys(owners):
        chosen = lanes[[owner is place for owner in owners]]
        yield place, chosen, place.indices(addresses[chosen], element, what)


def load(pointer, mask=None, other=None, boundary_check=(), padding_option="",
         cache_modifier="", eviction_policy="", volatile=False):
    """The elements at `pointer`; where `mask` is false, `other` (0 when it is not given)."""
    if isinstance(pointer, block_pointer):
        return pointer.load(boundary_check, padding_option)
    element = _pointer(pointer, "tl.load reads")
    state.instance().memory_step(poll=bool(plain(volatile)))
    other = plain(other)
    if other is not None and plain(mask) is None:
        raise CompileError("tl.load with `other` needs a mask")
    filler = cast(0 if other is None else other, element).data
    try:
        result = np.broadcast_to(filler, pointer.shape).reshape(-1).copy()
    except ValueError:
        raise CompileError(f"tl.load: other has shape {list(filler.shape)}, the pointer "
                           f"{list(pointer.shape)}") from None
    for place, lanes, indices in _groups(pointer, mask, "tl.load reads"):
        state.instance().before_load(place)
        result[lanes] = place.view(element.numpy)[indices]
    return tensor(result.reshape(pointer.shape), element)


def store(pointer, value, mask=None, boundary_check=(), cache_modifier="", eviction_policy=""):
    """Writes `value`, converted to the element type, where `mask` is true."""
    if isinstance(pointer, block_pointer):
        return pointer.store(value, boundary_check)
    element = _pointer(pointer, "tl.store writes")
    state.instance().memory_step()
    data = cast(value, element).data
    try:
        data = np.broadcast_to(data, pointer.shape).reshape(-1)
    except ValueError:
        raise CompileError(f"tl.store: the value has shape {list(data.shape)}, the pointer "
                           f"{list(pointer.shape)}") from None
    for place, lanes, indices in _groups(pointer, mask, "tl.store writes"):
        _check_writable(place)
        state.instance().write(place, element.numpy, indices, data[lanes])
    return None


def _check_writable(place) -> None:
    if not place.writable:
        raise LaunchError(f"argument '{place.name}' is read-only, but the kernel writes it\n"
                          "hint: pass a writable copy")


# -- block pointers -------------------------------------------------------------------------


class block_pointer:
    """A window of `block_shape` into a tensor of `shape`, at `offsets`."""

    def __init__(self, base, shape, strides, offsets, block_shape, order):
        self.base, self.block_shape = base, block_shape
        self.shape, self.strides, self.offsets, self.order = shape, strides, offsets, order
        self.dtype = base.dtype

    @property
    def type(self):
        return self.dtype

    def _lanes(self, checked):
        pointer, mask = self.base.data, np.ones(self.block_shape, bool)
        size = self.base.dtype.element_ty.itemsize
        for dim, length in enumerate(self.block_shape):
            index = np.arange(length, dtype=np.int64) + self.offsets[dim]
            index = index.reshape([-1 if d == dim else 1 for d in range(len(self.block_shape))])
            pointer = pointer + index * (self.strides[dim] * size)
            if dim in checked:
                mask = mask & (index >= 0) & (index < self.shape[dim])
        return tensor(pointer, self.base.dtype, self.base.place), tensor(mask, dt.int1)

    def load(self, boundary_check, padding_option):
        checked = _dimensions(boundary_check)
        pointer, mask = self._lanes(checked)
        filler = float("nan") if plain(padding_option) == "nan" else 0
        return load(pointer, mask, filler)

    def store(self, value, boundary_check):
        pointer, mask = self._lanes(_dimensions(boundary_check))
        return store(pointer, value, mask)


def _dimensions(boundary_check) -> set[int]:
    boundary_check = plain(boundary_check)
    if isinstance(boundary_check, int):
        return {boundary_check}
    return {int(plain(d)) for d in boundary_check or ()}


def _integers(values, what: str) -> list[int]:
    values = plain(values)
    if not isinstance(values, (tuple, list)):
        raise CompileError(f"{what} must be a tuple or list, not {_kind(values)}")
    return [_integer(plain(value), what) for value in values]


def _integer(value, what: str) -> int:
    try:
        return operator.index(value)  # of a tile it says itself why not
    except TypeError:
        raise CompileError(f"{what} must be an integer, not {_kind(value)}") from None


def _kind(value) -> str:
    return str(value.dtype) if isinstance(value, tensor) else type(value).__name__


def _window(base, shape, strides, block_shape, what: str):
    """Shape, strides and block of a tensor in memory as integers."""
    _pointer(base, what)
    if base.shape:
        raise CompileError(f"{what} takes one pointer, not a tile of them")
    shape, strides = _integers(shape, "the shape"), _integers(strides, "the strides")
    block_shape = extents(block_shape)
    if not shape:
        raise CompileError(f"{what} needs at least one dimension")
    if not len(shape) == len(strides) == len(block_shape):
        raise CompileError(f"{what} needs a shape, strides and a block of one length")
    return shape, strides, block_shape


def make_block_ptr(base, shape, strides, offsets, block_shape, order):
    """A block pointer into the tensor of `shape` and `strides` (elements) at `base`."""
    shape, strides, block_shape = _window(base, shape, strides, block_shape, "tl.make_block_ptr")
    offsets = _integers(offsets, "the offsets")
    if len(offsets) != len(shape):
        raise CompileError("tl.make_block_ptr needs as many offsets as dimensions")
    return block_pointer(base, shape, strides, offsets, block_shape, order)


def advance(base, offsets):
    """`base` moved by `offsets` elements in each dimension."""
    steps = _integers(offsets, "the offsets")
    if len(steps) != len(base.offsets):
        raise CompileError(f"tl.advance needs {len(base.offsets)} offsets, not {len(steps)}")
    moved = [at + by for at, by in zip(base.offsets, steps)]
    return block_pointer(base.base, base.shape, base.strides, moved, base.block_shape, base.order)


# -- tensor descriptors -------------------------------------------------------------------


class tensor_descriptor:
    """A tensor in memory, accessed by blocks; outside of it loads give 0, stores nothing."""

    def __init__(self, base, shape, strides, block_shape, padding):
        self.base, self.block_shape, self.padding = base, block_shape, padding
        self.shape, self.strides = ([tensor(np.int64(n), dt.int64) for n in part] for part in (shape, strides))
        self.dtype = base.dtype.element_ty
        if strides[-1] != 1:
            raise CompileError(f"a tensor descriptor needs a last stride of 1, got {strides[-1]}")
        if padding not in ("zero", "nan"):
            raise CompileError(f'padding_option is "zero" or "nan", not "{padding}"')
        self._check_alignment()

    def _check_alignment(self):
        """What bulk copies need, whether the kernel gets any or not."""
        size = self.dtype.numpy.itemsize
        places = [("base", int(self.base.data))]
        places += [(f"stride {i}", int(stride) * size) for i, stride in enumerate(self.strides[:-1])]
        for what, nbytes in places:
            if nbytes % 16:
                raise LaunchError(f"a tensor descriptor needs a base and strides that are multiples of "
                                  f"16 bytes, got {what} at {nbytes} bytes")

    def _block(self, offsets):
        offsets = _integers(offsets, "the offsets")
        if len(offsets) != len(self.shape):
            raise CompileError(f"this descriptor needs {len(self.shape)} offsets, not {len(offsets)}")
        shape, strides = ([int(n) for n in part] for part in (self.shape, self.strides))
        return block_pointer(self.base, shape, strides, offsets, self.block_shape, None)

    def load(self, offsets):
        return self._block(offsets).load(range(len(self.block_shape)), self.padding)

    def store(self, offsets, value):
        return self._block(offsets).store(value, range(len(self.block_shape)))


def make_tensor_descriptor(base, shape, strides, block_shape, padding_option="zero"):
    shape, strides, block_shape = _window(base, shape, strides, block_shape, "tl.make_tensor_descriptor")
    return tensor_descriptor(base, shape, strides, block_shape, plain(padding_option))


def load_tensor_descriptor(desc, offsets):
    return desc.load(offsets)


def store_tensor_descriptor(desc, offsets, value):
    return desc.store(offsets, value)


# -- atomics ---------------------------------------------------------------------------------


def _check_scope(scope, places) -> None:
    scope = plain(scope)
    if scope not in (None, "cta", "gpu", "sys"):
        raise CompileError(f'scope is "cta", "gpu" or "sys", not {scope!r}')
    if scope in ("cta", "gpu") and any(place.symmetric is not None for place in places):
        warnings.warn(f'scope "{scope}" on symmetric memory: other ranks may not see this atomic; '
                      'use scope="sys"', stacklevel=2)


def _atomic(pointer, mask, scope, update, what: str, *values):
    """Applies `update(old, *values)` lane by lane; returns the old values."""
    element = _pointer(pointer, what)
    _check_scope(scope, [pointer.place] if pointer.place is not None else [])
    state.instance().memory_step(poll=True)
    state.instance().release()
    lanes_of = [np.broadcast_to(cast(v, element).data, pointer.shape).reshape(-1) for v in values]
    old = np.zeros(pointer.numel, element.numpy)
    for place, lanes, indices in _groups(pointer, mask, what):
        _check_writable(place)
        memory = place.view(element.numpy)
        changed = False
        for lane, index in zip(lanes, indices):
            old[lane] = memory[index]
            new = np.asarray(update(old[lane], *(v[lane] for v in lanes_of))).astype(element.numpy)
            changed = changed or new != old[lane]
            memory[index] = new
        if changed:
            state.instance().progress()
    return tensor(old.reshape(pointer.shape), element)


def _refuse_bits(name: str, element) -> None:
    if element.is_bool():
        raise CompileError(f"tl.{name} cannot update int1; use int8 or a wider type")


def _order(value) -> int:
    """Floats by their bits: -NaN, -inf, ..., -0, 0, ..., inf, NaN."""
    value = np.asarray(value)
    if np.issubdtype(value.dtype, np.integer) or value.dtype == bool:
        return int(value)
    bits = int(value.view(f"i{value.dtype.itemsize}"))
    return bits if bits >= 0 else bits ^ (2**(8 * value.dtype.itemsize - 1) - 1)


def _rmw(name: str, update, integers_only: bool = False):
    def atomic(pointer, val, mask=None, sem=None, scope=None):
        element = _pointer(pointer, f"tl.{name} updates")
        _refuse_bits(name, element)
        if integers_only and not element.is_int():
            raise CompileError(f"tl.{name} needs integers, not {element}")
        return _atomic(pointer, mask, scope, update, f"tl.{name} updates", val)
    atomic.__name__ = name
    atomic.__module__ = __name__
    atomic.__doc__ = f"Atomic {name.removeprefix('atomic_')}; returns the values before."
    return atomic


atomic_add = _rmw("atomic_add", lambda old, val: old + val)
atomic_max = _rmw("atomic_max", lambda old, val: max(old, val, key=_order))
atomic_min = _rmw("atomic_min", lambda old, val: min(old, val, key=_order))
atomic_and = _rmw("atomic_and", lambda old, val: old & val, integers_only=True)
atomic_or = _rmw("atomic_or", lambda old, val: old | val, integers_only=True)
atomic_xor = _rmw("atomic_xor", lambda old, val: old ^ val, integers_only=True)
atomic_xchg = _rmw("atomic_xchg", lambda old, val: val)


def atomic_cas(pointer, cmp, val, sem=None, scope=None):
    """Writes `val` where the memory equals `cmp`; returns the values before."""
    _refuse_bits("atomic_cas", _pointer(pointer, "tl.atomic_cas updates"))
    return _atomic(pointer, None, scope,
                   lambda old, expected, new: new if old == expected else old,
                   "tl.atomic_cas updates", cmp, val)
