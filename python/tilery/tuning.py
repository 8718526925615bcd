# SPDX-FileCopyrightText: The Tilery authors
# SPDX-License-Identifier: Apache-2.0
"""Choice of meta-parameters by measurement (`autotune`) and by rule (`heuristics`).

In a world of several ranks every choice is collective: the ranks compare their lists of
configurations, agree on which ones failed anywhere, and take the one whose slowest rank is
fastest. So a rank with a warm cache cannot leave the others waiting.
"""

from __future__ import annotations

import hashlib
import json
import math
import time

from tilery import world as worlds
from tilery.errors import ConfigError, Error, LaunchError, nearest
from tilery.kernels import JITFunction


class Config:
    """Meta-parameters of one candidate, and its launch options.

    Example: `Config({"BLOCK": 128}, num_warps=8)`.
    """

    def __init__(self, kwargs: dict, num_warps: int = 4, num_stages: int = 3, num_ctas: int = 1,
                 maxnreg=None, pre_hook=None, **unknown):
        if unknown:
            name = next(iter(unknown))
            raise ConfigError(f"Config has no option '{name}'; " + nearest(
                name, ["num_warps", "num_stages", "num_ctas", "maxnreg", "pre_hook"]))
        self.kwargs = dict(kwargs)
        self.options = {"num_warps": num_warps, "num_stages": num_stages}
        if num_ctas != 1:
            self.options["num_ctas"] = num_ctas
        if maxnreg is not None:
            self.options["maxnreg"] = maxnreg
        self.pre_hook = pre_hook

    def all_kwargs(self) -> dict:
        return self.kwargs | self.options

    def __repr__(self):
        return "Config(" + ", ".join(f"{k}={v}" for k, v in self.all_kwargs().items()) + ")"


def autotune(configs, key, *, prune_configs_by=None, reset_to_zero=None, restore_value=None,
             warmup: int = 1, rep: int = 3, **ignored):
    """Measures `configs` the first time that the arguments named in `key` have new values.

    reset_to_zero, restore_value: names of arrays that are zeroed, or put back, between runs.
    warmup, rep: launches before and during a measurement. Errors: ConfigError when `configs`
    differ between ranks, LaunchError when every configuration failed (with the reasons).

    Example: `@ty.autotune([ty.Config({"BLOCK": b}) for b in (64, 256)], key=["n"])`.
    """
    configs = list(configs) or [Config({})]
    unknown = set(ignored) - {"use_cuda_graph", "do_bench", "cache_results", "pre_hook",
                              "post_hook"}
    if unknown:
        name = sorted(unknown)[0]
        raise ConfigError(f"ty.autotune has no option '{name}'; " + nearest(
            name, ["prune_configs_by", "reset_to_zero", "restore_value", "warmup", "rep"]))

    def decorate(kernel):
        return Autotuner(kernel, configs, key, prune_configs_by or {}, reset_to_zero or (),
                         restore_value or (), warmup, rep)
    return decorate


class Tunable:
    """A kernel whose launch is prepared by something: `kernel[grid](...)` works as before."""

    def __init__(self, kernel):
        if not isinstance(kernel, (JITFunction, Tunable)):
            raise ConfigError("ty.autotune and ty.heuristics go above ty.jit")
        self.kernel = kernel
        self.names = kernel.names
        self.name = kernel.name

    def __getitem__(self, grid):
        return lambda *args, **kwargs: self.launch(grid, *args, **kwargs)

    def __call__(self, *args, **kwargs):
        return self.kernel(*args, **kwargs)


