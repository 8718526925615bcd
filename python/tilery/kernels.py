# SPDX-FileCopyrightText: The Tilery authors
# SPDX-License-Identifier: Apache-2.0
"""`ty.jit`: kernels from Python functions, and their launch by the compiler or the interpreter."""

from __future__ import annotations

import contextlib
import contextvars
import functools
import operator
import sys
import threading
import types

import numpy as np

from tilery import _capi, bindings, knobs, world as worlds
from tilery.errors import CompileError, ConfigError, LaunchError, nearest
from tilery.interpreter import state
from tilery.source import Source, lines_of

# Launch keywords that are not parameters: compiler options, and how to launch.
OPTIONS = ("num_warps", "num_stages", "num_ctas", "maxnreg", "enable_fp_fusion", "debug",
           "check_bounds", "target")
LAUNCH_KEYWORDS = ("stream", "timeout", "team", "grid", "warmup")
_interpret: contextvars.ContextVar = contextvars.ContextVar("tilery_interpret", default=None)


def interpreting() -> bool:
    """Whether launches run in the interpreter now."""
    chosen = _interpret.get()
    if chosen is None:
        chosen = _environment_says()
    return chosen or state.task() is not None


@functools.cache
def _environment_says() -> bool:
    return knobs.get("TILERY_INTERPRET")


@functools.cache
def _checks_everything() -> bool:
    return knobs.get("TILERY_CHECK")


def _measured(name: str, value):
    """Tensors of torch with the extent of their memory, which costs too much for other launches."""
    from tilery.arguments import from_value
    return from_value(name, value) if hasattr(value, "data_ptr") and \
        hasattr(value, "element_size") else value


@contextlib.contextmanager
def interpret(enabled: bool = True):
    """Within the block kernels run as plain Python, with all ranks interleaved.

    A breakpoint or a print inside a kernel works. For several ranks it surrounds ty.spawn.

    Example: `with ty.interpret(): kernel[(4,)](x, y)`.
    """
    token = _interpret.set(enabled)
    try:
        yield
    finally:
        _interpret.reset(token)


def jit(fn=None, *, do_not_specialize=(), **ignored):
    """Makes a kernel of a Python function: `kernel[grid](args..., META=...)`.

    do_not_specialize: names or positions of integer parameters that are not specialised on 1
    and on divisibility by 16 or 8.

    Example::

        @ty.jit
        def double(x, n, BLOCK: tl.constexpr):
            at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
            tl.store(x + at, 2 * tl.load(x + at, mask=at < n), mask=at < n)

        double[(4,)](array, array.size, BLOCK=256)
    """
    if fn is None:
        return functools.partial(jit, do_not_specialize=do_not_specialize, **ignored)
    unknown = set(ignored) - {"version", "repr", "launch_metadata", "noinline", "debug",
                              "do_not_specialize_on_alignment"}
    if unknown:
        name = sorted(unknown)[0]
        raise ConfigError(f"ty.jit has no option '{name}'; {nearest(name, ['do_not_specialize'])}")
    if not isinstance(fn, types.FunctionType):
        raise ConfigError("ty.jit makes kernels of Python functions (def), not of "
                          f"{_described(fn)}")
    if isinstance(do_not_specialize, (str, int)):
        raise ConfigError(f"do_not_specialize is a list of parameters, got {do_not_specialize!r}")
    kernel = JITFunction(fn, do_not_specialize)
    _check_parameters_exist(kernel, do_not_specialize)
    return kernel


def _described(value) -> str:
    kind = "the class" if isinstance(value, type) else f"the {type(value).__name__}"
    name = getattr(value, "__name__", None) or repr(value)
    return f"{kind} '{name}'"


def _check_parameters_exist(kernel, do_not_specialize) -> None:
    for entry in do_not_specialize:
        if isinstance(entry, str) and entry not in kernel.names:
            raise ConfigError(f"do_not_specialize: kernel '{kernel.name}' has no parameter "
                              f"'{entry}'; {nearest(entry, kernel.names)}")
        if isinstance(entry, int) and not 0 <= entry < len(kernel.names):
            raise ConfigError(f"do_not_specialize: kernel '{kernel.name}' has no parameter number "
                              f"{entry}; it has {len(kernel.names)}")


