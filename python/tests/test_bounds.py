# SPDX-FileCopyrightText: The Tilery authors
# SPDX-License-Identifier: Apache-2.0
"""Accesses outside of the memory passed: the launch option check_bounds and TILERY_CHECK. The
interpreter always checks, with the same texts."""

import os
import re
import subprocess
import sys
import time

import numpy as np
import pytest
from backends import require_library
from kernel_text import make

import tilery as ty


def launch(source, *args, grid=(1,), **options):
    make(source)[grid](*args, check_bounds=True, **options)


def fails(text: str, line: int, instance: str = "(0, 0, 0)"):
    """`text`, at the line of the kernel's source, with the program instance and a hint."""
    return pytest.raises(ty.LaunchError, match=rf"(?s)kernel_\d+\.py:{line}:\d+: error: {text}"
                         rf"(?=.*{re.escape(instance)})(?=.*hint: mask the access or check the offsets)")


ACCESSES = [
    ("tl.load reads", "y = tl.load(x + at)"),
    ("tl.store writes", "tl.store(x + at, at)"),
    ("tl.atomic_add updates", "tl.atomic_add(x + at, at)"),
    ("tl.atomic_max updates", "tl.atomic_max(x + at, at)"),
    ("tl.atomic_xchg updates", "tl.atomic_xchg(x + at, at)"),
    ("tl.atomic_cas updates", "tl.atomic_cas(x + at, at, at)"),
]


@pytest.mark.parametrize("who, access", ACCESSES)
def test_each_kind_of_access(backend, who, access):
    """Both ends; what comes after the access does not run."""
    source = f"""@ty.jit
def kernel(x, out, first, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK) + first
    {access}
    tl.store(out, 1)
"""
    out = np.zeros(1, np.int32)
    launch(source, np.zeros(16, np.int32), out, 0, BLOCK=16)
    assert out[0] == 1
    out[0] = 0
    whole = np.arange(40, dtype=np.int32)
    with fails(f"{who} argument 'x' out of bounds: element 1[0-5] of 10", line=4):
        launch(source, whole[20:30], out, 0, BLOCK=16)
    with fails(f"{who} argument 'x' out of bounds: element -[12] of 10", line=4):
        launch(source, whole[20:30], out, -2, BLOCK=8)
    assert out[0] == 0 and (whole == np.arange(40)).all()


def test_masked_lanes_may_be_anywhere(backend):
    source = """@ty.jit
def kernel(x, y, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + at, 2 * tl.load(x + at, mask=at < n, other=0), mask=at < n)
"""
    x, y = np.arange(100, dtype=np.float32), np.zeros(100, np.float32)
    launch(source, x, y, 100, grid=(4,), BLOCK=32)
    assert (y == 2 * x).all()
    with fails("tl.load reads argument 'x' out of bounds: element 100 of 100", 4, "(3, 0, 0)"):
        launch(source, x, y, 101, grid=(4,), BLOCK=32)


MATMUL = """@ty.jit
def kernel(a, b, c, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    rm = tl.program_id(0) * BM + tl.arange(0, BM)
    rn = tl.program_id(1) * BN + tl.arange(0, BN)
    rk = tl.arange(0, BK)
    pa = a + rm[:, None] * K + rk[None, :]
    pb = b + rk[:, None] * N + rn[None, :]
    acc = tl.zeros((BM, BN), tl.float32)
    for k in range(0, tl.cdiv(K, BK)):
        x = tl.load(pa, mask=(rm[:, None] < M) & (rk[None, :] < K - k * BK), other=0.0)
        y = tl.load(pb, mask=MASK, other=0.0)
        acc = tl.dot(x, y, acc, input_precision="ieee")
        pa += BK
        pb += BK * N
    tl.store(c + rm[:, None] * N + rn[None, :], acc, mask=(rm[:, None] < M) & (rn[None, :] < N))
"""


def test_tiles_that_a_loop_carries(backend):
    """A product whose last step reads behind the operand, because the mask forgets K."""
    rng = np.random.default_rng(0)
    a, b = (rng.standard_normal(shape).astype(np.float32) for shape in [(60, 40), (40, 33)])
    c = np.zeros((60, 33), np.float32)
    blocks = dict(grid=(2, 2), BM=32, BN=32, BK=32)
    right = MATMUL.replace("MASK", "(rk[:, None] < K - k * BK) & (rn[None, :] < N)")
    launch(right, a, b, c, 60, 33, 40, **blocks)
    np.testing.assert_allclose(c, a @ b, rtol=1e-5, atol=1e-5)
    with pytest.raises(ty.LaunchError, match="tl.load reads argument 'b' out of bounds: element "
                       "(1[3-9][0-9]{2}|2[01][0-9]{2}) of 1320"):
        launch(MATMUL.replace("MASK", "rn[None, :] < N"), a, b, c, 60, 33, 40, **blocks)


def test_one_of_two_arguments(backend):
    source = """@ty.jit
def kernel(x, y, out, n):
    p = tl.where(tl.arange(0, 8) < 4, x + tl.arange(0, 8), y + tl.arange(0, 8))
    tl.store(out + tl.arange(0, 8), tl.load(p))
    if n > 3:
        q = x
    else:
        q = y
    tl.store(out, tl.load(q + n))
"""
    x, y, out = np.arange(4, dtype=np.int32), np.arange(8, dtype=np.int32), np.zeros(8, np.int32)
    launch(source, x, y, out, 3)
    assert out.tolist() == [3, 1, 2, 3, 4, 5, 6, 7]
    with pytest.raises(ty.LaunchError, match="argument 'x'.* out of bounds: element 4 of 4|belongs to "
                       "no argument"):
        launch(source, x, y, out, 4)


