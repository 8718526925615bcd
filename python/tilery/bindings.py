# SPDX-FileCopyrightText: The Tilery authors
# SPDX-License-Identifier: Apache-2.0
"""A kernel's source and the values of the names it uses, in the JSON form of tilery.h."""

from __future__ import annotations

import enum
import inspect
import math
import operator
import types

import numpy as np

from tilery.errors import CompileError
from tilery.language.values import constexpr
from tilery.source import Source, default_name

_MODULES = ("tilery", "tilery.language", "tilery.language.core", "tilery.language.device",
            "tilery.language.shmem", "tilery.language.libdevice")
ABSENT = object()  # what a name stands for that is not defined


class Snapshot:
    """A kernel's request of tilery_function_create, and all that it was made of.

    So that a later change is noticed: `watched` has each name (in a dict of globals, a cell, a
    constexpr) with the object it stood for, `lists` each list with the objects in it.
    """

    def __init__(self, kernel):
        self.handle = 0  # the library's, once it has been made
        self.watched: list[tuple] = []
        self.lists: list[tuple] = []
        self._refused: dict[str, CompileError] = {}  # by place
        self._requests: dict = {}
        self.request = self._of(kernel, ())

    def is_current(self) -> bool:
        """Whether every name still stands for the same value."""
        for source, name, value in self.watched:
            now = source.get(name, ABSENT) if type(source) is dict else _lookup(source, name)
            if now is not value:
                return False
        for items, before in self.lists:
            if not _is_unchanged(items, before):
                return False
        return True

    def explained(self, error: CompileError) -> CompileError:
        """The front end's error, or why the value used at that place cannot be used. Asked only
        after the fact, since a branch that is not taken may name anything."""
        return self._refused.get(_place(error), error)

    def _refuse(self, error: CompileError) -> None:
        self._refused[_place(error)] = error

    def _of(self, kernel, callers: tuple) -> dict:
        if kernel in callers:
            raise CompileError(f"kernel '{kernel.name}' calls itself; recursion is not supported")
        if kernel not in self._requests:
            self._requests[kernel] = self._make(kernel, (*callers, kernel))
        return self._requests[kernel]

    def _make(self, kernel, callers: tuple) -> dict:
        source = kernel.source
        bindings: dict[str, dict] = {}

        def bind(name: str, shown: str, value, nodes) -> bool:
            self._watch_inside(value)
            bound = binding(value, lambda other: self._of(other, callers))
            if bound is not None:
                bindings[name] = bound
                return True
            for node in nodes:
                self._refuse(source.error(node, *refusal(shown, value)))
            return False

        values = self._named(kernel)
        for name, value in values.items():
            if not _is_foreign(value):
                bind(name, name, value, source.names[name])
        members = []
        for path, node, value in self._members(source, values):
            name = "_".join(path)
            while name in source.names or name in source.arguments:
                name += "_"
            if bind(name, ".".join(path), value, [node]):
                members.append((node, name))
        defaults = {p.name: p.default for p in kernel.parameters}
        for name in source.computed_defaults():
            if not bind(default_name(name), name, defaults[name], []):
                raise source.error(source.arguments[name][0], *refusal(name, defaults[name]))
        text, line = source.for_front_end(kernel.parameters, members)
        return {"source": text, "file": source.file, "line": line, "indent": source.indent,
                "name": kernel.name, "bindings": bindings}

    def _named(self, kernel) -> dict:
        """The values of the names that the kernel reads, where they have one."""
        function, values = kernel.fn, {}
        cells = dict(zip(function.__code__.co_freevars, function.__closure__ or ()))
        for name in sorted(kernel.source.names):
            place = cells.get(name, function.__globals__)
            value = self._watch(place, name)
            if value is not ABSENT:
                values[name] = value
        return values

    def _members(self, source: Source, values: dict):
        """What the kernel takes out of modules that are not the kernel language's."""
        for path, node in source.attributes:
            module = values.get(path[0])
            for part in path[1:-1]:
                module = getattr(module, part, None) if _is_foreign(module) else None
            if not _is_foreign(module):
                continue
            if not hasattr(module, path[-1]):
                self._refuse(source.error(
                    node, f"module '{module.__name__}' has no '{path[-1]}'"))
                continue
            value = getattr(module, path[-1])
            if not isinstance(value, types.ModuleType):
                self._watch(vars(module), path[-1])
                yield path, node, value

    def _watch(self, source, name: str):
        """The value of `name` now."""
        value = _lookup(source, name)
        self.watched.append((source, name, value))
        return value

    def _watch_inside(self, value) -> None:
        if isinstance(value, constexpr):
            self._watch_inside(self._watch(value, "value"))
        elif isinstance(value, (tuple, list)):
            if isinstance(value, list):
                self.lists.append((value, tuple(value)))
            for item in value:
                self._watch_inside(item)


def _place(error: CompileError) -> str:
    return str(error).partition(" error: ")[0]


def _lookup(source, name: str):
    if isinstance(source, types.CellType):
        try:
            return source.cell_contents
        except ValueError:
            return ABSENT
    return source.get(name, ABSENT) if isinstance(source, dict) else getattr(source, name, ABSENT)


