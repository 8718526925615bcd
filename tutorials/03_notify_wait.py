# SPDX-FileCopyrightText: The Tilery authors
# SPDX-License-Identifier: Apache-2.0
"""Lesson 3: ranks, symmetric memory and signals.

Several *ranks* run the same program, each with its own memory. ty.spawn runs them in this
process; on several devices or hosts the same code is started by a launcher and calls ty.init.
"""

import numpy as np

import tilery as ty
import tilery.language as tl
import tilery.language.device as dl


# Every rank sends its data to the next rank in a ring.
#
# `inbox` is *symmetric*: the same object exists on every rank, so that one rank can name it in
# another's memory. dl.symm_at gives its address there, and tl.store writes to it.
#
# How does the receiver know that the data has arrived? By a signal. dl.notify is a *release*:
# whatever this instance wrote before is visible to the one whose dl.wait (an *acquire*) sees the
# signal. Never poll the data itself.
@ty.jit
def send_to_next(data, inbox, arrived, out, N: tl.constexpr):
    rank = dl.rank()
    following = (rank + 1) % dl.num_ranks()
    at = tl.arange(0, N)

    tl.store(dl.symm_at(inbox, following) + at, tl.load(data + at))
    dl.notify(arrived, following, signal=1, sig_op="set")

    dl.wait(arrived, waitValue=1, cmp="ge")
    tl.store(out + at, tl.load(inbox + at))


def body():
    # Allocation is collective: every rank makes the same calls in the same order. Symmetric
    # memory and signals start at zero.
    inbox = ty.zeros(8, ty.float32, name="inbox")
    arrived = ty.signals(1, name="arrived")
    data = np.full(8, ty.rank(), dtype=np.float32)
    out = np.empty(8, dtype=np.float32)

    send_to_next[(1,)](data, inbox, arrived, out, N=8)
    return out


# If a notify is missing, the wait does not hang: the report says who waits for which signal,
# where, what was expected and what is seen.
@ty.jit
def waits_in_vain(arrived):
    dl.wait(arrived, waitValue=1)


def main():
    # seed makes the schedule repeatable; delay lets remote writes arrive late and reordered, as
    # a network would, as far as the memory model allows. A right program does not care.
    for seed in range(5):
        results = ty.spawn(body, ranks=4, seed=seed, delay=True)
        for rank, out in enumerate(results):
            assert (out == (rank - 1) % 4).all(), (rank, out)
    print("every rank has its neighbour's data, in 5 different schedules")

    try:
        ty.spawn(lambda: waits_in_vain[(1,)](ty.signals(1)), ranks=2, seed=1, timeout=2.0)
        raise AssertionError("the missing notify was not reported")
    except ty.WaitTimeout as report:
        print("a missing notify is reported:", str(report).splitlines()[0])


if __name__ == "__main__":
    main()
