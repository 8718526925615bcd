# SPDX-FileCopyrightText: The Tilery authors
# SPDX-License-Identifier: Apache-2.0
"""Worlds over two GPUs of one host: one process a rank, one thread a rank, more ranks than GPUs,
ranks that die. The programs run on the host too, so that a machine without GPUs tests them."""

import signal
import subprocess
import sys
import time

import device_memory
import device_programs
import pytest
from backends import require_device, require_library
from test_processes import ROOT, SCRIPT, start

import tilery as ty
from tilery import _capi


def require_two() -> None:
    require_device()
    count = _capi.library().tilery_device_count()
    if count < 2:
        pytest.skip(f"there is {count} device, two are needed")


def job(tmp_path, body: str, ranks: int = 2, options: str = "", timeout: float = 100,
        environment=lambda rank: {}, heap: str = "64 << 20"):
    require_two()
    init = f'device="cuda", heap_bytes={heap}{options}'
    body = "import device_programs, os, signal, time\n" + body
    processes = start(tmp_path, body, ranks, init, environment)
    ended = []
    for process in processes:
        try:
            ended.append(process.communicate(timeout=timeout))
        except subprocess.TimeoutExpired:
            process.kill()
            ended.append(("", f"hung for {timeout} s\n{process.communicate()[1]}"))
    return [(process.returncode, *texts) for process, texts in zip(processes, ended)]


def right(results) -> None:
    for rank, (status, out, err) in enumerate(results):
        assert status == 0 and out.endswith("right\n"), f"rank {rank}: {out}{err}"


@pytest.mark.parametrize("program, ranks", [("everything", 2), ("everything", 3), ("teams", 4)])
def test_the_programs_on_the_host(program, ranks):
    require_library()
    with ty.interpret(False):
        ty.spawn(getattr(device_programs, program), ranks=ranks, timeout=20)


@pytest.mark.parametrize("program", ["ring", "transfers", "operators"])
def test_a_process_a_gpu(tmp_path, program):
    right(job(tmp_path, f"device_programs.{program}(); print('right')"))


def test_each_process_sees_its_gpu_only(tmp_path):
    right(job(tmp_path, "print(device_programs.everything())",
              environment=lambda rank: {"CUDA_VISIBLE_DEVICES": str(rank)}))


@pytest.mark.parametrize("ranks", [4, 8])
def test_more_processes_than_gpus(tmp_path, ranks):
    right(job(tmp_path, "device_programs.ring(3, 4); device_programs.transfers(3); print('right')",
              ranks, ", share_device=True"))


def test_teams_of_processes(tmp_path):
    right(job(tmp_path, "device_programs.teams(); print('right')", 4, ", share_device=True"))


def command_line() -> str:
    folder = _capi.find().parent
    return next(str(path) for path in (folder / "tilery", folder.parent / "bin/tilery") if path.exists())


@pytest.mark.parametrize("launcher", ["tilery run", "torchrun"])
def test_launchers(tmp_path, launcher):
    require_two()
    script = tmp_path / "job.py"
    script.write_text(SCRIPT.format(body="import device_programs\nprint(device_programs.everything())",
                                    init='device="cuda", heap_bytes=64 << 20',
                                    tests=str(ROOT / "python/tests"), ops=str(ROOT / "ops")))
    if launcher == "torchrun":
        pytest.importorskip("torch")
        command = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2", str(script)]
    else:
        command = [command_line(), "run", "-n", "2", sys.executable, str(script)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=100)
    assert done.returncode == 0 and done.stdout.count("right") == 2, done.stdout + done.stderr


TORCH = '''
import torch
from tilery.interop import torch as interop
rank = ty.rank()
torch.cuda.set_device(rank)
x = torch.full((4096,), float(rank + 1), device="cuda")
total = torch.zeros_like(x)
for _ in range(3):
    ty.ops.all_reduce(x, total)
torch.cuda.synchronize()
assert (total == 3).all()
print("right")
'''


def test_torch_tensors(tmp_path):
    pytest.importorskip("torch")
    right(job(tmp_path, TORCH))


