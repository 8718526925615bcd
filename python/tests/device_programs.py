# SPDX-FileCopyrightText: The Tilery authors
# SPDX-License-Identifier: Apache-2.0
"""What each rank of a world runs in the tests over several devices; on the host it runs as well."""

import numpy as np
from kernel_text import make

import tilery as ty

RING = """@ty.jit
def kernel(x, inbox, out, counter, ready, expected, BLOCK: tl.constexpr):
    following = (dl.rank() + 1) % dl.num_ranks()
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(dl.symm_at(inbox, following) + at, tl.load(x + at) + dl.rank())
    tl.atomic_add(dl.symm_at(counter, 0), 1, sem="relaxed", scope="sys")
    dl.notify(ready, following, 1, sig_op="add")
    dl.wait(ready, waitValue=expected, cmp="ge")
    tl.store(out + at, tl.load(inbox + at))
"""

TRANSFERS = """@ty.jit
def kernel(x, inbox, fetched, ready, n, epoch):
    following = (dl.rank() + 1) % dl.num_ranks()
    dl.put_signal(inbox, x, n, following, ready, epoch)
    dl.wait(ready, waitValue=epoch)
    dl.barrier_all()
    dl.get(fetched, x, n, following)
    dl.barrier_all()
"""


def ring(rounds: int = 20, instances: int = 16, team=None) -> None:
    """Stores, additions to one counter and to signals, from all ranks at once."""
    rank, size, n = ty.rank(team=team), ty.num_ranks(team=team), instances * 256
    kernel = make(RING)
    x, inbox, out = (ty.zeros(n, ty.int32, name, team=team) for name in ("x", "inbox", "out"))
    counter, ready = ty.zeros(1, ty.int32, "counter", team=team), ty.signals(1, "ready", team=team)
    before = (rank - 1) % size
    for number in range(1, rounds + 1):
        x.copy_from(np.arange(n) + 1000 * number)
        ty.barrier(team=team)
        kernel[(instances,)](x, inbox, out, counter, ready, number * instances, BLOCK=256, team=team)
        ty.barrier(team=team)
        assert (out.numpy() == np.arange(n) + 1000 * number + before).all(), number
    assert rank != 0 or counter[0] == rounds * instances * size, counter[0]


def transfers(rounds: int = 20, n: int = 10007, team=None) -> None:
    """put, get, signals and barriers inside kernels."""
    rank, size = ty.rank(team=team), ty.num_ranks(team=team)
    kernel = make(TRANSFERS)
    x, inbox, fetched = (ty.zeros(n, ty.float32, name, team=team) for name in ("x", "inbox", "fetched"))
    ready = ty.signals(1, "ready", team=team)
    for epoch in range(1, rounds + 1):
        x.copy_from(np.arange(n) + rank * 100000 + epoch)
        ty.barrier(team=team)
        kernel[(1,)](x, inbox, fetched, ready, n, epoch, team=team)
        ty.barrier(team=team)
        for tensor, owner in ((inbox, (rank - 1) % size), (fetched, (rank + 1) % size)):
            assert (tensor.numpy() == (np.arange(n) + owner * 100000 + epoch).astype(np.float32)).all()


def operators(rounds: int = 5) -> None:
    """Calls that follow each other without a synchronisation."""
    rank, size = ty.rank(), ty.num_ranks()
    team = ty.init()
    x, total = ty.zeros(1000, ty.float32, "x"), ty.zeros(1000, ty.float32, "total")
    x.copy_from(np.full(1000, rank + 1))
    rng = np.random.default_rng(1)
    a, b = (rng.standard_normal(shape).astype(np.float32) for shape in ((32 * size, 64), (64, 96)))
    part, weights = ty.zeros((32, 64), ty.float32, "a"), ty.zeros((64, 96), ty.float32, "b")
    part.copy_from(a[rank * 32:(rank + 1) * 32])
    weights.copy_from(b)
    c = ty.zeros((32 * size, 96), ty.float32, "c")
    for _ in range(rounds):
        ty.ops.all_reduce(x, total, team=team)
        ty.ops.ag_gemm(part, weights, c, team=team)
    assert (total.numpy() == size * (size + 1) / 2).all()
    assert np.abs(c.numpy() - a.astype(np.float64) @ b).max() < 0.05
    ty.barrier()


def teams() -> None:
    """Overlapping teams of four ranks, and all of them."""
    low, high = ty.team([0, 1, 2], "low"), ty.team([3, 2, 1], "high")
    parity = ty.split(ty.rank() % 2, name="parity")
    for team in (low, high, parity, ty.init()):
        if team.rank >= 0:
            ring(3, 4, team)
            transfers(3, 1000, team)
        ty.barrier()
    parity.finalize()


