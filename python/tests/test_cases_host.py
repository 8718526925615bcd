# SPDX-FileCopyrightText: The Tilery authors
# SPDX-License-Identifier: Apache-2.0
"""Cases from the field, section B: host runtime, groups and memory."""

import os
import subprocess
import sys

import numpy as np
import pytest
from kernel_text import make
from test_errors import fails

import tilery as ty

RANK_KERNEL = '''@ty.jit
def kernel(out):
    tl.store(out, dl.rank() + 10 * dl.num_ranks())
'''


def python(code: str, *, interpret: bool, timeout: float = 60, **environment):
    """Runs `code` in a fresh process with nothing of a launcher in its environment."""
    clean = {k: v for k, v in os.environ.items()
             if not k.startswith(("RANK", "WORLD_SIZE", "MASTER_", "SLURM", "PMI", "OMPI"))}
    clean |= {"TILERY_INTERPRET": "1" if interpret else "0", **environment,
              "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)}
    return subprocess.run([sys.executable, "-c", code], env=clean, capture_output=True, text=True,
                          timeout=timeout)


def test_21_one_rank_needs_no_network_and_no_configuration(backend):
    done = python("import tilery as ty; ty.init(); print(ty.rank(), ty.num_ranks())",
                  interpret=backend == "interpret")
    assert done.stdout.split() == ["0", "1"], done.stderr


def test_23_a_communicating_kernel_without_a_world(backend):
    """It gets the world of one rank, or an error before the launch; never garbage."""
    out = np.zeros(1, np.int32)
    try:
        make(RANK_KERNEL)[(1,)](out)
    except ty.LaunchError as error:
        assert "init" in str(error)
    else:
        assert out[0] == 10


def test_23_a_communicating_kernel_after_init(backend):
    try:
        ty.init()
        out = np.zeros(1, np.int32)
        make(RANK_KERNEL)[(1,)](out)
        assert out[0] == 10
    finally:
        ty.finalize()


def test_24_counts_of_64_bits(backend):
    kernel = make('''@ty.jit
def kernel(box, mine, n):
    dl.put(box, mine, n, dl.rank())
''')

    def body():
        box, mine = ty.zeros(8, "fp32"), np.ones(8, np.float32)
        kernel[(1,)](box, mine, np.int64(8))
        return float(box.numpy().sum())
    assert ty.spawn(body, ranks=1) == [8.0]


def test_25_worlds_one_after_another(backend):
    """Sequences are per world: a smaller world first, then larger and smaller ones again."""
    for ranks in (2, 4, 1, 3, 2):
        def body():
            x = ty.zeros(4, "int32")
            ty.barrier()
            x.at((ty.rank() + 1) % ty.num_ranks()).numpy()[...] = ty.rank() + 1
            ty.barrier()
            return int(x.numpy()[0])
        assert ty.spawn(body, ranks=ranks) == [r or ranks for r in range(ranks)]


def test_27_a_peer_on_another_host(compiled):
    """Shared memory reaches one host only; said before any handle is exchanged."""
    result = python("import tilery as ty; ty.init()", interpret=False, RANK="0", WORLD_SIZE="4",
                    LOCAL_WORLD_SIZE="2", MASTER_ADDR="127.0.0.1", MASTER_PORT="29400")
    assert result.returncode != 0
    assert "the world has 4 ranks, 2 of them on this host; ranks on other hosts are not reachable " \
           "by shared memory, the only transport of this build" in result.stderr


def test_28_an_allocation_is_the_first_operation(backend):
    assert ty.spawn(lambda: ty.signals(3).shape, ranks=3) == [(3,)] * 3


@pytest.mark.parametrize("ending", ["", "ty.finalize(); ty.finalize()", "raise SystemExit(0)"])
def test_29_tensors_outlive_the_world(backend, ending):
    done = python(f"import tilery as ty; ty.init(); x = ty.zeros(4, 'fp32'); {ending}",
                  interpret=backend == "interpret")
    assert done.returncode == 0 and done.stderr == "", done.stderr


@pytest.mark.parametrize("size", [2**31 - 1, 2**31, 2**32])
def test_30_allocations_beyond_32_bits(compiled, size):
    """Memory is reserved, not touched, except at both ends."""
    def body():
        x = ty.empty(size, "int8", name="large")
        x.numpy()[-1] = 3
        ty.barrier()
        last = int(x.at(1 - ty.rank()).numpy()[-1])
        ty.barrier()
        return last, x.nbytes
    assert ty.spawn(body, ranks=2, heap_bytes=2**33) == [(3, size)] * 2


SYMMETRIC = [
    "y = dl.symm_at(data, 1)", "dl.put(data, out, 1, 1)", "dl.get(out, data, 1, 1)",
]


def test_32_ranks_share_the_one_device(backend):
    """Rank numbers are no device numbers: more ranks than devices, and teams with other numbers."""
    kernel = make("""@ty.jit
def kernel(x):
    tl.store(dl.symm_at(x, dl.num_ranks() - 1 - dl.rank()), dl.rank() + 1)
""")

    def body():
        team = ty.team([4, 2], "late ranks")
        for ranks in (ty.init(), team):
            if ranks.rank >= 0:
                x = ty.zeros(1, ty.int32, team=ranks)
                kernel[(1,)](x, team=ranks)
                ty.barrier(team=ranks)
                assert x.numpy()[0] == ranks.size - ranks.rank
    ty.spawn(body, ranks=5)


def test_32_a_tensor_of_another_device_is_named(compiled):
    class Elsewhere:
        def __dlpack_device__(self):
            return (2, 1)

        def __dlpack__(self, **options):
            raise AssertionError("memory of another device was asked for")

    kernel = make("""@ty.jit
def kernel(x):
    tl.store(x, 1)
""")
    with pytest.raises(ty.LaunchError, match="argument 'x' is in a device's memory that tilery cannot "
                       "use"):
        kernel[(1,)](Elsewhere())


@pytest.mark.parametrize("body", SYMMETRIC)
def test_33_an_ordinary_array_where_ranks_reach_in(backend, body):
    """The error names the argument and says how to allocate it."""
    kernel = make(f"@ty.jit\ndef kernel(data, out):\n    {body}\n    tl.store(out, 1.0)\n")
    with fails(ty.Error, "data", "symmetric heap"):
        ty.spawn(lambda: kernel[(1,)](np.zeros(4, np.float32), np.zeros(4, np.float32)), ranks=2,
                 timeout=10.0)


def test_35_sizes_come_from_the_group(backend):
    """The same kernel in a world of 8 and then of 2 uses each world's own size."""
    kernel = make('''@ty.jit
def kernel(counts):
    for peer in range(dl.num_ranks()):
        dl.notify(counts, peer, signal=1, sig_op="add")
    dl.wait(counts, waitValue=dl.num_ranks())
''')
    for ranks in (8, 2, 3):
        def body():
            counts = ty.signals(1)
            kernel[(1,)](counts)
            return int(counts.numpy()[0])
        assert ty.spawn(body, ranks=ranks, timeout=10.0) == [ranks] * ranks


def test_37_grids_that_differ_between_ranks(compiled):
    """Checked mode exchanges the launch geometry and refuses a mismatch."""
    code = f"import sys; sys.path.insert(0, {os.path.dirname(__file__)!r})" + """
import tilery as ty
from kernel_text import make
kernel = make('''@ty.jit
def kernel(flags):
    dl.notify(flags, dl.rank())
    dl.wait(flags, waitValue=1)
''')
try:
    ty.spawn(lambda: kernel[(1 + ty.rank(),)](ty.signals(1)), ranks=2, timeout=10.0)
except ty.LaunchError as error:
    print(error)
"""
    done = python(code, interpret=False, TILERY_CHECK="1")
    assert "grid" in done.stdout and "1" in done.stdout and "2" in done.stdout, done.stderr


def test_36_configurations_differ_between_ranks(backend):
    def body():
        configs = [ty.Config({"BLOCK": 16 << ty.rank()})]
        kernel = ty.autotune(configs, key=["n"])(make('''@ty.jit
def kernel(x, n, BLOCK: tl.constexpr):
    tl.store(x + tl.arange(0, BLOCK), 1.0)
'''))
        kernel[(1,)](np.zeros(64, np.float32), 64)
    with fails(ty.ConfigError, "differ between ranks", "rank 0", "rank 1"):
        ty.spawn(body, ranks=2)


TUNED = '''@ty.jit
def kernel(x, flags, epochs, n, BLOCK: tl.constexpr):
    tl.static_assert(BLOCK != LIMIT, "no such block")
    epoch = tl.load(epochs) + 1
    dl.notify(flags, (dl.rank() + 1) % dl.num_ranks(), signal=epoch)
    dl.wait(flags, waitValue=epoch, cmp="ge")
    tl.store(epochs, epoch)
    at = tl.arange(0, BLOCK)
    tl.store(x + at, BLOCK, mask=at < n)
'''


def test_36_one_rank_cannot_build_a_configuration(backend):
    """All ranks drop what fails anywhere, and all take the same winner."""
    def body():
        limit = 32 if ty.rank() == 1 else 0
        kernel = ty.autotune([ty.Config({"BLOCK": b}) for b in (16, 32, 64)], key=["n"])(
            make(TUNED, LIMIT=limit))
        x, flags, epochs = np.zeros(64, np.int32), ty.signals(1), np.zeros(1, np.int64)
        if backend == "interpret":
            return 16  # a failure stops the interpreter's world; the agreement is tested compiled
        kernel[(1,)](x, flags, epochs, 64)
        return kernel.best_config.kwargs["BLOCK"]
    blocks = ty.spawn(body, ranks=2, timeout=20.0)
    assert blocks[0] == blocks[1] != 32


def test_36_a_warm_cache_on_one_rank(backend):
    """A rank that has tuned before still takes part when another has not."""
    def body():
        kernel = ty.autotune([ty.Config({"BLOCK": b}) for b in (16, 64)], key=["n"])(
            make(TUNED, LIMIT=0))
        x, flags, epochs = np.zeros(64, np.int32), ty.signals(1), np.zeros(1, np.int64)
        kernel[(1,)](x, flags, epochs, 64)
        if ty.rank() == 0:
            kernel.chosen.clear()
        kernel[(1,)](x, flags, epochs, 64)
        return kernel.best_config.kwargs["BLOCK"]
    blocks = ty.spawn(body, ranks=2, timeout=20.0)
    assert blocks[0] == blocks[1]


SPIN = '''@ty.jit
def kernel(flags):
    pid = tl.program_id(0)
    n = tl.num_programs(0)
    for i in range(n):
        dl.notify(flags + i, dl.rank(), signal=1, sig_op="add")
    dl.wait(flags + pid, waitValue=n, cmp="ge")
'''


def test_38_residency_below_the_need_is_refused(compiled):
    """Instances that wait for each other must all be resident; the numbers are in the error."""
    ty.spawn(lambda: make(SPIN)[(4,)](ty.signals(4)), ranks=1, residency=4)
    with fails(ty.LaunchError, "4", "3"):
        ty.spawn(lambda: make(SPIN)[(4,)](ty.signals(4)), ranks=1, residency=3, timeout=10.0)


def test_38_the_interpreter_reports_the_deadlock(interpreted):
    with fails(ty.WaitTimeout, "deadlock", "'flags'"):
        ty.spawn(lambda: make(SPIN)[(4,)](ty.signals(4)), ranks=1, residency=3)


def test_40_a_wait_expires_with_a_report(backend):
    """Rank, kernel, line, instance, signal, expected and seen value."""
    kernel = make('''@ty.jit
def kernel(ready):
    dl.wait(ready + 1, waitValue=3, cmp="ge")
''')
    def body():
        ready = ty.signals(2, name="ready")
        if ty.rank() == 0:
            kernel[(1,)](ready, timeout=0.5)
    with fails(ty.WaitTimeout, "rank 0", "kernel", r"\.py:3", "ready", "3", "0"):
        ty.spawn(body, ranks=2, timeout=5.0)
