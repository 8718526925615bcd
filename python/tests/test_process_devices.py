# SPDX-FileCopyrightText: The Tilery authors
# SPDX-License-Identifier: Apache-2.0
"""Worlds over several devices, one process or one thread a rank.

Without a GPU the devices are the two of a fake library, whose memory is the host's and whose
launches run nothing: what is tested is how ranks find each other's memory, and what they are told
when they do not. Kernels over two GPUs: test_two_gpus.py.
"""

import os
import signal
import time

import device_programs
import pytest
from backends import require_library
from test_devices import fake
from test_processes import start

from tilery import _capi

CONTEXT = '''
import ctypes
fake = ctypes.CDLL(os.environ["TILERY_CUDA_LIBRARY"])

class Launch(ctypes.Structure):
    _fields_ = [("kernel", ctypes.c_char_p), ("numbers", ctypes.c_uint32 * 8),
                ("stream", ctypes.c_void_p), ("parameters", ctypes.POINTER(ctypes.c_uint8)),
                ("parameter_bytes", ctypes.c_int32)]

fake.fake_cuda_launch_at.restype = Launch

class Context(ctypes.Structure):  # of gpu_abi.h
    _fields_ = [("rank", ctypes.c_int32), ("num_ranks", ctypes.c_int32), ("heap", ctypes.c_uint64),
                ("peers", ctypes.POINTER(ctypes.c_uint64)), ("failure", ctypes.POINTER(ctypes.c_uint32)),
                ("timeout_ns", ctypes.c_uint64), ("barriers", ctypes.c_void_p)]

def context():
    launch = fake.fake_cuda_launch_at(fake.fake_cuda_launch_count() - 1)
    last = bytes(launch.parameters[launch.parameter_bytes - 8:launch.parameter_bytes])
    return Context.from_address(int.from_bytes(last, "little"))

waits = make("""@ty.jit
def kernel(x, ready):
    dl.wait(ready, waitValue=1)
    tl.store(dl.symm_at(x, 1 - dl.rank()), 1)
""")
'''
CONTEXT = "import os\n" + CONTEXT


def library():
    require_library()
    path = _capi.find().parent / "libfake_cuda.so"
    if not path.exists():
        pytest.skip("the fake driver is not built")
    return str(path)


def job(tmp_path, body: str, ranks: int = 2, init: str = 'device="cuda", heap_bytes=4 << 20',
        environment=lambda rank: {}) -> list[tuple[int, str, str]]:
    """Status, output and errors of each rank on the fake machine."""
    path = library()
    processes = start(tmp_path, CONTEXT + body, ranks, init,
                      lambda rank: {"TILERY_CUDA_LIBRARY": path} | environment(rank))
    ended = [process.communicate(timeout=60) for process in processes]
    return [(process.returncode, *texts) for process, texts in zip(processes, ended)]


def right(results) -> None:
    for rank, (status, out, err) in enumerate(results):
        assert status == 0 and out.endswith("right\n"), f"rank {rank}: {out}{err}"


def errors(results) -> list[str]:
    """The last error of each rank, which must have one."""
    assert all(status != 0 for status, _, _ in results), results
    return [err[err.rindex("tilery.errors."):].removeprefix("tilery.errors.").strip()
            for _, _, err in results]


HOST = '''
rank, size = ty.rank(), ty.num_ranks()
following, world = (rank + 1) % size, ty.init()
assert world.device == 1 + rank % 2, world.device
x, ready = ty.zeros(1 << 18, "int32", "x"), ty.signals(2, "ready")
assert x.numpy().sum() == 0
x.copy_from(np.arange(1 << 18) + rank)
ty.barrier()
assert x.at(following)[-1] == (1 << 18) - 1 + following
world.notify(ready.address, following, 7, False)
world.wait(ready.address, 7, "eq")
try:
    world.notify(ready.address, following, 7, True)
except ty.LaunchError as error:
    assert "can set a signal in a device's memory, but not add to it" in str(error)
ty.barrier()
x.free()
again = ty.zeros(1 << 18, "int32", "x")
assert again.numpy().max() == 0
'''

GRIDS = '''
kernel = make("""@ty.jit
def kernel(x, n):
    tl.store(dl.symm_at(x, 1 - dl.rank()), n)
""")
x = ty.zeros(4, "int32", "x")
kernel[(1,)](x, 5)
found = context()
assert (found.rank, found.num_ranks) == (rank, size)
assert found.barriers == found.heap == found.peers[rank]
ctypes.c_int32.from_address(found.peers[following] + x.address - found.heap).value = 50 + rank
ty.barrier()
assert x[0] == 50 + (rank - 1) % size
fake.fake_cuda_calls.restype = ctypes.c_char_p
assert fake.fake_cuda_calls().split().count(b"cuDevicePrimaryCtxRetain") == 1  # takes memory of a GPU
'''