def everything() -> str:
    ring()
    transfers()
    operators()
    return "right"


REGISTERED = """@ty.jit
def kernel(x, inbox, fetched, counter, ready, n, epoch, BLOCK: tl.constexpr):
    following = (dl.rank() + 1) % dl.num_ranks()
    for begin in range(0, n, BLOCK):
        at = begin + tl.arange(0, BLOCK)
        tl.store(dl.symm_at(inbox + n, following) + at, tl.load(x + at, mask=at < n) + dl.rank(), mask=at < n)
    dl.put(inbox, x, n, following)
    tl.atomic_add(dl.symm_at(counter, 0) + 1, 1, sem="relaxed", scope="sys")
    dl.notify(ready, following, epoch)
    dl.wait(ready, waitValue=epoch)
    dl.get(fetched, x, n, following)
    dl.barrier_all()
"""


def registered(array, rounds: int = 5, n: int = 5003, team=None) -> None:
    """Stores, transfers and atomics in `array(count)`s, int32 arrays of the user, beside the heap."""
    rank, size = ty.rank(team=team), ty.num_ranks(team=team)
    kernel = make(REGISTERED)
    names = {"x": n, "inbox": 2 * n, "counter": 4}
    x, inbox, counter = (ty.register(array(count), name, team=team) for name, count in names.items())
    fetched, ready = ty.zeros(n, ty.int32, "fetched", team=team), ty.signals(1, "ready", team=team)
    counter.copy_from(np.zeros(4))
    before, following = (rank - 1) % size, (rank + 1) % size
    for number in range(1, rounds + 1):
        x.copy_from(np.arange(n) + 1000 * number + 7 * rank)
        ty.barrier(team=team)
        kernel[(1,)](x, inbox, fetched, counter, ready, n, number, BLOCK=1024, team=team)
        ty.barrier(team=team)
        sent = np.arange(n) + 1000 * number + 7 * before
        assert (inbox.numpy() == np.concatenate([sent, sent + before])).all(), number
        assert (fetched.numpy() == np.arange(n) + 1000 * number + 7 * following).all(), number
    assert rank != 0 or counter.numpy().tolist() == [0, rounds * size, 0, 0]
    ty.barrier(team=team)
    for each in (x, inbox, counter):
        each.free()


MISTAKE = """
own, other = (f"cuda:{{index}}" for index in (ty.init().device - 1, 2 - ty.init().device))
rank, foreign, mine = ty.rank(), ty.zeros(4, "int32", device=other), ty.zeros(4, "int32", device=own)
kernel = make('''@ty.jit
def kernel(x, y):
    tl.store(y, dl.rank())
    tl.store(x, 1)
''')
reaches = make('''@ty.jit
def kernel(x, ready):
    tl.store(dl.symm_at(x, 1), 1)
    dl.notify(ready, 1)
''')
ready = ty.signals(1, "ready")
try:
    {body}
except ty.Error as error:
    print(error)
"""

# What one of two ranks on two devices does, or both, and what both are told.
MISTAKES = [
    ("ty.zeros(1 << 30, 'int8', 'large')", "symmetric object 'large' of 1073741824 bytes does not fit"),
    ("y = ty.zeros(4, 'int32', 'y'); kernel[(1,)](foreign, y)", "in memory of cuda:"),
    ("kernel[(1,)](foreign, foreign)", "where its arguments are, but the symmetric heap of rank"),
    ("ty.ops.all_reduce(foreign, foreign)", "cuda:"),
    ("ty.zeros(4 + rank, 'int32', 'x')", "the ranks disagree about a collective operation"),
    ("ty.zeros(4, ['int32', 'fp32'][rank], 'x')", "the ranks disagree about a collective operation"),
    ("ty.barrier() if rank else ty.zeros(4, 'int32', 'x')", "the ranks disagree about a collective operation"),
    ("x = ty.zeros(64 + 64 * rank, 'int32', device=own); ty.ops.all_reduce(x, x)", "differs between ranks"),
    ("x = ty.zeros(64, ['int32', 'fp32'][rank], device=own); ty.ops.all_reduce(x, x)",
     "the element type differs between ranks: int32 on rank 0, fp32 on rank 1"),
    ("x = ty.zeros(64, 'fp32', device=own); ty.ops.all_reduce(x, x, form=['two_shot', 'one_shot'][rank])",
     "option 'form' differs between rank 0 and rank 1; pass the same on all ranks"),
    ("reaches[(1,)](mine, ready)", "uses memory that is not in the symmetric heap"),
    ("reaches[(1,)](ready, ready)", "dl.symm_at does not take signals"),
    ("x = ty.zeros(4, 'int32', 'x'); reaches[(1,)](x, mine)", "signal"),
]