class JITFunction:
    """A kernel; `kernel[grid](...)` launches it, a call inside another kernel inlines it."""

    def __init__(self, fn, do_not_specialize=()):
        functools.update_wrapper(self, fn)
        self.fn, self.name = fn, fn.__name__
        self.parameters = bindings.parameters(fn, do_not_specialize)
        self.names = [p.name for p in self.parameters]
        self.constant_flags = bytes(p.constexpr for p in self.parameters)
        self._positions = {name: i for i, name in enumerate(self.names)}
        self._lock = threading.Lock()
        self._lines = lines_of(fn)  # now: the file may change before the first launch
        self._snapshot: bindings.Snapshot | None = None
        self._handles: dict[bytes, int] = {}  # by request: a value that comes back finds its own
        self._records = None
        self._last = None  # (options, records) of the last launch, for ir and asm

    # -- source ------------------------------------------------------------------------------

    @functools.cached_property
    def source(self) -> Source:
        return Source(self.fn, self._lines)

    @functools.cached_property
    def interpreted_code(self) -> types.CodeType:
        from tilery.interpreter.logic import rewritten
        return rewritten(self)

    def _native(self) -> int:
        """The library's handle; another one when an outside value has changed."""
        snapshot = self._snapshot
        if snapshot is None or not snapshot.is_current():
            with self._lock:  # ranks are threads; the other one may have been quicker
                snapshot = self._snapshot
                if snapshot is None or not snapshot.is_current():
                    snapshot = self._snapshot = self._take_snapshot()
        return snapshot.handle

    def _take_snapshot(self) -> bindings.Snapshot:
        from tilery.records import Records

        self._records = self._records or Records(self)
        snapshot = bindings.Snapshot(self)
        request = _capi.encode(snapshot.request)
        if request not in self._handles:
            # Another thread may be launching with an older handle, so those stay.
            self._handles[request] = _capi.handle_from("function_create", request)
        snapshot.handle = self._handles[request]
        return snapshot

    def __del__(self):
        handles, self._handles = getattr(self, "_handles", None), {}
        if handles and not sys.is_finalizing():
            for handle in handles.values():
                _capi.library().tilery_function_destroy(handle)

    # -- launch ------------------------------------------------------------------------------

    def __getitem__(self, grid):
        return functools.partial(self.launch, grid)

    def __call__(self, *args, **kwargs):
        if not state.inside_kernel():
            raise LaunchError(f"kernel '{self.name}' is launched with {self.name}[grid](...); "
                              "a plain call works only inside another kernel")
        from tilery.interpreter.launch import as_kernel
        return as_kernel(self)(*args, **kwargs)

    def launch(self, grid, *args, **kwargs) -> None:
        """Runs the kernel over `grid` where the memory of its arguments is. On the host it has
        completed on return; on a device it follows the stream, and what fails in it is raised by a
        later launch or ty.synchronize().

        `grid` is an integer, a tuple of up to three, or a function of the arguments by name.
        Keywords beyond the parameters: num_warps, num_stages, stream, timeout (seconds for each
        wait), team (the ranks that run it; None: all). Errors: CompileError, ConfigError, LaunchError, WaitTimeout, PeerError.
        """
        options, stream, timeout, team = 0, 0, -1.0, None
        if kwargs or len(args) != len(self.names):
            args, chosen = self._bind(args, kwargs)
            stream = _stream(chosen.pop("stream", None))
            timeout = _number("timeout", chosen.pop("timeout", -1.0), float)
            team = chosen.pop("team", None)
            options = chosen
        if type(grid) is not tuple or not 1 <= len(grid) <= 3:
            grid = self._grid(grid, args)
        if interpreting():
            return self._launch_interpreted(self._grid(grid, args), args, team, bool(options and options.get("debug")))
        world = worlds.current(required=False) if team is None else worlds.current_team(team)
        return self._launch_native(grid, args, options, stream, timeout, world)

    def _launch_native(self, grid, args, options, stream, timeout, world) -> None:
        handle = self._native()
        if world is not None and world.kind != "native":
            raise LaunchError(f"kernel '{self.name}' is compiled, but this rank belongs to an "
                              "interpreted world; let ty.interpret() surround the launch too")
        if _checks_everything() or (options and options.get("check_bounds")):
            args = tuple(_measured(name, value) for name, value in zip(self.names, args))
        options = _options(options) if options else 0
        records = self._records
        self._last = (options, args)
        try:
            status = _launcher().launch(handle, world.handle if world is not None else 0, grid,
                                        options, stream, timeout, args, self.constant_flags,
                                        records.make)
        except (TypeError, OverflowError):
            _check_grid(grid)
            raise
        if status:
            with self._explaining():
                _capi.check(status)

    @contextlib.contextmanager
    def _explaining(self):
        """Errors at a value that kernels cannot use say what it is."""
        try:
            yield
        except CompileError as error:
            raise self._snapshot.explained(error) from None

    def _launch_interpreted(self, grid, args, team, debug: bool) -> None:
        from tilery.interpreter.launch import Launch, as_kernel
        _check_grid(grid)
        launch = Launch(self.name, worlds.interpreter_world(team), grid, debug)
        # A list, for arrays made on demand: they own the memory that the kernel works on.
        arrays = [self._array(p, value) for p, value in zip(self.parameters, args)]
        named = {p.name: launch.bind(p.name, value, p.constexpr)
                 for p, value in zip(self.parameters, arrays)}
        keywords = {p.name: named.pop(p.name) for p in self.parameters if p.keyword_only}
        if 0 not in grid:
            kernel = as_kernel(self)
            launch.run(lambda: kernel(*named.values(), **keywords))

    def _array(self, parameter, value):
        if parameter.constexpr or value is None or isinstance(value, (int, float, tuple, list)):
            return value
        from tilery.arguments import from_value
        from tilery.language import dtypes, values

        if values.is_literal(value) or isinstance(value, (dtypes.dtype, values.constexpr)):
            return value
        return from_value(parameter.name, value)

    def _bind(self, args, kwargs):
        """Arguments in parameter order, and the keywords that are options."""
        if len(args) > len(self.names):
            raise LaunchError(f"kernel '{self.name}' takes {len(self.names)} arguments, "
                              f"got {len(args)}")
        bound: list = list(args) + [_MISSING] * (len(self.names) - len(args))
        chosen = {}
        for name, value in kwargs.items():
            at = self._positions.get(name)
            if at is None:
                if name not in OPTIONS and name not in LAUNCH_KEYWORDS:
                    known = self.names + list(OPTIONS + LAUNCH_KEYWORDS[:3])
                    raise ConfigError(f"kernel '{self.name}' has no parameter or option '{name}'; "
                                      f"{nearest(name, known)}")
                chosen[name] = value
            elif bound[at] is not _MISSING:
                raise LaunchError(f"kernel '{self.name}' got argument '{name}' twice")
            else:
                bound[at] = value
        for at, parameter in enumerate(self.parameters):
            if bound[at] is _MISSING:
                if not parameter.has_default:
                    raise LaunchError(f"kernel '{self.name}' needs argument '{parameter.name}'")
                bound[at] = parameter.default
        return tuple(bound), chosen

    def _grid(self, grid, args) -> tuple[int, int, int]:
        if callable(grid):
            grid = grid(dict(zip(self.names, args)))
        grid = grid if isinstance(grid, (tuple, list)) else (grid,)
        if not 1 <= len(grid) <= 3:
            raise LaunchError(f"a grid has 1 to 3 extents, got {len(grid)}")
        grid = (*grid, *(1,) * (3 - len(grid)))
        _check_grid(grid)
        return tuple(map(operator.index, grid))

    # -- inspection -----------------------------------------------------------------------------

    def warmup(self, *args, grid=(1,), **kwargs) -> "CompiledKernel":
        """Compiles for these arguments without a launch."""
        args, chosen = self._bind(args, kwargs)
        for name in LAUNCH_KEYWORDS:
            chosen.pop(name, None)
        self._native()
        self._last = (_options(chosen), args)
        return self._compiled()

    def _compiled(self) -> "CompiledKernel":
        handle = self._native()
        if self._last is None:
            raise LaunchError(f"kernel '{self.name}' was not launched or warmed up yet; "
                              "its text depends on the arguments")
        options, args = self._last
        packed = self._records.pack(args)
        with self._explaining():
            compiled = _capi.handle_from("function_compile", handle, options, packed, len(args))
        return CompiledKernel(self.name, compiled)

    @property
    def ir(self) -> "CompiledKernel":
        """Texts of the last launch's stages: `kernel.ir["core"]`, "linalg", "vector", "llvm"."""
        return self._compiled()

    @property
    def asm(self) -> "CompiledKernel":
        """Machine code as text: `kernel.asm["asm"]`."""
        return self._compiled()

    def __repr__(self):
        return f"<kernel '{self.name}'>"