ORDER = """
import torch
from kernel_text import make
torch.cuda.set_device(ty.rank())
add = make('''@ty.jit
def kernel(x, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(x + at, tl.load(x + at, mask=at < n) + dl.num_ranks(), mask=at < n)
''')
x, busy = torch.zeros(1 << 26, device="cuda"), torch.ones(4096, 4096, device="cuda")
for call in range(4):
    for _ in range(20):
        busy = busy @ busy * 1e-4
    x.fill_(call)
    add[(1 << 16,)](x, x.numel(), BLOCK=1024)
    assert bool((x == call + 2).all()), (call, x.min(), x.max())
print("right")
"""


def test_launches_keep_the_order_of_torchs_default_stream(tmp_path):
    pytest.importorskip("torch")
    right(job(tmp_path, ORDER))


BOTH = ["cuda:0", "cuda:1"]


@pytest.mark.parametrize("shared_heap", [False, True])
def test_a_thread_a_gpu(shared_heap):
    require_two()
    with ty.interpret(False):
        ty.finalize()
        results = ty.spawn(device_programs.everything, ranks=2, device=BOTH, heap_bytes=64 << 20,
                           shared_heap=shared_heap, timeout=20)
    assert results == ["right"] * 2


@pytest.mark.parametrize("program", ["everything", "teams"])
def test_more_threads_than_gpus(program):
    require_two()
    with ty.interpret(False):
        ty.finalize()
        ty.spawn(getattr(device_programs, program), ranks=4, device=BOTH, heap_bytes=64 << 20,
                 share_device=True, timeout=20)


WAITS = '''
waits = make("""@ty.jit
def kernel(ready, x):
    dl.wait(ready, waitValue=1)
    tl.store(x, 1)
""")
ready, x = ty.signals(1, "ready"), ty.zeros(4, "int32", "x")
'''


def test_a_rank_that_dies_ends_the_kernels_of_the_others(tmp_path):
    begun = time.monotonic()
    results = job(tmp_path, WAITS + '''
waits[(1,)](ready, x)
time.sleep(0.5)
if ty.rank() == 1:
    os.kill(os.getpid(), signal.SIGKILL)
try:
    ty.synchronize()
except ty.PeerError as error:
    print(error)
''', 3, ", share_device=True")
    assert results[1][0] == -signal.SIGKILL, results
    for rank in (0, 2):
        status, out, err = results[rank]
        assert status == 0 and out.startswith("rank 1 (pid "), f"rank {rank}: {out}{err}"
    assert time.monotonic() - begun < 40


def test_a_rank_that_dies_in_the_middle_of_operators(tmp_path):
    results = job(tmp_path, '''
x, total = ty.zeros(1 << 20, "fp32", "x"), ty.zeros(1 << 20, "fp32", "total")
begun = time.monotonic()
try:
    for number in range(1_000_000):
        if ty.rank() == 1 and number == 200:
            os.kill(os.getpid(), signal.SIGKILL)
        ty.ops.all_reduce(x, total)
        if number % 16 == 15:
            ty.synchronize()
except (ty.PeerError, ty.WaitTimeout) as error:
    print("ended", time.monotonic() - begun < 15, error)
''')
    assert results[1][0] == -signal.SIGKILL, results
    status, out, err = results[0]
    assert status == 0 and out.startswith("ended True"), out + err


def test_a_wait_that_times_out(tmp_path):
    results = job(tmp_path, WAITS + '''
if ty.rank() == 0:
    waits[(1,)](ready, x, timeout=1.0)
try:
    ty.synchronize() if ty.rank() == 0 else ty.barrier()
except ty.Error as error:
    print(type(error).__name__, error)
''')
    assert results[0][1].startswith("WaitTimeout wait timed out after 1 s"), results[0]
    assert "'ready'[0]: expected == 1, seen 0" in results[0][1]
    assert results[1][1].startswith("PeerError rank 0 failed: WaitTimeout"), results[1]


@pytest.mark.parametrize("ending", ["", "ty.finalize()", "ty.finalize = int", "time.sleep(ty.rank())",
                                    "time.sleep(1 - ty.rank())", "os._exit(0) if ty.rank() else None"])
def test_ranks_leave_in_any_order(tmp_path, ending):
    right(job(tmp_path, f"device_programs.ring(2); print('right', flush=True)\n{ending}"))


