# SPDX-FileCopyrightText: The Tilery authors
# SPDX-License-Identifier: Apache-2.0
"""Remote writes and signals that arrive late and reordered, as far as the memory model allows.

Each program instance has a queue of segments. Operations of one segment arrive in any order;
a segment starts to arrive when the one before has arrived wholly. A notify (a release) and a
fence open a segment; a put_signal delivers its data before its signal.
"""

from __future__ import annotations


class Queue:
    """Remote operations of one program instance that are under way."""

    def __init__(self, queues: list):
        self.queues = queues  # the scheduler's list of non-empty queues
        self.segments: list[list] = [[]]

    def push(self, operation, then=None) -> None:
        """Adds `operation` (a function), followed some time later by `then`."""
        if not self:
            self.queues.append(self)
        self.segments[-1].append((operation, then))

    def order(self) -> None:
        """Whatever is pushed from now on arrives after what was pushed before."""
        if self.segments[-1]:
            self.segments.append([])

    def __bool__(self) -> bool:
        return any(self.segments)

    def deliver_one(self, random) -> None:
        segment = self.segments[0]
        operation, then = segment.pop(random.randrange(len(segment)))
        operation()
        if then is not None:
            segment.append((then, None))
        while len(self.segments) > 1 and not self.segments[0]:
            self.segments.pop(0)
        if not self:
            self.queues.remove(self)

    def flush(self, random) -> None:
        """Everything arrives now."""
        while self:
            self.deliver_one(random)