class CompiledKernel:
    """One compiled specialisation; index it with the name of a stage."""

    def __init__(self, name: str, handle: int):
        self.name, self.handle = name, handle

    def __getitem__(self, stage: str) -> str:
        text = _capi.library().tilery_kernel_text(self.handle, stage.encode())
        if text is None:
            raise ConfigError(_capi.message())
        return text.decode()


_MISSING = object()


@functools.cache
def _launcher():
    return _capi.launcher()


@functools.lru_cache(maxsize=None)
def _interned(text: bytes) -> int:
    return _capi.handle_from("options_intern", text)


def _options(chosen: dict) -> int:
    chosen = {key: _json_value(key, value) for key, value in sorted(chosen.items())
              if key in OPTIONS}
    return _interned(_capi.encode(chosen)) if chosen else 0


def _json_value(name: str, value):
    """An option's value as the library reads it; its kind is checked there."""
    value = value.item() if isinstance(value, np.generic) else value
    if value is not None and not isinstance(value, (bool, int, float, str)):
        raise ConfigError(f"launch option '{name}' must be a number or a flag, not a "
                          f"{type(value).__name__}")
    return value


def _number(name: str, value, kind):
    try:
        return kind(value)
    except (TypeError, ValueError, OverflowError):
        raise ConfigError(f"launch option '{name}' must be a number, got {value!r}") from None


def _stream(value) -> int:
    """A stream as the driver's handle; torch's streams have theirs."""
    return _number("stream", getattr(value, "cuda_stream", value) or 0, int)


def _check_grid(grid) -> None:
    for extent in grid:
        try:
            number = operator.index(extent)
        except TypeError:
            raise LaunchError(f"a grid's extents are integers, got {extent!r} "
                              f"({type(extent).__name__})") from None
        if not 0 <= number < 1 << 31:
            raise LaunchError(f"grid {tuple(grid)} is out of range; extents are 0 to {2**31 - 1}")