def test_two_ranks_on_one_gpu_must_be_asked_for(tmp_path):
    for _, _, err in job(tmp_path, "", 2, environment=lambda rank: {"CUDA_VISIBLE_DEVICES": "1"}):
        assert "ConfigError: ranks 0, 1 use the same device, cuda:0" in err, err
    for _, _, err in job(tmp_path, "", 3):
        assert "ConfigError: ranks 0, 2 use the same device, cuda:0" in err, err


@pytest.mark.parametrize("body, text", device_programs.MISTAKES)
def test_mistakes_are_named_on_every_rank(tmp_path, body, text):
    results = job(tmp_path, device_programs.MISTAKE.format(body=body))
    for rank, (status, out, err) in enumerate(results):
        assert status == 0 and text in out, f"rank {rank}: {out}{err}"


LARGE = """
rank, half = ty.rank(), (1 << 31) + 4096 + 3        # bytes of a rank's part: beyond 2^31, of all beyond 2^32
here = f"cuda:{ty.init().device - 1}"
own, everyones, wrong = (ty.zeros(size, kind, device=here)
                         for size, kind in ((half, "int8"), (2 * half, "int8"), (1, "int32")))
fill = make('''@ty.jit
def kernel(x, n, value, BLOCK: tl.constexpr):
    number = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    tl.store(x + number * 4096, value + (number % 100).to(tl.int8), mask=number * 4096 < n)
''')
probe = make('''@ty.jit
def kernel(x, wrong, first, n, value, BLOCK: tl.constexpr):
    number = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    inside = number * 4096 < n
    found = tl.load(x + first + number * 4096, mask=inside)
    differs = (found != value + (number % 100).to(tl.int8)) & inside
    tl.atomic_add(wrong, tl.sum(differs.to(tl.int32)))
''')
grid = (ty.cdiv(half // 4096 + 1, 1024),)
fill[grid](own, half, 1 + rank, BLOCK=1024)
ty.ops.all_gather(own, everyones)
for source in range(2):
    probe[grid](everyones, wrong, source * half, half, 1 + source, BLOCK=1024)
assert wrong.numpy()[0] == 0, wrong.numpy()
del everyones
x, y = ty.zeros((1 << 32) + 7, "int8", "x"), ty.register(own, "y")
last = make('''@ty.jit
def kernel(x, n, value):
    tl.store(dl.symm_at(x + n, 1 - dl.rank()) - 1, value.to(tl.int8))
    dl.barrier_all()
''')
last[(1,)](x, x.size, 5 + rank)
last[(1,)](y, half, 7 + rank)
end = make('''@ty.jit
def kernel(x, n, out):
    tl.store(out, tl.load(x + n - 1).to(tl.int32))
''')
for array, size, value in ((x, x.size, 5), (y, half, 7)):
    end[(1,)](array, size, wrong)
    assert wrong.numpy()[0] == value + 1 - rank, (wrong.numpy(), value)
print("right")
"""


def test_sizes_beyond_32_bits(tmp_path):
    right(job(tmp_path, LARGE, heap="6 << 30"))


def test_heaps_larger_than_the_gpu(tmp_path):
    require_two()
    processes = start(tmp_path, "", 2, 'device="cuda", heap_bytes=1 << 40')
    for process in processes:
        assert "cannot allocate 1099511627776 bytes of memory on device" in process.communicate(timeout=60)[1]


#===-- Registered memory --------------------------------------------------------------------------===#

EXPANDABLE = {"PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True",
              "PYTORCH_ALLOC_CONF": "expandable_segments:True"}


@pytest.mark.parametrize("kind, environment", [*((kind, {}) for kind in device_memory.SHARED),
                                               ("torch_caching", EXPANDABLE)])
def test_memory_of_others_is_registered(tmp_path, kind, environment):
    """Small and large, several times, so that addresses may come back."""
    if "torch" in kind:
        pytest.importorskip("torch")
    right(job(tmp_path, f"""
import device_memory
for count in (5003, 1 << 21, 5003):
    device_programs.registered(device_memory.{kind}, rounds=3, n=count // 2)
print("right", flush=True)
""" + ("os._exit(0)" if kind == "torch_symmetric" else ""), environment=lambda rank: environment))


