# SPDX-FileCopyrightText: The Tilery authors
# SPDX-License-Identifier: Apache-2.0
"""The operator library: `tilery.ops.matmul(a, b, c)` and so on, over tilery_op_call.

Each function takes the operator's arrays in order (outputs are arguments too) and its options
by keyword; `ty.ops.list()` shows them. Communicating operators are collective.
"""

from __future__ import annotations

import ctypes
import functools
import json

from tilery import _capi, devices, world as worlds
from tilery.errors import LaunchError


@functools.cache
def _table() -> dict:
    return {op["name"]: op for op in json.loads(_capi.text_from("ops_list"))}


def list() -> list[dict]:  # noqa: A001
    """All operators: [{"name", "summary", "tensors", "options", "communicates"}]."""
    return [*_table().values()]


def call(name: str, *tensors, team=None, **options) -> None:
    """Runs operator `name`; None stands for an optional tensor that is left out.

    team: the ranks that take part. Once the world has teams, a communicating operator needs it, so
    that a call meant for some ranks cannot wait for all; `team=ty.init()` is the world. Errors:
    ConfigError (unknown operator or option), LaunchError (shapes, types, strides).
    """
    from tilery.kernels import interpreting

    if interpreting():
        raise LaunchError(f"ops.{name} runs compiled kernels only; launch the kernel of "
                          f"ops/{name}/{name}.py itself in the interpreter")
    described = _table().get(name, {}).get("tensors", [])
    names = [text.rstrip("?") for text in described] + ["tensor"] * len(tensors)
    records = (_capi.TensorRecord * max(1, len(tensors)))()
    keep = [_fill(records[i], names[i], value) for i, value in enumerate(tensors)]
    world = worlds.current(required=False) if team is None else worlds.current_team(team)
    if team is None and world is not None and world.kind == "native" and world.teams and \
            _table().get(name, {}).get("communicates"):
        names = ", ".join(sorted(made.name for made in world.teams))
        raise LaunchError(f"ops.{name} needs team=, because this world has been divided ({names}); "
                          "team=ty.init() means all ranks")
    if world is not None and world.kind != "native":
        raise LaunchError(f"ops.{name} cannot run in an interpreted world")
    with devices.following_torch(max((record.device for record in records), default=0)):
        _capi.call("op_call", name.encode(), world.handle if world is not None else None, records,
                   len(tensors), _capi.encode(options))
    del keep


def _fill(record, name: str, value):
    """Describes one array; returns what must stay alive during the call."""
    from tilery.arguments import from_value
    from tilery.language.dtypes import CODES
    from tilery.device_array import DeviceArray
    from tilery.tensor import Tensor

    if value is None:
        record.rank = -1
        return None
    argument = from_value(name, value)
    item = argument.dtype.itemsize
    shape = tuple(value.shape)
    strides = getattr(value, "strides", None)
    if strides is None:  # torch
        strides = tuple(value.stride())
    elif not isinstance(value, (Tensor, DeviceArray)):  # NumPy counts bytes
        strides = tuple(step // item for step in strides)
    arrays = ((ctypes.c_int64 * len(shape))(*shape), (ctypes.c_int64 * len(shape))(*strides))
    record.data, record.shape, record.strides = argument.address, arrays[0], arrays[1]
    record.rank, record.dtype = len(shape), CODES[argument.dtype.name]
    record.read_only = not argument.writable
    record.device = argument.device
    return argument, arrays


def __getattr__(name: str):
    if name.startswith("_") or name not in _table():
        raise AttributeError(f"tilery.ops has no operator '{name}'")
    operator = functools.partial(call, name)
    globals()[name] = operator
    return operator
