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
    _ask("op_call", name, tensors, team, options)


def explain(name: str, *tensors, team=None, **options) -> dict:
    """What each form of operator `name` is expected to take with these arguments, in microseconds, and
    the one that a call would choose: {"push": 15.2, "copies": 33.9, "chosen": "push"}. Runs nothing.

    Collective, and measures the machine when its figures are not known, as a call does (`calibrate`).
    Forms that the arguments rule out are not in it; of a call that would do nothing "chosen" is None.
    Where instances take turns on the host's processor, rules choose, and no times are known.
    Errors: those of `call`; ConfigError for an operator that has one form only.
    """
    result = ctypes.c_char_p()
    _ask("op_explain", name, tensors, team, options, ctypes.byref(result))
    return json.loads(result.value)


def calibrate(*, team=None) -> dict:
    """Measures what communicating operators cost between the devices of the world, which takes some
    seconds, and keeps the figures for later processes: {"all_gather.push.1024": microseconds, ...}.

    Collective. Needed only to measure anew: the first call of such an operator does it on a machine
    that is not known. Errors: LaunchError in a world on the host, or of one rank.
    """
    world = worlds.current() if team is None else worlds.current_team(team)
    result = ctypes.c_char_p()
    with devices.following_torch(world.device):
        _capi.call("calibrate", world.handle, ctypes.byref(result))
    return json.loads(result.value)


def _ask(function: str, name: str, tensors, team, options: dict, *result) -> None:
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
        _capi.call(function, name.encode(), world.handle if world is not None else None, records,
                   len(tensors), _capi.encode(options), *result)
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