class Autotuner(Tunable):
    """See `autotune`. `best_config` is the last choice."""

    def __init__(self, kernel, configs, key, prune, reset, restore, warmup, rep):
        super().__init__(kernel)
        for name in [*key, *reset, *restore]:
            if name not in self.names:
                raise ConfigError(f"kernel '{self.name}' has no parameter '{name}'; "
                                  f"{nearest(name, self.names)}")
        self.configs, self.key, self.prune = configs, list(key), prune
        self.reset, self.restore, self.warmup, self.rep = reset, restore, warmup, rep
        self.chosen: dict = {}
        self.best_config: Config | None = None

    def launch(self, grid, *args, **kwargs):
        named = dict(zip(self.names, args)) | kwargs
        key = (*(_plain(named.get(name)) for name in self.key),
               *(str(getattr(value, "dtype", "")) for value in named.values()))
        team = kwargs.get("team") if "team" not in self.names else None
        world = worlds.current(required=False) if team is None else worlds.current_team(team)
        known = (id(world), key) if world is not None and world.size > 1 else key
        # Whether this rank must tune is itself agreed on: another rank may come with a new key.
        if _anywhere(world, known not in self.chosen):
            self.chosen[known] = self._tune(world, grid, args, kwargs, named)
        config = self.best_config = self.chosen[known]
        return self._run(config, grid, args, kwargs, named)

    def _candidates(self, named) -> list[Config]:
        configs = self.configs
        if "early_config_prune" in self.prune:
            configs = list(self.prune["early_config_prune"](configs, named))
        return configs or self.configs[:1]

    def _tune(self, world, grid, args, kwargs, named) -> Config:
        configs = self._candidates(named)
        _check_same(world, self.name, configs)
        if len(configs) == 1:
            return configs[0]
        results = []
        for config in configs:
            seconds, reason = self._measure(world, config, grid, args, kwargs, named)
            worst = max(_exchange(world, [seconds, reason]), key=lambda both: both[0])
            results.append((worst[0], worst[1]))
        best = min(range(len(configs)), key=lambda i: results[i][0])
        if math.isinf(results[best][0]):
            reasons = "; ".join(f"{c}: {reason}" for c, (_, reason) in zip(configs, results))
            raise LaunchError(f"no configuration of kernel '{self.name}' works: {reasons}")
        return configs[best]

    def _measure(self, world, config, grid, args, kwargs, named) -> tuple[float, str]:
        """Seconds of the fastest run; infinite with the reason when it cannot be launched."""
        reason = self._cannot_compile(config, args, kwargs)
        if any(_exchange(world, reason)):
            return math.inf, reason
        saved = {name: named[name].copy() for name in self.restore}
        best = math.inf
        for attempt in range(self.warmup + self.rep):
            for name in self.reset:
                named[name][...] = 0
            if world is not None and world.size > 1:
                world.barrier()
            start = time.perf_counter()
            reason = self._try(config, grid, args, kwargs, named)
            if any(_exchange(world, reason)):
                best = math.inf
                break
            if attempt >= self.warmup:
                best = min(best, time.perf_counter() - start)
        for name, value in saved.items():
            named[name][...] = value
        return best, reason

    def _cannot_compile(self, config, args, kwargs) -> str:
        """Why the configuration cannot be built, before any rank launches it."""
        from tilery.kernels import interpreting
        if interpreting() or not isinstance(self.kernel, JITFunction):
            return ""
        try:
            self.kernel.warmup(*args, **kwargs, **config.all_kwargs())
        except Error as error:
            return str(error)
        return ""

    def _try(self, config, grid, args, kwargs, named) -> str:
        try:
            self._run(config, grid, args, kwargs, named)
        except Error as error:
            return str(error) or type(error).__name__
        return ""

    def _run(self, config, grid, args, kwargs, named):
        if config.pre_hook is not None:
            config.pre_hook(named | config.all_kwargs())
        return self.kernel[grid](*args, **(kwargs | config.all_kwargs()))


def heuristics(values: dict):
    """Meta-parameters computed from the arguments at each launch.

    Example: `@ty.heuristics({"BLOCK": lambda args: ty.next_power_of_2(args["n"])})`.
    """
    def decorate(kernel):
        return Heuristics(kernel, values)
    return decorate


class Heuristics(Tunable):
    """See `heuristics`."""

    def __init__(self, kernel, values):
        super().__init__(kernel)
        self.values = dict(values)

    def launch(self, grid, *args, **kwargs):
        named = dict(zip(self.names, args)) | kwargs
        for name, rule in self.values.items():
            kwargs[name] = named[name] = rule(named)
        return self.kernel[grid](*args, **kwargs)


def _plain(value):
    shape = getattr(value, "shape", None)
    return tuple(shape) if shape is not None else value


def _exchange(world, value) -> list:
    """Every rank's value."""
    if world is None or world.size == 1:
        return [value]
    texts = world.all_gather_bytes(json.dumps(value).encode())
    return [json.loads(text) for text in texts]


def _anywhere(world, condition: bool) -> bool:
    return any(_exchange(world, condition))


def _check_same(world, name: str, configs) -> None:
    text = repr(configs)
    digests = _exchange(world, [len(configs), hashlib.sha256(text.encode()).hexdigest()])
    if any(digest != digests[0] for digest in digests):
        shown = ", ".join(f"rank {r} has {count} ({digest[:8]})"
                          for r, (count, digest) in enumerate(digests))
        raise ConfigError(f"the configurations of kernel '{name}' differ between ranks: {shown}")