def test_other_element_types(backend):
    """Offsets and counts are of the argument's elements, whatever a pointer is cast to."""
    source = """@ty.jit
def kernel(x, out, i):
    p = x.to(out.dtype) + i
    tl.store(out, tl.load(p))
"""
    x, out = np.arange(16, dtype=np.int16), np.zeros(1, np.int32)
    launch(source, x, out, 7)
    assert out[0] == 14 + (15 << 16)
    if backend != "interpret":  # which counts in what the pointer points to
        with fails("tl.load reads argument 'x' out of bounds: element 16 of 16", line=4):
            launch(source, x, out, 8)


def test_a_polling_loop(backend):
    source = """@ty.jit
def kernel(flag, i):
    while tl.load(flag + i, volatile=True) != 1:
        pass
"""
    flag = np.ones(4, np.int32)
    launch(source, flag, 3)
    with fails("tl.load reads argument 'flag' out of bounds: element 4 of 4", line=3):
        launch(source, flag, 4)


def test_indices_of_a_gather(backend):
    source = """@ty.jit
def kernel(x, index, out):
    at = tl.arange(0, 8)
    tl.store(out + at, tl.gather(tl.load(x + at), tl.load(index + at), axis=0))
"""
    x, index, out = np.arange(8, dtype=np.float32), np.arange(8, dtype=np.int32)[::-1].copy(), \
        np.zeros(8, np.float32)
    launch(source, x, index, out)
    assert (out == x[::-1]).all()
    index[3] = 9
    if backend != "interpret":
        with fails("tl.gather reads its source out of bounds: element 9 of 8", line=4):
            launch(source, x, index, out)


def test_memory_of_another_rank(backend):
    source = """@ty.jit
def kernel(x, first, i):
    tl.store(dl.symm_at(x + first, 1 - dl.rank()) + i, 7)
"""

    def body(first, i):
        x = ty.zeros(12, ty.int32, "x")
        launch(source, x, first, i)
        ty.barrier()
        return x.numpy().tolist()
    for first, i in [(0, 11), (11, 0), (12, -1)]:
        assert ty.spawn(body, ranks=2, args=(first, i), timeout=20) == [[0] * 11 + [7]] * 2
    for first, i in [(0, 12), (3, 9), (2, -3)]:
        with fails(f"tl.store writes argument 'x' out of bounds: element {first + i} of 12", line=3):
            ty.spawn(body, ranks=2, args=(first, i), timeout=20)


@pytest.mark.parametrize("statement, text", [
    ("dl.notify(flags + 4, 0)", "dl.notify uses argument 'flags' out of bounds: element 4 of 4"),
    ("dl.notify(flags - 1, 0)", "dl.notify uses argument 'flags' out of bounds: element -1 of 4"),
    ("dl.put(x, y, 9, 0)", "dl.put accesses argument '[xy]' out of bounds: element 8 of 8"),
    ("dl.put(x, y + 5, 4, 0)", "dl.put accesses argument 'y' out of bounds: element 8 of 8"),
    ("dl.get(y, x + 1, 8, 0)", "dl.get accesses argument '[xy]' out of bounds: element 8 of 8"),
    ("dl.get(y + 6, x, 3, 0)", "dl.get accesses argument 'y' out of bounds: element 8 of 8"),
    ("dl.put_signal(x, y, 8, 0, flags + 4)", "dl.put(_signal)? uses argument 'flags' out of bounds"),
])
def test_transfers_and_signals(backend, statement, text):
    def body():
        launch(f"@ty.jit\ndef kernel(x, y, flags):\n    {statement}\n", ty.zeros(8, ty.int32, "x"),
               np.zeros(8, np.int32), ty.signals(4, "flags"))
    with fails(text, line=3):
        ty.spawn(body, ranks=1, timeout=20)


PROGRAM = """
import numpy as np, tilery as ty, tilery.language as tl
from kernel_text import make
device = {device!r}
if device:
    import pytest, staging
    staging.install(pytest.MonkeyPatch(), device)
kernel = make('''@ty.jit
def kernel(x, n):
    tl.store(x + n, 1)
''')
try:
    kernel[(1,)](np.zeros(4, np.int32), 4)
    print("nothing")
except ty.LaunchError as error:
    print(error)
"""


@pytest.mark.parametrize("value, printed", [("1", "tl.store writes argument 'x' out of bounds: element "
                                             "4 of 4"), ("0", "nothing")])
def test_the_variable_checks_every_launch(backend, value, printed):
    if backend == "interpret":
        pytest.skip("the interpreter checks with and without it")
    if value == "0" and backend == "cuda":
        pytest.skip("an access outside of a device's memory may end the process's use of it")
    code = PROGRAM.format(device="cuda" if backend == "cuda" else "")
    environment = os.environ | {"TILERY_CHECK": value, "TILERY_INTERPRET": "0",
                                "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)}
    if value == "0":  # the word behind the array belongs to it
        code = code.replace("np.zeros(4, np.int32)", "np.zeros(8, np.int32)[:4]")
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True,
                          timeout=120)
    assert printed in done.stdout, done.stdout + done.stderr


def test_what_cannot_be_traced_is_said_once(capfd):
    require_library()
    source = """@ty.jit
def kernel(address, out):
    p = address.to(out.dtype)
    tl.store(out, tl.load(p) + tl.load(p + 1))
    tl.store(out + 1, OWN)
"""
    x, out = np.arange(1, 5, dtype=np.int32), np.zeros(2, np.int32)
    with ty.interpret(False):
        # A constant of its own, so that the kernel is not in the cache.
        launch(source.replace("OWN", str(time.time_ns() % 2**31)), x.ctypes.data, out)
    assert out[0] == 3
    assert capfd.readouterr().err.count("this access is not checked: its pointer is not traced to one "
                                        "of the kernel's arguments") == 1
