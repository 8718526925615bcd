# SPDX-FileCopyrightText: The Tilery authors
# SPDX-License-Identifier: Apache-2.0
"""Cases from the field, section A: signals and the memory model. Numbers are those of the list."""

import numpy as np
import pytest
from kernel_text import make
from test_errors import fails

import tilery as ty


def spawn(body, ranks=2, **options):
    return ty.spawn(body, ranks=ranks, timeout=options.pop("timeout", 20.0), **options)


def test_1_polling_a_lock_in_symmetric_memory(backend):
    """An exchange on another rank's lock word is seen by that rank's polling loop."""
    kernel = make('''@ty.jit
def kernel(lock, data, out):
    if dl.rank() == 0:
        tl.store(dl.symm_at(data, 1), 42)
        tl.atomic_xchg(dl.symm_at(lock, 1), 1)
    else:
        while tl.atomic_add(lock, 0) != 1:
            pass
        tl.store(out, tl.load(data))
''')

    def body():
        lock, data = ty.zeros(1, "int32", "lock"), ty.zeros(1, "int32", "data")
        out = np.zeros(1, np.int32)
        kernel[(1,)](lock, data, out)
        return int(out[0])
    for seed in range(10):
        assert spawn(body, seed=seed, delay=True) == [0, 42]


def test_1_a_narrow_scope_on_symmetric_memory(backend, capfd):
    """One warning that names the scope; in the interpreter a Python warning."""
    kernel = make('''@ty.jit
def kernel(lock):
    tl.atomic_xchg(dl.symm_at(lock, 0), 1, scope="gpu")
''')
    text = 'scope "gpu" on symmetric memory'
    if backend == "interpret":
        with pytest.warns(UserWarning, match=text):
            spawn(lambda: kernel[(1,)](ty.zeros(1, "int32")))
    else:
        spawn(lambda: kernel[(1,)](ty.zeros(1, "int32")))
        assert text in capfd.readouterr().err


@pytest.mark.parametrize("seed", range(10))
def test_2_notify_releases_the_whole_row(backend, seed):
    """All of a row that an instance wrote remotely is there once its flag is."""
    kernel = make('''@ty.jit
def kernel(rows, flags, out, N: tl.constexpr):
    peer = 1 - dl.rank()
    pid = tl.program_id(0)
    at = pid * N + tl.arange(0, N)
    tl.store(dl.symm_at(rows, peer) + at, at + 1)
    dl.notify(flags + pid, peer, signal=1)
    dl.wait(flags + pid, waitValue=1)
    tl.store(out + at, tl.load(rows + at))
''')

    def body():
        rows, flags = ty.zeros(4 * 64, "int32"), ty.signals(4)
        out = np.zeros(4 * 64, np.int32)
        kernel[(4,)](rows, flags, out, N=64)
        return out
    for out in spawn(body, seed=seed, delay=True):
        np.testing.assert_array_equal(out, np.arange(1, 257))


SIGNAL_MISUSE = [
    (4, "dl.wait(plain, waitValue=1)", ["signal"]),
    (4, "dl.notify(plain, 0)", ["signal"]),
    (4, "tl.store(flag, 1)", ["signal"]),
    (4, "y = tl.load(flag)", ["signal"]),
    (4, "tl.atomic_add(flag, 1)", ["signal"]),
    (5, "y = dl.symm_at(dl.symm_at(plain, 1), 1)", ["remote"]),
    (5, "dl.put(dl.symm_at(plain, 1), plain, 1, 1)", ["remote"]),
    (10, "dl.wait(flag, waitValue=1, cmp=dl.SignalOp.ADD)", ["Compare", "SignalOp"]),
    (10, "dl.notify(flag, 0, sig_op=dl.Compare.EQ)", ["SignalOp", "Compare"]),
    (10, "dl.notify(flag, 0, sig_op='ge')", ["set", "add", "ge"]),
    (10, "dl.wait(flag, waitValue=1, cmp='add')", ["eq", "add"]),
]


@pytest.mark.parametrize("case,body,texts", SIGNAL_MISUSE)
def test_types_keep_signals_and_pointers_apart(backend, case, body, texts):
    kernel = make(f"@ty.jit\ndef kernel(plain, flag):\n    {body}\n    dl.notify(flag, 0)\n")
    with fails(ty.CompileError, r"\.py:3:\d+: error", *texts):
        spawn(lambda: kernel[(1,)](ty.zeros(4, "int32"), ty.signals(1)))


