# SPDX-FileCopyrightText: The Tilery authors
# SPDX-License-Identifier: Apache-2.0
"""One program instance of an interpreted kernel, and the operations it does for the language."""

from __future__ import annotations

import numpy as np

from tilery.errors import Error, LaunchError
from tilery.interpreter import location
from tilery.interpreter.delivery import Queue
from tilery.interpreter.memory import Place
from tilery.interpreter.scheduler import Condition, Task, steps_a_turn

COMPARE = {"eq": np.equal, "ne": np.not_equal, "gt": np.greater, "le": np.less_equal,
           "lt": np.less, "ge": np.greater_equal}


class Instance(Task):
    """Runs `body()` with the ids of one program instance."""

    def __init__(self, launch, program_id: tuple[int, int, int], body):
        super().__init__(launch.scheduler, launch.world.own_seat)
        self.launch = launch
        self.program_id = program_id
        self.grid = launch.grid
        self.kernel = launch.name
        self.places = launch.places
        self.body = body
        self.queue = Queue(self.scheduler.queues)
        self.steps = steps_a_turn(self.scheduler)

    @property
    def world(self):
        return self.launch.world

    def run(self):
        with np.errstate(all="ignore"):
            try:
                self.body()
            except Error as error:
                where = f"{self.world.rank_text()}, kernel '{self.kernel}', instance {self.program_id}"
                located = location.locate(error, error.__traceback__)
                located.add_note(where)
                raise located from error
        self.scheduler.progress()

    # -- memory --------------------------------------------------------------------------

    def progress(self) -> None:
        self.scheduler.progress()

    def memory_step(self, poll: bool = False) -> None:
        """Before each memory access: lets others run now and then, at every poll always."""
        if poll:
            self.scheduler.poll()
            return
        self.steps -= 1
        if self.steps <= 0:
            self.steps = steps_a_turn(self.scheduler)
            self.scheduler.turn()

    def before_load(self, place: Place) -> None:
        """A remote load sees this instance's own earlier remote stores."""
        if place.remote and self.queue:
            self.queue.flush(self.scheduler.random)

    def write(self, place: Place, element: np.dtype, indices, data) -> None:
        def apply():
            place.view(element)[indices] = data
            self.scheduler.progress()
        if place.remote and self.world.delays:
            data, indices = data.copy(), np.asarray(indices).copy()
            self.queue.push(apply)
        else:
            apply()

    def release(self) -> None:
        """Earlier remote operations of this instance are complete afterwards."""
        if self.queue:
            self.queue.flush(self.scheduler.random)

    # -- ranks and signals -----------------------------------------------------------------

    def check_rank(self, rank: int, what: str) -> int:
        """The seat of a rank of this world or team."""
        if not 0 <= rank < self.world.size:
            raise LaunchError(f"{what}: rank {rank} does not exist; there are ranks 0 to "
                              f"{self.world.size - 1}")
        return self.world.seat(rank)

    def send(self, operation, then=None, ordered: bool = False) -> None:
        """A remote operation, at once or under way; `ordered`: after all earlier ones."""
        if not self.world.delays:
            operation()
            if then is not None:
                then()
            return
        if ordered:
            self.queue.order()
        self.queue.push(operation, then)

    def update_signal(self, place: Place, index: int, value: int, add: bool):
        """The function that updates one signal word in `place`."""
        writer = f"{self.world.rank_text()}, {location.short(_frame())}"

        def apply():
            words = place.view(np.dtype(np.uint64))
            change = np.uint64(value % 2**64)
            words[index] = words[index] + change if add else change
            self.world.note_writer(place, writer)
            self.scheduler.progress()
        return apply

    def wait(self, place: Place, index: int, count: int, value: int, compare: str) -> None:
        words = place.view(np.dtype(np.uint64))[index:index + count]
        expected, holds = np.uint64(value % 2**64), COMPARE[compare]

        def describe(task):
            failing = int(np.flatnonzero(~holds(words, expected))[0])
            writers = self.world.writers_of(place)
            at = location.short(task.greenlet.gr_frame)
            return (f"{self.world.rank_text()}, kernel '{self.kernel}', {at}, instance "
                    f"{self.program_id}: waits for signal '{place.name}'[{index + failing}] "
                    f"{compare} {value}, sees {words[failing]}; {writers}")

        self.scheduler.block(Condition(lambda: bool(np.all(holds(words, expected))), describe))


def _frame():
    import sys
    return sys._getframe(2)
