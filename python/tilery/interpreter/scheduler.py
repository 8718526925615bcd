# SPDX-FileCopyrightText: The Tilery authors
# SPDX-License-Identifier: Apache-2.0
"""Interleaves tasks (hosts of ranks and program instances) with greenlets, in one thread.

A task that waits gives its predicate to `block`. When no task can run and no remote write is
under way, the deadlock is reported: who waits for what, where, and what it sees.
"""

from __future__ import annotations

import importlib
import random
import time

from tilery.errors import ConfigError, PeerError, WaitTimeout, describe

_POLLS_WITHOUT_PROGRESS = 20000
_MEMORY_STEPS_A_TURN = 16


def _greenlets():
    """The greenlet package: only interpreted kernels need it, compiled ones run without."""
    try:
        return importlib.import_module("greenlet")
    except ImportError:
        raise ConfigError("the interpreter needs the package 'greenlet'\n"
                          "hint: pip install 'tilery[interpret]'") from None


class Task:
    """One thread of control. `program_id` is None for host code."""

    program_id = None
    kernel = ""

    def __init__(self, scheduler: "Scheduler", rank: int):
        self.scheduler = scheduler
        self.rank = rank
        self.done = False
        self.error: BaseException | None = None
        self.waits_for = None  # None, or an object with ready() and describe()
        self.greenlet = _greenlets().greenlet(self._main)
        self.greenlet.task = self
        self.result = None

    def _main(self):
        try:
            self.result = self.run()
        except BaseException as error:  # handed to whoever waits for this task
            self.error = error
            self.scheduler.fail(self.rank, error)
        self.done = True

    def run(self):
        raise NotImplementedError

    def runnable(self) -> bool:
        if self.done:
            return False
        return self.waits_for is None or self.scheduler.failure is not None or \
            self.waits_for.ready()


class Condition:
    """A predicate with a text for the deadlock report."""

    def __init__(self, ready, describe):
        self.ready = ready
        self.describe = describe


class Scheduler:
    """Runs tasks in turn, or in the order that `seed` gives."""

    def __init__(self, seed: int | None, timeout: float):
        self.random = random.Random(0 if seed is None else seed)
        self.seeded = seed is not None
        self.timeout = timeout
        self.tasks: list[Task] = []
        self.queues: list = []  # remote writes under way, see interpreter/delivery.py
        self.hub = None
        self.polls = 0
        self.last_progress = time.monotonic()
        self.failure: PeerError | None = None  # what blocked tasks are woken with
        self.first_error: BaseException | None = None
        self.first_rank = 0

    def fail(self, rank: int, error: BaseException) -> None:
        """Wakes all blocked tasks with a PeerError; the first error is what the user sees."""
        if self.first_error is None:
            self.first_error, self.first_rank = error, rank
            self.failure = PeerError(f"rank {rank} failed: {describe(error)}")

    def forget(self) -> None:
        """After a failed launch: nothing of it is left."""
        self.tasks, self.failure, self.first_error = [], None, None
        self.queues.clear()
        self.progress()

    def add(self, task: Task) -> None:
        self.tasks.append(task)
        self.progress()

    def progress(self) -> None:
        """Memory or a signal changed: a polling loop may see something new."""
        self.polls = 0
        self.last_progress = time.monotonic()

    # -- called by tasks ---------------------------------------------------------------

    def turn(self) -> None:
        """Lets other tasks run."""
        self.hub.switch()

    def block(self, condition: Condition) -> None:
        """Returns when the condition holds."""
        task = _greenlets().getcurrent().task
        while not condition.ready():
            task.waits_for = condition
            self.hub.switch()
            if self.failure is not None:
                raise self.failure
        task.waits_for = None

    def poll(self) -> None:
        """A polling access: lets others run; many without any change are a deadlock."""
        self.polls += 1
        stuck = time.monotonic() - self.last_progress
        if self.polls > _POLLS_WITHOUT_PROGRESS and stuck > min(2.0, self.timeout or 2.0):
            raise WaitTimeout(f"a loop polls memory that nobody changes any more "
                              f"({self.polls} polls); is the other side missing?")
        self.turn()

    # -- called by the owner -------------------------------------------------------------

    def run(self, finished) -> None:
        """Runs tasks until finished() holds; called by code that is no task itself."""
        outer, self.hub = self.hub, _greenlets().getcurrent()
        try:
            while not finished():
                self._step()
        finally:
            self.hub = outer

    def _step(self) -> None:
        ran = False
        batch = [task for task in self.tasks if task.runnable()]
        if self.seeded:
            self.random.shuffle(batch)
        for task in batch:
            if task.runnable():
                ran = True
                task.greenlet.switch()
            if self.queues and self.random.random() < 0.5:
                self._deliver()
        self.tasks = [task for task in self.tasks if not task.done]
        if not ran:
            if self.queues:
                self._deliver()
            elif self.tasks:
                raise WaitTimeout(self.deadlock())

    def _deliver(self) -> None:
        queue = self.random.choice(self.queues)
        queue.deliver_one(self.random)
        self.progress()

    def deadlock(self) -> str:
        lines = ["deadlock: nothing can run any more"]
        for task in self.tasks:
            if task.waits_for is not None and task.program_id is not None:
                lines.append("  " + task.waits_for.describe(task))
        if len(lines) == 1:
            lines += ["  " + task.waits_for.describe(task) for task in self.tasks if task.waits_for]
        return "\n".join(lines)


def steps_a_turn(scheduler: Scheduler) -> int:
    """After how many memory accesses an instance lets others run."""
    return scheduler.random.randint(1, _MEMORY_STEPS_A_TURN) if scheduler.seeded \
        else _MEMORY_STEPS_A_TURN