@pytest.mark.parametrize("lacking", ["", "vmm"])
def test_ranks_reach_each_others_memory(tmp_path, lacking):
    right(job(tmp_path, HOST + GRIDS + 'print("right")',
              environment=lambda rank: {"FAKE_CUDA_LACKS": lacking}))


def test_each_process_sees_one_device(tmp_path):
    body = HOST.replace("1 + rank % 2", "1") + GRIDS + 'print("right")'
    right(job(tmp_path, body, environment=lambda rank: {"CUDA_VISIBLE_DEVICES": str(rank)}))


@pytest.mark.parametrize("ranks", [4, 8])
def test_more_ranks_than_devices_must_be_asked_for(tmp_path, ranks):
    found = errors(job(tmp_path, "", ranks))
    others = ", ".join(str(rank) for rank in range(0, ranks, 2))
    assert set(found) == {
        f"ConfigError: ranks {others} use the same device, cuda:0 (Fake GPU 0)\n"
        'hint: start one rank a device, name each rank\'s with device="cuda:1", or let them share '
        "with share_device=True or TILERY_SHARE_DEVICE=1: their kernels then take turns"}
    body = HOST + GRIDS + f'''
try:
    waits[(2000 // {ranks // 2} + 200,)](x, ty.signals(1))
except ty.LaunchError as error:
    assert "Fake GPU {{}} has room for".format(rank % 2) in str(error), error
    assert "on each of {ranks // 2} ranks" in str(error), error
    print("right")
'''
    right(job(tmp_path, body, ranks, environment=lambda rank: {"TILERY_SHARE_DEVICE": "1"}))
    right(job(tmp_path, body, ranks, 'device="cuda", heap_bytes=4 << 20, share_device=True'))


def test_two_processes_see_the_same_device_under_other_numbers(tmp_path):
    found = errors(job(tmp_path, "", environment=lambda rank: {"CUDA_VISIBLE_DEVICES": ["1,0", "0,1"][rank]}))
    assert all("ranks 0, 1 use the same device, cuda:0 (Fake GPU 1)" in text for text in found)


def test_a_named_device_overrides_the_order(tmp_path):
    body = 'print(ty.init().device, "right")'
    results = job(tmp_path, body, init='device=f"cuda:{1 - int(__import__(\'os\').environ[\'RANK\'])}"')
    assert [out for _, out, _ in results] == ["2 right\n", "1 right\n"]
    results = job(tmp_path, body, init='device=["cuda:1", "cuda:0"]')
    assert [out for _, out, _ in results] == ["2 right\n", "1 right\n"]


def problems(tmp_path, init: str, **options) -> list[str]:
    """Of rank 1, and what rank 0 is told; nobody may wait for the timeout."""
    begun = time.monotonic()
    found = errors(job(tmp_path, "", init=init, **options))
    assert time.monotonic() - begun < 15
    return found


IF_RANK_1 = "if int(__import__('os').environ['RANK']) else"


def test_a_device_that_is_not_there(tmp_path):
    told, own = problems(tmp_path, f'device="cuda:7" {IF_RANK_1} "cuda"')
    assert own == "ConfigError: there is no device 'cuda:7': the driver 'cuda' has 2 devices"
    assert told == f"PeerError: rank 1 failed: {own}"


def test_a_heap_that_does_not_fit(tmp_path):
    for found in problems(tmp_path, 'device="cuda", heap_bytes=1 << 40'):
        assert "cannot allocate 1099511627776 bytes of memory on device" in found, found


def test_a_tensor_that_does_not_fit(tmp_path):
    for found in errors(job(tmp_path, "ty.zeros(5 << 20, 'int8', 'large')")):
        assert "symmetric object 'large' of 5242880 bytes does not fit" in found


def test_one_rank_without_a_device(tmp_path):
    for found in problems(tmp_path, f'heap_bytes=1 << 20, device="cpu" {IF_RANK_1} "cuda"'):
        assert found == ("ConfigError: the ranks disagree about the world:\n"
                         "  rank 0 has size 2, mesh [2], heap_bytes 1048576 on cuda:0 (Fake GPU 0)\n"
                         "  rank 1 has size 2, mesh [2], heap_bytes 1048576")


def test_memory_of_both_sides_is_for_one_process(tmp_path):
    own, told = problems(tmp_path, 'device="cuda", heap_bytes=1 << 20, shared_heap=True')
    for found in (own, told):
        assert "shared_heap is for ranks in one process: memory that the host and a device reach" in found


