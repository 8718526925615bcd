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

import numpy as np

from tilery import _capi, devices, world as worlds
from tilery.errors import ConfigError, LaunchError


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
    status = _ask(name, tensors, team, options)
    if status:
        _capi.check(status)


def explain(name: str, *tensors, team=None, **options) -> dict:
    """What each form of operator `name` is expected to take with these arguments, in microseconds, and
    the one that a call would choose: {"push": 15.2, "copies": 33.9, "chosen": "push"}. Runs nothing.

    Collective, and measures the machine when its figures are not known, as a call does (`calibrate`).
    Forms that the arguments rule out are not in it; of a call that would do nothing "chosen" is None.
    Where instances take turns on the host's processor, rules choose, and no times are known.
    Errors: those of `call`; ConfigError for an operator that has one form only.
    """
    status, text = _ask(name, tensors, team, options, explains=True)
    _capi.check(status)
    return json.loads(text)


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


def _ask(name: str, tensors, team, options: dict, explains=False):
    from tilery.kernels import interpreting

    if interpreting():
        raise LaunchError(f"ops.{name} runs compiled kernels only; launch the kernel of "
                          f"ops/{name}/{name}.py itself in the interpreter")
    world = worlds.current(required=False) if team is None else worlds.current_team(team)
    if world is not None and world.kind != "native":
        raise LaunchError(f"ops.{name} cannot run in an interpreted world")
    if team is None and world is not None and world.teams and _described(name)["communicates"]:
        names = ", ".join(sorted(made.name for made in world.teams))
        raise LaunchError(f"ops.{name} needs team=, because this world has been divided ({names}); "
                          "team=ty.init() means all ranks")
    return _launcher().operate(name.encode(), world.handle if world is not None else 0, tensors,
                               _encoded(name, options) if options else b"{}",
                               functools.partial(_facts, name), explains)


def _described(name: str) -> dict:
    return _table().get(name, {"tensors": [], "options": {}, "communicates": False})


@functools.cache
def _launcher():
    launcher, library = _capi.launcher(), _capi.library()
    launcher.bind_operators(*(ctypes.cast(function, ctypes.c_void_p).value for function in (
        library.tilery_op_call, library.tilery_op_explain, library.tilery_stream_use)))
    return launcher


def _encoded(operator: str, options: dict) -> bytes:
    try:
        return _encoded_once(tuple(options), *options.values())
    except TypeError:  # a value without a hash
        return _capi.encode({name: _plain(operator, name, value) for name, value in options.items()})


@functools.lru_cache(maxsize=1024, typed=True)
def _encoded_once(names: tuple, *values) -> bytes:
    return _capi.encode(dict(zip(names, values)))


def _plain(operator: str, name: str, value):
    """The value of an option as JSON has it: numbers of NumPy as Python's. ConfigError when it has none."""
    if name not in _described(operator)["options"]:
        return None  # the library refuses the name
    if isinstance(value, (np.bool_, np.integer, np.floating)):
        value = value.item()
    if not isinstance(value, (bool, int, float, str, type(None))):
        raise ConfigError(f"ops.{operator}: option '{name}' is a {type(value).__name__}; options are numbers, "
                          "strings, True and False")
    return value


def _facts(operator: str, value, index: int) -> tuple:
    """Of an array that _operators.c does not read itself: address, shape, strides in elements, element
    type, whether it is read-only, device, and what must stay alive during the call."""
    from tilery.arguments import from_value
    from tilery.language.dtypes import CODES

    names = _described(operator)["tensors"]
    name = names[index].rstrip("?") if index < len(names) else "tensor"
    argument = from_value(name, value)
    if argument.device:
        devices.meet_torch()
    return (argument.address, argument.shape, argument.strides(name), CODES[argument.dtype.name],
            not argument.writable, argument.device, argument)


def __getattr__(name: str):
    if name.startswith("_") or name not in _table():
        raise AttributeError(f"tilery.ops has no operator '{name}'")
    operator = functools.partial(call, name)
    globals()[name] = operator
    return operator
