# SPDX-FileCopyrightText: The Tilery authors
# SPDX-License-Identifier: Apache-2.0
"""The end of worlds: views that outlive them, threads that race with it, Ctrl-C, failing ranks."""

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from test_errors import fails

import tilery as ty

TESTS = Path(__file__).resolve().parent


def start(script: str, **environment) -> subprocess.Popen:
    text = f"import sys; sys.path.insert(0, {str(TESTS)!r})\nimport tilery as ty\n" + script
    return subprocess.Popen([sys.executable, "-c", text], stdout=subprocess.PIPE, text=True,
                            stderr=subprocess.STDOUT, env={**os.environ, **environment})


def output(script: str) -> str:
    process = start(script)
    text, _ = process.communicate(timeout=60)
    assert process.returncode == 0, text
    return text


def test_a_view_outlives_its_world(compiled):
    text = output('''
x = ty.zeros(8, ty.float32, "x")
view = x.numpy()
view[:] = 3
ty.finalize()
print(view.sum())
try:
    x.numpy()
except ty.LaunchError as error:
    print(error)
del x
print(view.sum())
''')
    assert text.split("\n")[::2] == ["24.0", "24.0"]
    assert "'x' belongs to a world that was finalized" in text


def test_views_outlive_a_process_world(compiled):
    ranks = [start('''
x = ty.zeros(8, ty.float32)
x.numpy()[:] = ty.rank() + 1
ty.barrier()
views = [x.at(r).numpy() for r in range(2)]
ty.finalize()
print([float(view[7]) for view in views])
''', RANK=str(rank), WORLD_SIZE="2", LOCAL_WORLD_SIZE="2", LOCAL_RANK=str(rank),
                   MASTER_ADDR="127.0.0.1", MASTER_PORT=str(20000 + os.getpid() % 20000))
             for rank in range(2)]
    for rank in ranks:
        assert rank.communicate(timeout=60)[0] == "[1.0, 2.0]\n"
        assert rank.returncode == 0


def test_finalize_waits_for_the_calls_of_other_threads(compiled):
    text = output('''
import threading
import numpy as np
from kernel_text import make
kernel = make("""@ty.jit
def kernel(x):
    tl.store(x, tl.load(x) + 1)
""")
world, errors = ty.init(), []
x = ty.zeros(4, ty.int32, "x")
begun = threading.Barrier(4)

def use(action):
    begun.wait()
    try:
        while True:
            action()
    except ty.LaunchError as error:
        errors.append(str(error))

def allocate():
    world.free(world.allocate(64, "y"))

kernel[(1,)](x)
threads = [threading.Thread(target=use, args=(action,))
           for action in (lambda: kernel[(1,)](x), allocate, world.barrier)]
for thread in threads:
    thread.start()
begun.wait()
ty.finalize()
for thread in threads:
    thread.join()
assert len(errors) == 3 and all("world" in e and "was finalized" in e for e in errors), errors
print("right")
''')
    assert text == "right\n"


def test_calls_on_a_finalized_world(compiled):
    def body():
        return ty.world.current()
    for call in (lambda w: w.barrier(), lambda w: w.allocate(8, "x"), lambda w: w.peer(0, 0),
                 lambda w: w.all_gather_bytes(b"x")):
        with fails(ty.LaunchError, "this world was finalized"):
            call(ty.spawn(body, ranks=1)[0])


@pytest.mark.parametrize("call", ["wait[(1,)](ready)", "ty.spawn(body, ranks=2)",
                                  "ty.world.current().wait(ready.address, 1, 'eq')"])
def test_ctrl_c_ends_a_wait(compiled, call):
    process = start(f'''
from kernel_text import make
wait = make("""@ty.jit
def kernel(ready):  # polls, which is no deadlock
    while tl.atomic_add(ready, 0) == 0:
        tl.debug_barrier()
""")
def body():
    ready = ty.zeros(1, ty.int64)
    if ty.rank() == 0:
        wait[(1,)](ready)
    ty.barrier()
ready = ty.zeros(1, ty.int64, "ready")
print("waits", flush=True)
{call}
''', TILERY_TIMEOUT_S="50")
    assert process.stdout.readline() == "waits\n"
    time.sleep(0.5)
    begin = time.monotonic()
    process.send_signal(signal.SIGINT)
    text, _ = process.communicate(timeout=30)
    assert "KeyboardInterrupt" in text and process.returncode != 0
    assert time.monotonic() - begin < 8, text


def test_ctrl_c_ends_the_wait_for_missing_ranks(compiled):
    for rank in range(2):
        process = start('print("waits", flush=True); ty.init()', RANK=str(rank), WORLD_SIZE="2",
                        MASTER_ADDR="127.0.0.1", MASTER_PORT=str(20000 + os.getpid() % 20000))
        assert process.stdout.readline() == "waits\n"
        time.sleep(0.5)
        process.send_signal(signal.SIGINT)
        text, _ = process.communicate(timeout=10)
        assert "KeyboardInterrupt" in text and process.returncode != 0


def test_ctrl_c_leaves_a_rank_that_sleeps(compiled):
    text = output('''
import os, signal, threading, time
def body():
    if ty.rank() == 1:
        time.sleep(50)
    ty.barrier()
threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGINT)).start()
try:
    ty.spawn(body, ranks=2)
except KeyboardInterrupt:
    print("interrupted")
''')
    assert text == "interrupted\n"


def test_an_exception_that_cannot_be_printed(backend):
    class Silent(Exception):
        def __str__(self):
            raise ValueError("no text")

    def body():
        if ty.rank() == 1:
            raise Silent()
        ty.barrier()
    with pytest.raises(Silent):
        ty.spawn(body, ranks=2, timeout=20.0)


def test_a_thread_of_a_rank_gets_no_world_of_its_own(compiled):
    def body():
        errors = []

        def outside():
            for call in (ty.rank, ty.init, lambda: ty.zeros(4, "fp32")):
                try:
                    call()
                except ty.ConfigError as error:
                    errors.append(str(error))
        thread = threading.Thread(target=outside)
        thread.start()
        thread.join()
        return errors
    for errors in ty.spawn(body, ranks=2):
        assert len(errors) == 3 and all("this thread is no rank" in text for text in errors)


def test_init_inside_spawn_is_the_world_of_the_rank(backend):
    def body():
        return ty.init().rank, ty.rank()
    assert ty.spawn(body, ranks=2) == [(0, 0), (1, 1)]
    with fails(ty.ConfigError, "no options inside ty.spawn"):
        ty.spawn(lambda: ty.init(rank=0, size=1), ranks=1)