def test_devices_out_of_reach_of_each_other(tmp_path):
    for lacking, text in (("peers", "has no peer access to the memory of"),
                          ("atomics", "has no atomic operations on the memory of")):
        for found in problems(tmp_path, 'device="cuda"', environment=lambda rank: {
                "FAKE_CUDA_LACKS": lacking, "TILERY_HEAP_BYTES": "1M"}):
            assert text in found and "take devices that NVLink connects" in found, found


def test_one_rank_that_cannot_map_the_others_memory(tmp_path):
    told, own = problems(tmp_path, 'device="cuda", heap_bytes=1 << 20', environment=lambda rank: {
        "FAKE_CUDA_LACKS": "peers" if rank else ""})
    assert own.startswith("TargetError: cuda:1 (Fake GPU 1) has no peer access to the memory of cuda:0")
    assert told.startswith(f"PeerError: rank 1 failed: {own.splitlines()[0]}"), told


TEAMS = '''
rank, size = ty.rank(), ty.num_ranks()
low, high = ty.team([*range(size - 1)], "low"), ty.team([*range(size - 1, 0, -1)], "high")
parity = ty.split(rank % 2, name="parity")
two = [ty.team([2, 0], "two", of=low)] if low.rank >= 0 else []
for team in (low, high, parity, *two):
    if team.rank < 0:
        continue
    x = ty.zeros(64, "int32", "x", team=team)
    x.copy_from(np.full(64, team.rank))
    ty.barrier(team=team)
    assert [x.at(r)[63] for r in range(team.size)] == [*range(team.size)]
    ty.barrier(team=team)
    x.free()
    assert ty.zeros(64, "int32", "x", team=team).numpy().max() == 0
parity.finalize()
print("right")
'''


def test_teams(tmp_path):
    right(job(tmp_path, TEAMS, 4, 'device="cuda", heap_bytes=4 << 20, share_device=True'))


DIES = '''
import os, signal, time
ready, x = ty.signals(1, "ready"), ty.zeros(4, "int32", "x")
waits[(1,)](x, ready)
found = context()
ty.barrier()
if ty.rank() == 1:
    os.kill(os.getpid(), signal.SIGKILL)
begun = time.monotonic()
while found.failure[1] == 0 and time.monotonic() - begun < 10:
    time.sleep(0.01)  # in no call of tilery
print("ended after", time.monotonic() - begun < 5)
'''


def test_a_rank_that_dies_ends_the_waits_of_grids(tmp_path):
    for call in ("ty.synchronize()", "ty.barrier()", "waits[(1,)](x, ready)", "ty.zeros(4, 'int32')"):
        results = job(tmp_path, DIES + f'''
try:
    {call}
    print("no error")
except ty.PeerError as error:
    print(error)
''', 3, 'device="cuda", heap_bytes=1 << 20, share_device=True')
        assert results[1][0] == -signal.SIGKILL
        for rank in (0, 2):
            status, out, err = results[rank]
            assert status == 0 and out.startswith("ended after True\nrank 1 (pid "), (call, out, err)


@pytest.mark.parametrize("ending", ["", "ty.finalize()", "ty.finalize = int", "del x; ty.finalize()",
                                    "time.sleep(0.5 * rank)", "time.sleep(0.5 * (2 - rank))",
                                    "x.free(); import gc; gc.collect()"])
def test_ranks_leave_in_any_order(tmp_path, ending):
    right(job(tmp_path, f'''
import time
rank, x = ty.rank(), ty.zeros(1000, "int32", "x")
ty.barrier()
peer = x.at((rank + 1) % 3)
print("right")
{ending}
''', 3, 'device="cuda", heap_bytes=1 << 20, share_device=True'))


def test_an_error_of_one_rank_ends_the_others(tmp_path):
    results = job(tmp_path, '''
if ty.rank() == 1:
    raise ValueError("of mine")
ty.barrier()
''')
    assert "ValueError: of mine" in results[1][2]
    assert "PeerError: rank 1 (pid " in results[0][2], results[0][2]


def test_worlds_follow_each_other(tmp_path):
    right(job(tmp_path, '''
for number in range(3):
    x = ty.zeros(4, "int32", "x").copy_from(np.full(4, ty.rank() + number))
    ty.barrier()
    assert x.at(1 - ty.rank())[0] == 1 - ty.rank() + number
    ty.finalize()
    del x
    ty.init(device="cuda", heap_bytes=1 << 20)
print("right")
'''))


#===-- In one process -------------------------------------------------------------------------===#