def test_registered_memory_of_more_processes_and_teams(tmp_path):
    right(job(tmp_path, """
import device_memory
device_programs.registered(device_memory.cuda_malloc)
team = ty.team([3, 1, 0], "three")
if team.rank >= 0:
    device_programs.registered(device_memory.cuda_pieces, team=team)
pairs = ty.split(ty.rank() % 2, name="pairs")
device_programs.registered(device_memory.cuda_malloc, team=pairs)
print("right")
""", 4, ", share_device=True"))


@pytest.mark.parametrize("kind", ["tilery", "cuda_malloc", "cuda_pieces"])
def test_registered_memory_of_threads(kind):
    require_two()
    with ty.interpret(False):
        ty.finalize()
        ty.spawn(device_programs.registered, ranks=2, args=(getattr(device_memory, kind),), device=BOTH,
                 heap_bytes=64 << 20, timeout=20)


@pytest.mark.parametrize("kind", device_memory.PRIVATE)
def test_memory_that_is_not_shared(tmp_path, kind):
    for rank, (status, out, err) in enumerate(job(tmp_path, f"""
import device_memory
try:
    ty.register(device_memory.{kind}(1 << 20), "x")
except ty.LaunchError as error:
    print(error)
x = ty.register(device_memory.cuda_malloc(1 << 20), "x")     # the world is as before
ty.barrier()
""")):
        assert status == 0, f"rank {rank}: {err}"
        assert out.startswith("'x' cannot be registered: on rank 0 it was allocated in a way that its driver"), out


REGISTERED_GRAPH = """
import torch
torch.cuda.set_device(ty.rank())
peer = 1 - ty.rank()
add = make('''@ty.jit
def kernel(x, ready, epoch, n, BLOCK: tl.constexpr):
    peer = 1 - dl.rank()
    turn = tl.load(epoch) + 1
    for begin in range(0, n, BLOCK):
        at = begin + tl.arange(0, BLOCK)
        there = dl.symm_at(x + n, peer) + at
        tl.store(there, tl.load(there, mask=at < n) + tl.load(x + at, mask=at < n), mask=at < n)
    dl.notify(ready, peer, turn)
    dl.wait(ready, waitValue=turn, cmp="ge")
    tl.store(epoch, turn)
''')
n = 10007
x = torch.arange(2 * n, device="cuda", dtype=torch.float32) * (ty.rank() + 1)
x[n:] = 0
epoch, ready = torch.zeros(1, dtype=torch.int64, device="cuda"), ty.signals(1, "ready")
handle = ty.register(x, "x")
torch.cuda.synchronize()
ty.barrier()
add[(1,)](x, ready, epoch, n, BLOCK=1024)
torch.cuda.synchronize()
graph = torch.cuda.CUDAGraph()
with torch.cuda.graph(graph):
    add[(1,)](x, ready, epoch, n, BLOCK=1024)
for _ in range(5):
    graph.replay()
torch.cuda.synchronize()
ty.barrier()
counted = torch.arange(n, device="cuda", dtype=torch.float32)
assert torch.equal(x[n:], 6 * counted * (peer + 1)), x[n:n + 8]
total = torch.empty_like(x)
ty.ops.all_reduce(handle, total)
torch.cuda.synchronize()
assert torch.equal(total[:n], 3 * counted)
try:
    add[(1,)](x, ready, epoch, 2 * n, BLOCK=1024, check_bounds=True)
    ty.synchronize()
    raise AssertionError("accesses outside of it")
except (ty.LaunchError, ty.PeerError) as error:
    assert "argument 'x'" in str(error), error
print("right", flush=True)
os._exit(0)
"""


def test_registered_memory_in_graphs_operators_and_checks(tmp_path):
    pytest.importorskip("torch")
    right(job(tmp_path, REGISTERED_GRAPH))


def test_a_rank_that_dies_with_registered_memory(tmp_path):
    results = job(tmp_path, """
import device_memory
try:
    while True:
        device_programs.registered(device_memory.cuda_malloc, rounds=2)
        if ty.rank() == 1:
            os.kill(os.getpid(), signal.SIGKILL)
except (ty.PeerError, ty.WaitTimeout) as error:
    print("ended", error)
""")
    assert results[1][0] == -signal.SIGKILL, results
    status, out, err = results[0]
    assert status == 0 and out.startswith("ended"), out + err
