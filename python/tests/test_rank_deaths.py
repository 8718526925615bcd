# SPDX-FileCopyrightText: The Tilery authors
# SPDX-License-Identifier: Apache-2.0
"""A rank that is killed while the ranks call an operator again and again, in every form of every operator: the
others get an error that names it, soon, and end as other programs do."""

import functools
import re
import signal
import subprocess
import time

import pytest
from backends import require_library
from test_processes import start
from test_two_gpus import require_two

import tilery as ty
from tilery.errors import Error

# Tensors lie in the symmetric heap, so that direct forms can be had everywhere.
CALLS = '''
import os, signal, threading, time

rank, ranks = ty.rank(), ty.num_ranks()
made = []
def array(*shape):
    return made.append(ty.zeros(shape, "fp16", f"number {len(made)}")) or made[-1]

def collective(name, form):
    rows, columns = {rows}, 512
    few, many = array(rows, columns), array(rows * ranks, columns)
    tensors = dict(all_gather=(few, many), reduce_scatter=(many, few), all_reduce=(few, few),
                   all_to_all=(many, array(rows * ranks, columns)), broadcast=(few, array(rows, columns)))[name]
    return lambda: ty.ops.call(name, *tensors, form=form)

def product(name, form):
    m, n, k = {rows} * ranks, 256, 128
    a, c = (array({rows}, k), array(m, n)) if name == "ag_gemm" else (
        array(m, k), array({rows} if name == "gemm_rs" else m, n))
    b = array(k, n)
    return lambda: ty.ops.call(name, a, b, c, form=form)

def barrier(name, form):
    meet = make("""@ty.jit
def kernel(x):
    for _ in range(20):
        dl.barrier_all()
""")
    x = array(1)
    return (lambda: ty.barrier()) if form == "host" else (lambda: meet[(1,)](x))

def waits_for_all(call, every):
    """Until somebody dies."""
    call()
    ty.synchronize() if every else None
    ty.barrier()
    begun = time.monotonic()
    if rank == 1:
        threading.Timer({delay}, os.kill, (os.getpid(), signal.SIGKILL)).start()
    try:
        for number in range(1_000_000_000):
            call()
            if every and number % every == every - 1:
                ty.synchronize()
            if time.monotonic() - begun > 30:
                raise SystemExit("nobody died in 30 s")
    except (ty.PeerError, ty.WaitTimeout) as error:
        print("ended after", time.monotonic() - begun, type(error).__name__, error)
'''

COLLECTIVES = ["all_gather", "reduce_scatter", "all_reduce", "all_to_all", "broadcast"]
PRODUCTS = ["ag_gemm", "gemm_rs", "gemm_ar"]


@functools.cache
def forms_of(name: str) -> list[str]:
    """As the operator lists them."""
    if name == "barrier":
        return ["host", "kernel"]
    import numpy as np
    with ty.interpret(False), pytest.raises(Error) as raised:
        arrays = [np.zeros((4, 4), np.float32) for _ in range(3 if name in PRODUCTS else 2)]
        ty.spawn(lambda: ty.ops.call(name, *arrays, form="none"), ranks=1)
    listed = re.search(r"needs one of auto, (.*)", str(raised.value)).group(1)
    return listed.split(", ")


def bodies(name: str, rows: int, every: int):
    kind = "collective" if name in COLLECTIVES else "product" if name in PRODUCTS else name
    for number, form in enumerate(forms_of(name)):
        delay = 0.05 + 0.11 * number % 0.3
        yield form, (CALLS.replace("{rows}", str(rows)).replace("{delay}", str(delay)) +
                     f'waits_for_all({kind}("{name}", "{form}"), {every})\n')


def ended(process, timeout: float) -> tuple[int, str, str]:
    try:
        out, err = process.communicate(timeout=timeout)
    except subprocess.TimeoutExpired:
        process.kill()
        out, err = process.communicate()
        err = f"hung; {err}"
    return process.returncode, out, err


def check(jobs, timeout: float) -> None:
    last = time.monotonic() + timeout
    for form, processes in jobs:
        results = [ended(process, max(1.0, last - time.monotonic())) for process in processes]
        assert results[1][0] == -signal.SIGKILL, (form, results)
        for rank, (status, out, err) in enumerate(results):
            assert rank == 1 or (status == 0 and out.startswith("ended after")), f"{form}, rank {rank}: {out}{err}"
            assert rank == 1 or "PeerError rank 1 (pid" in out, f"{form}, rank {rank}: {out}"


def jobs_of(tmp_path, name: str, ranks: int, init: str, rows: int, every: int, at_once: int):
    """Some of the operator's forms at a time."""
    started = []
    for form, body in bodies(name, rows, every):
        folder = tmp_path / form
        folder.mkdir()
        started.append((form, start(folder, body, ranks, init)))
        if len(started) == at_once:
            yield started
            started = []
    if started:
        yield started


def test_every_form_is_known():
    require_library()
    operators = [op["name"] for op in ty.ops.list() if op["communicates"]]
    assert sorted(operators) == sorted(COLLECTIVES + PRODUCTS)
    assert forms_of("all_to_all") == ["push", "pull", "copies", "flagged", "direct", "direct_copies"]
    assert forms_of("gemm_ar") == ["one_shot", "two_shot", "direct", "scattered", "unfused"]
    assert forms_of("ag_gemm") == ["instances", "copies", "unfused"]


@pytest.mark.parametrize("name", [*COLLECTIVES, *PRODUCTS, "barrier"])
def test_on_the_host(tmp_path, name):
    require_library()
    for jobs in jobs_of(tmp_path, name, 3, "heap_bytes=64 << 20", 64, 0, 2):
        check(jobs, 60)


@pytest.mark.parametrize("name", [*COLLECTIVES, *PRODUCTS, "barrier"])
def test_between_gpus(tmp_path, name):
    require_two()
    for jobs in jobs_of(tmp_path, name, 2, 'device="cuda", heap_bytes=256 << 20', 4096, 16, 1):
        check(jobs, 60)