def test_threads_on_a_device_each():
    assert fake('''
        def body():
            rank, x, ready = ty.rank(), ty.zeros(4, "float32", "x"), ty.signals(1, "ready")
            x.copy_from(np.full(4, rank))
            own = devices._capi.library().tilery_device_of(x.address)
            kernel[(1,)](x, x, rank)
            ty.init().notify(ready.address, 1 - rank, 3, False)
            ty.init().wait(ready.address, 3, "eq")
            team = ty.team([1, 0], "both")
            ty.barrier(team=team)
            return own, ty.init().device, float(x.at(1 - rank)[3])

        print(ty.spawn(body, ranks=2, device=["cuda:0", "cuda:1"], heap_bytes=1 << 20))
        print(ty.spawn(body, ranks=2, device=["cuda:1", "cuda:0"], heap_bytes=1 << 20, shared_heap=True))
        def where():
            return ty.init().device
        print(ty.spawn(where, ranks=4, device=["cuda:0", "cuda:1"], heap_bytes=1 << 20, share_device=True))
        print(ty.spawn(where, ranks=3, device="cuda:1", heap_bytes=1 << 20))
    ''').splitlines() == ["[(1, 1, 1.0), (2, 2, 0.0)]", "[(2, 2, 1.0), (1, 1, 0.0)]", "[1, 2, 1, 2]",
                          "[2, 2, 2]"]


def test_a_list_that_does_not_fit_the_ranks():
    assert fake('''
        def spawn(ranks, *names):
            return message(lambda: ty.spawn(int, ranks=ranks, device=[*names]))
        print(spawn(4, "cuda:0", "cuda:1"))
        print(spawn(2, "cuda:0", "cuda:1", "cuda:0").splitlines()[0])
        print(spawn(2, "cuda:0", "cpu"))
        print(spawn(2, "cuda:0", "cuda:2"))
        print(spawn(2, 0))
        print(message(lambda: ty.spawn(int, ranks=2, device="cuda", share_device="yes")))
    ''').splitlines() == [
        "ConfigError: 4 ranks have 2 devices (cuda:0, cuda:1)",
        "hint: name one a rank, or one for all; share_device=True lets ranks take fewer in turn",
        "ConfigError: 2 ranks have 3 devices (cuda:0, cuda:1, cuda:0)",
        "ConfigError: the ranks of one world have their memory on devices of one kind, not on cuda:0 "
        "(Fake GPU 0) and the host",
        "ConfigError: there is no device 'cuda:2': the driver 'cuda' has 2 devices",
        "ConfigError: option 'device' is [0], it must be the name of a device, such as \"cpu\" or "
        "\"cuda:1\", or a list of one for each rank",
        "ConfigError: option 'share_device' is \"yes\", it must be true or false"]


def test_residency_counts_the_ranks_of_a_device():
    assert fake('''
        waits = make("""@ty.jit\\ndef kernel(ready):\\n    dl.wait(ready, waitValue=1)\\n""")
        def body():
            ready = ty.signals(1, "ready")
            return (message(lambda: waits[(1200,)](ready)) or "launched").split("; ")[-1].splitlines()[0]

        for ranks in (2, 4):
            print(*sorted(set(ty.spawn(body, ranks=ranks, device=["cuda:0", "cuda:1"], heap_bytes=1 << 20,
                                share_device=True))), sep="|")
    ''').splitlines() == ["launched", "Fake GPU 0 has room for 1056 on each of 2 ranks|"
                          "Fake GPU 1 has room for 1056 on each of 2 ranks"]


def test_arguments_on_the_device_of_another_rank():
    assert fake('''
        def body():
            x, foreign = ty.zeros(4, "float32", "x"), ty.zeros(4, "float32", device=f"cuda:{1 - ty.rank()}")
            return message(lambda: kernel[(1,)](x, foreign, 1)).splitlines()[0]
        print(*ty.spawn(body, ranks=2, device=["cuda:0", "cuda:1"], heap_bytes=1 << 20), sep="\\n")
    ''').splitlines() == [
        "LaunchError: argument 'x' of 'kernel' is in memory of cuda:0, argument 'y' in memory of cuda:1",
        "LaunchError: argument 'x' of 'kernel' is in memory of cuda:1, argument 'y' in memory of cuda:0"]


@pytest.mark.parametrize("body, text", device_programs.MISTAKES)
def test_mistakes_are_named_on_every_rank(tmp_path, body, text):
    results = job(tmp_path, device_programs.MISTAKE.format(body=body),
                  environment=lambda rank: {"TILERY_CALIBRATION": "off"})
    for rank, (status, out, err) in enumerate(results):
        assert status == 0 and text in out, f"rank {rank}: {out}{err}"