def _is_unchanged(items: list, before: tuple) -> bool:
    return len(items) == len(before) and all(map(operator.is_, items, before))


def _is_foreign(value) -> bool:
    return isinstance(value, types.ModuleType) and value.__name__ not in _MODULES


def refusal(name: str, value) -> tuple[str, str]:
    """Why `value` has no binding, and a hint."""
    if isinstance(value, constexpr):
        return refusal(name, value.value)
    if isinstance(value, (tuple, list)):
        at = next(i for i, item in enumerate(value) if binding(item) is None)
        return refusal(f"{name}[{at}]", value[at])
    if isinstance(value, int):
        return f"'{name}' is {value}, which does not fit in 64 bits", ""
    if isinstance(value, types.FunctionType):
        return f"'{name}' is a Python function, which a kernel cannot call", \
            f"add @ty.jit to '{value.__name__}'"
    if isinstance(value, dict):
        return f"'{name}' is a dictionary, which a kernel cannot use", \
            "pass its values as tl.constexpr parameters, or name each of them"
    if isinstance(value, type) and issubclass(value, np.generic):
        return f"'{name}' is an element type of NumPy", f"use tl.{value.__name__}"
    kind = f"the class {value.__name__}" if isinstance(value, type) else \
        f"a {type(value).__name__}"
    return f"'{name}' is {kind}, which a kernel cannot use", \
        "kernels use numbers, strings, tuples of them, element types and functions under @ty.jit"


def binding(value, of_kernel=lambda kernel: Snapshot(kernel).request) -> dict | None:
    """`value` as a binding, or None when the kernel language has nothing like it.

    of_kernel: makes the request of another kernel that is met.
    """
    from tilery.kernels import JITFunction
    from tilery.language.dtypes import dtype

    if isinstance(value, constexpr):
        value = value.value
    if isinstance(value, np.generic):
        value = value.item()
    if value is None:
        return {"none": None}
    if isinstance(value, enum.Enum) and _is_ours(type(value).__module__):
        return {"enum": f"{type(value).__module__}.{type(value).__name__}.{value.name}"}
    if isinstance(value, bool):
        return {"bool": value}
    if isinstance(value, int):
        if not -(1 << 63) <= value < 1 << 64:
            return None
        return {"int": int(value) if abs(value) < 1 << 53 else str(int(value))}
    if isinstance(value, float):
        return {"float": value if math.isfinite(value) else str(value)}
    if isinstance(value, str):
        return {"str": value}
    if isinstance(value, dtype):
        return {"dtype": value.name}
    if isinstance(value, type) and issubclass(value, tuple) and hasattr(value, "_fields"):
        return {"tuple_class": _fields(value, of_kernel)}
    if isinstance(value, (tuple, list)):
        parts = [binding(item, of_kernel) for item in value]
        if None in parts:
            return None
        named = hasattr(value, "_fields")
        return {"named_tuple": _fields(type(value), of_kernel) | {"values": parts}} if named \
            else {"tuple": parts}
    if isinstance(value, JITFunction):
        return {"jit": of_kernel(value)}
    if isinstance(value, types.ModuleType):
        return {"module": value.__name__} if value.__name__ in _MODULES else None
    return _builtin(value)


def _fields(kind: type, of_kernel) -> dict:
    """A NamedTuple class for the front end."""
    defaults = {name: binding(value, of_kernel) for name, value in kind._field_defaults.items()}
    return {"class": kind.__name__, "fields": list(kind._fields),
            "defaults": {name: bound for name, bound in defaults.items() if bound}}


def _is_ours(module: str) -> bool:
    return module.split(".")[0] == "tilery"


def _builtin(value) -> dict | None:
    module, name = getattr(value, "__module__", None), getattr(value, "__name__", None)
    if not module or not name or not _is_ours(str(module)):
        return None
    if module == "tilery.language.device":
        return {"builtin": f"{module}.{name}"}
    if module.startswith("tilery.language."):
        return {"builtin": f"tilery.language.{name}"}
    return {"builtin": f"tilery.{name}"}


def parameters(function: types.FunctionType, do_not_specialize=()) -> list["Parameter"]:
    signature, scope = inspect.signature(function), function.__globals__
    return [Parameter(p, scope, p.name in do_not_specialize or i in do_not_specialize)
            for i, p in enumerate(signature.parameters.values())]


class Parameter:
    """One parameter of a kernel."""

    def __init__(self, parameter: inspect.Parameter, scope: dict, do_not_specialize: bool):
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            raise CompileError(f"a kernel takes no {parameter}; list its parameters")
        self.name = parameter.name
        self.constexpr = _is_constexpr(parameter.annotation, scope)
        self.has_default = parameter.default is not parameter.empty
        self.default = parameter.default if self.has_default else None
        self.keyword_only = parameter.kind == parameter.KEYWORD_ONLY
        self.do_not_specialize = do_not_specialize


def _is_constexpr(annotation, scope: dict) -> bool:
    if isinstance(annotation, str):  # `from __future__ import annotations`, or in quotes
        annotation = annotation.strip("'\"() ")
        if annotation.split(".")[-1] == "constexpr":
            return True
        annotation = scope.get(annotation)
    return getattr(annotation, "__name__", "") == "constexpr"
