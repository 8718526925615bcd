# SPDX-FileCopyrightText: The Tilery authors
# SPDX-License-Identifier: Apache-2.0
"""What only the interpreter offers: plain Python inside kernels, located run-time errors."""

import sys

import numpy as np
import pytest
from kernel_text import make
from test_errors import fails

import tilery as ty
import tilery.language as tl
import tilery.language.device as dl

seen = []


@ty.jit
def prints_and_breaks(x, ready):
    value = tl.load(x + tl.arange(0, 4))
    seen.append((int(dl.rank()), value.data.tolist()))
    dl.notify(ready, (dl.rank() + 1) % dl.num_ranks())
    breakpoint()
    dl.wait(ready, waitValue=1)


def test_a_breakpoint_inside_a_kernel_of_several_ranks(interpreted, monkeypatch):
    """The debugger sees the kernel's own frame, in the middle of the instance."""
    stops = []

    def stop():
        frame = sys._getframe(1)
        stops.append((frame.f_code.co_name, frame.f_locals["value"].shape))
    monkeypatch.setattr(sys, "breakpointhook", stop)
    seen.clear()

    def body():
        prints_and_breaks[(1,)](np.full(4, ty.rank(), np.float32), ty.signals(1))
    ty.spawn(body, ranks=3)
    assert stops == [("prints_and_breaks", (4,))] * 3
    assert sorted(seen) == [(r, [float(r)] * 4) for r in range(3)]


def test_instances_are_interleaved(interpreted):
    """A waiting instance yields; none is run to completion alone."""
    kernel = make('''@ty.jit
def kernel(turn, out):
    pid = tl.program_id(0)
    for i in range(5):
        while tl.atomic_add(turn, 0) % tl.num_programs(0) != pid:
            pass
        tl.store(out + tl.atomic_add(turn, 1), pid)
''')
    turn, out = np.zeros(1, np.int32), np.zeros(15, np.int32)
    kernel[(3,)](turn, out)
    np.testing.assert_array_equal(out, [0, 1, 2] * 5)


def test_device_print(interpreted, capsys):
    make('''@ty.jit
def kernel(x):
    tl.device_print("x is ", tl.load(x))
''')[(1,)](np.array([2.5], np.float32))
    assert "pid (0, 0, 0) x is 2.5" in capsys.readouterr().out


@pytest.mark.parametrize("body,texts", [
    ("tl.store(b + 5, 1.0)", ["tl.store writes argument 'b' out of bounds: element 5 of 4"]),
    ("tl.atomic_add(b + 4, 1.0)", ["tl.atomic_add updates argument 'b' out of bounds"]),
    ("y = tl.load(a - 1)", ["tl.load reads argument 'a' out of bounds: element -1 of 8"]),
    ("dl.put(s, a, 9, 0)", ["dl.put accesses argument 'a' out of bounds: element 8 of 8"]),
    ("tl.assume(tl.load(a) > 5)", ["tl.assume is false"]),
    ("y = tl.gather(tl.arange(0, 4), tl.arange(1, 5), 0)", ["tl.gather index is outside 0..3"]),
])
def test_run_time_errors_name_the_argument(interpreted, body, texts):
    kernel = make(f"@ty.jit\ndef kernel(a, b, s):\n    {body}\n")

    def run():
        kernel[(1,)](np.zeros(8, np.float32), np.zeros(4, np.float32), ty.zeros(16, "fp32"))
    with fails(ty.LaunchError, r"\.py:3:\d+: error", *texts):
        ty.spawn(run, ranks=1)


def test_an_error_says_which_instance(interpreted):
    with pytest.raises(ty.LaunchError) as caught:
        make('''@ty.jit
def kernel(a):
    tl.store(a + tl.program_id(0) * 3, 1.0)
''')[(4,)](np.zeros(8, np.float32))
    assert caught.value.__notes__ == ["rank 0, kernel 'kernel', instance (3, 0, 0)"]


def test_a_launch_after_a_failed_one(interpreted):
    kernel = make('''@ty.jit
def kernel(a, n):
    tl.store(a + n, 1.0)
''')
    a = np.zeros(4, np.float32)
    with fails(ty.LaunchError, "out of bounds"):
        kernel[(1,)](a, 4)
    kernel[(1,)](a, 3)
    assert a[3] == 1


def test_a_polling_loop_that_nobody_ends(interpreted):
    with fails(ty.WaitTimeout, "polls memory that nobody changes"):
        make('''@ty.jit
def kernel(a):
    while tl.load(a, volatile=True) == 0:
        pass
''')[(1,)](np.zeros(1, np.int32))


def test_late_writes_are_really_late(interpreted):
    """Without a wait, some schedule reads data before it has arrived; with one, none does."""
    source = '''@ty.jit
def kernel(data, flag, out):
    if dl.rank() == 0:
        tl.store(dl.symm_at(data, 1), 1)
        dl.notify(flag, 1)
    else:
        {wait}
        tl.store(out, tl.load(data))
'''

    def run(wait, seed):
        kernel = make(source.format(wait=wait))

        def body():
            out = np.zeros(1, np.int32)
            kernel[(1,)](ty.zeros(1, "int32"), ty.signals(1), out)
            return int(out[0])
        return ty.spawn(body, ranks=2, seed=seed, delay=True)[1]
    assert {run("dl.wait(flag, waitValue=1)", seed) for seed in range(20)} == {1}
    assert 0 in {run("pass", seed) for seed in range(20)}


def test_scatter_through_several_arguments(interpreted):
    """A tile of pointers into two arrays is checked against both."""
    kernel = make('''@ty.jit
def kernel(a, b, n):
    at = tl.arange(0, 8)
    tl.store(tl.where(at < 4, a + at, b + at - 4), at, mask=at < n)
''')
    a, b = np.zeros(4, np.int32), np.zeros(3, np.int32)
    kernel[(1,)](a, b, 7)
    np.testing.assert_array_equal(np.concatenate([a, b]), np.arange(7))
    with fails(ty.LaunchError, "'b' out of bounds|belongs to no argument"):
        kernel[(1,)](a, b, 8)


def test_interpreted_launch_in_a_compiled_world(compiled):
    def body():
        with ty.interpret():
            make("@ty.jit\ndef kernel(a):\n    tl.store(a, 1)\n")[(1,)](np.zeros(1, np.int32))
    with fails(ty.LaunchError, "let ty.interpret"):
        ty.spawn(body, ranks=2, timeout=10.0)