REUSE = '''@ty.jit
def kernel(flags, epochs, trace):
    epoch = tl.load(epochs) + 1
    for peer in range(dl.num_ranks()):
        dl.notify(flags + dl.rank(), peer, signal=epoch, sig_op="set")
    dl.wait(flags, dl.num_ranks(), waitValue=epoch, cmp="ge")
    tl.store(epochs, epoch)
'''


def test_6_a_barrier_is_used_1000_times(backend):
    """The epoch lives on the device and advances inside the kernel."""
    kernel = make(REUSE)
    calls = 1000 if backend == "cpu" else 300

    def body():
        flags, epochs = ty.signals(3), np.zeros(1, np.int64)
        for _ in range(calls):
            kernel[(1,)](flags, epochs, None)
        return int(epochs[0])
    assert spawn(body, ranks=3) == [calls] * 3


def test_8_one_beyond_the_signals(backend):
    """Exactly the last slot works; one more is an error that names the bound."""
    kernel = make('''@ty.jit
def kernel(flags, count):
    for i in range(count):
        dl.notify(flags + i, dl.rank())
    dl.wait(flags, count, waitValue=1)
''')
    spawn(lambda: kernel[(1,)](ty.signals(4, name="flags"), 4))
    with fails(ty.LaunchError, "'flags' out of bounds: element 4 of 4|does not lie in a symmetric"):
        spawn(lambda: kernel[(1,)](ty.signals(4, name="flags"), 5))


def test_8_an_unknown_rank(backend):
    kernel = make('''@ty.jit
def kernel(flags, peer):
    dl.notify(flags, peer)
''')
    with fails(ty.LaunchError, "rank 2", "0 to 1|2 ranks"):
        spawn(lambda: kernel[(1,)](ty.signals(1), 2))


def test_9_a_wait_does_not_return_early(backend):
    """The producer is late; a wait that is a no-op would read zeros."""
    kernel = make('''@ty.jit
def kernel(data, flag, out, rounds):
    if dl.rank() == 0:
        total = 0
        for i in range(rounds):
            total += tl.atomic_add(data, 0)
        tl.store(dl.symm_at(data, 1) + 1, 7 + total)
        dl.notify(flag, 1)
    else:
        dl.wait(flag, waitValue=1)
        tl.store(out, tl.load(data + 1))
''')

    def body():
        out = np.zeros(1, np.int32)
        kernel[(1,)](ty.zeros(2, "int32"), ty.signals(1), out, 2000)
        return int(out[0])
    assert spawn(body) == [0, 7]


def test_16_two_sends_in_flight(backend):
    """put_signal with ADD: counts, not overwritten flags, tell how much has arrived."""
    kernel = make('''@ty.jit
def kernel(slots, flag, mine, out):
    if dl.rank() == 0:
        for i in range(2):
            dl.put_signal(slots + i * 8, mine + i * 8, 8, 1, flag, 1, "add")
    else:
        dl.wait(flag, waitValue=2, cmp="ge")
        at = tl.arange(0, 16)
        tl.store(out + at, tl.load(slots + at))
''')

    def body():
        mine, out = np.arange(16, dtype=np.float32), np.zeros(16, np.float32)
        kernel[(1,)](ty.zeros(16, "fp32"), ty.signals(1), mine, out)
        return out
    for seed in range(10):
        np.testing.assert_array_equal(spawn(body, seed=seed, delay=True)[1], np.arange(16))


def test_18_a_spinning_lock_and_a_spin_barrier(backend):
    """Instances that poll a shared word all make progress."""
    lock = make('''@ty.jit
def kernel(lock, total):
    while tl.atomic_xchg(lock, 1) == 1:
        pass
    tl.store(total, tl.load(total) + 1)
    tl.atomic_xchg(lock, 0)
''')
    word, total = np.zeros(1, np.int32), np.zeros(1, np.int32)
    lock[(16,)](word, total)
    assert total[0] == 16
    barrier = make('''@ty.jit
def kernel(count, rounds):
    n = tl.num_programs(0)
    for i in range(rounds):
        tl.atomic_add(count, 1)
        while tl.atomic_add(count, 0) < n * (i + 1):
            tl.debug_barrier()
''')
    blocks, rounds = (64, 32) if backend == "cpu" else (16, 8)
    count = np.zeros(1, np.int32)
    barrier[(blocks,)](count, rounds)
    assert count[0] == blocks * rounds


def test_19_a_token_for_pointers_and_inlined_waits(backend):
    kernel = make('''@ty.jit
def arrive(flag):
    dl.notify(flag, dl.rank())
    return dl.wait(flag, 1, "sys", "acquire", waitValue=1)

@ty.jit
def kernel(data, flag, out):
    token = arrive(flag)
    block = tl.make_block_ptr(data, (16,), (1,), (0,), (16,), (0,))
    block = dl.consume_token(block, token)
    pointer = dl.consume_token(data, token)
    tl.store(out + tl.arange(0, 16), tl.load(block) + tl.load(pointer))
''')

    def body():
        data, out = ty.zeros(16, "fp32"), np.zeros(16, np.float32)
        data.numpy()[...] = np.arange(16)
        kernel[(1,)](data, ty.signals(1), out)
        return out
    np.testing.assert_array_equal(spawn(body)[0], np.arange(16))


def test_20_allocations_are_zeroed_and_collective(backend):
    def body():
        for call in range(5):
            x = ty.empty(1000, "int32")
            clean = not x.numpy().any()
            x.numpy()[...] = 7
            ty.barrier()
            x.free()
            if not clean:
                return call
        return -1
    assert spawn(body, ranks=4) == [-1] * 4


def test_a_deadlock_is_reported(backend):
    kernel = make('''@ty.jit
def kernel(ready):
    if dl.rank() == 0:
        dl.notify(ready, 1, signal=2, sig_op="add")
    else:
        dl.wait(ready, waitValue=4, cmp="ge")
''')
    with fails(ty.WaitTimeout, "rank 1", "kernel", r"\.py:6", "ready", "4", "2"):
        spawn(lambda: kernel[(1,)](ty.signals(1, name="ready")), timeout=3.0)


def test_a_zero_byte_put_still_signals(backend):
    kernel = make('''@ty.jit
def kernel(data, flag, n):
    dl.put_signal(data, data, n, 1 - dl.rank(), flag, 1)
    dl.wait(flag, waitValue=1)
''')
    spawn(lambda: kernel[(1,)](ty.zeros(4, "fp32"), ty.signals(1), 0))


COMPARE = {"eq": 5, "ne": 4, "gt": 4, "le": 5, "lt": 6, "ge": 5}


@pytest.mark.parametrize("spelling", ["text", "enum"])
@pytest.mark.parametrize("name", COMPARE)
def test_comparisons_of_wait(backend, name, spelling):
    cmp = f'"{name}"' if spelling == "text" else f"dl.Compare.{name.upper()}"
    kernel = make(f'''@ty.jit
def kernel(flag):
    dl.notify(flag, 1 - dl.rank(), signal=5)
    dl.wait(flag, waitValue=5)
    dl.wait(flag, waitValue={COMPARE[name]}, cmp={cmp})
''')
    spawn(lambda: kernel[(1,)](ty.signals(1)))


def test_puts_gets_fence_and_quiet(backend):
    kernel = make('''@ty.jit
def kernel(box, mine, back, flag, n):
    peer = 1 - dl.rank()
    dl.put_nbi(box, mine, n, peer)
    dl.fence()
    dl.put(box + n, mine, n, peer)
    dl.quiet()
    dl.barrier_all()
    dl.get(back, box, n, dl.rank())
    dl.get_nbi(back + n, box, n, peer)
    dl.quiet()
''')

    def body():
        mine, back = np.full(8, ty.rank() + 1, np.float32), np.zeros(16, np.float32)
        kernel[(1,)](ty.zeros(16, "fp32"), mine, back, ty.signals(1), 8)
        return back.tolist()
    for seed in range(5):
        results = spawn(body, seed=seed, delay=True)
        assert results == [[2.0] * 8 + [1.0] * 8, [1.0] * 8 + [2.0] * 8]
