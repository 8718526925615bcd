# SPDX-FileCopyrightText: The Tilery authors
# SPDX-License-Identifier: Apache-2.0
"""ty.register: memory of the user as symmetric memory. Between GPUs: test_two_gpus.py."""

import gc
import weakref

import device_programs
import numpy as np
import pytest
from kernel_text import make
from test_devices import fake
from test_process_devices import job, right
from test_processes import start

import tilery as ty


@pytest.fixture(params=["interpret", "cpu"])
def host(request):
    """Worlds on the host: the arrays are NumPy's."""
    if request.param == "cpu":
        request.getfixturevalue("compiled")
    with ty.interpret(request.param == "interpret"):
        yield request.param
        ty.finalize()


def ints(count):
    return np.empty(count, np.int32)


@pytest.mark.parametrize("ranks, options", [
    (1, {}), (2, {}), (3, {}), (3, {"seed": 5}), (3, {"seed": 7, "delay": True}), (4, {"residency": 1})])
def test_kernels_use_it_like_the_heap(host, ranks, options):
    ty.spawn(device_programs.registered, ranks=ranks, args=(ints,), **options)


TO_NEXT = """@ty.jit
def kernel(x, offset):
    tl.store(dl.symm_at(x + offset, (dl.rank() + 1) % dl.num_ranks()), dl.rank() + 1)
"""


def test_the_array_itself_and_its_parts_are_symmetric(host):
    def body():
        kernel = make(TO_NEXT)
        mine = np.zeros(16, np.int32)
        handle = ty.register(mine, "mine")
        kernel[(1,)](mine, 0)
        kernel[(1,)](mine[4:8], 1)
        kernel[(1,)](handle, 9)
        kernel[(1,)](handle.reshape(4, 4), 15)
        ty.barrier()
        before = (ty.rank() - 1) % 3 + 1
        assert np.flatnonzero(mine).tolist() == [0, 5, 9, 15] and set(mine[mine > 0]) == {before}
        following = (ty.rank() + 1) % 3
        assert handle.at(following)[9] == ty.rank() + 1
        return True
    assert ty.spawn(body, ranks=3) == [True] * 3


def test_one_of_two_pointers(host):
    """On the host; for GPUs it has to be clear which of them is registered."""
    def body():
        kernel = make("""@ty.jit
def kernel(x, y, n):
    tl.store(dl.symm_at(tl.where(n > 2, x, y), (dl.rank() + 1) % dl.num_ranks()), n)
""")
        mine, heap = np.zeros(4, np.int32), ty.zeros(4, ty.int32, "heap")
        with ty.register(mine, "mine"):
            kernel[(1,)](mine, heap, 3)
            kernel[(1,)](mine, heap, 2)
            ty.barrier()
        return int(mine[0]), int(heap.numpy()[0])
    assert ty.spawn(body, ranks=2) == [(3, 2)] * 2


def test_teams_may_register_the_same_array(host):
    """A launch uses the registration of its own team; ranks count in it. A team uses its world's."""
    def body():
        kernel = make(TO_NEXT)
        pair, all_ranks = ty.team([2, 0], "pair"), ty.init()
        mine, everyones = np.zeros(4, np.int32), np.zeros(4, np.int32)
        handles = [ty.register(everyones, "everyones"), ty.register(mine, "mine")]
        if pair.rank >= 0:
            handles.append(ty.register(mine, "pairs", team=pair))
            kernel[(1,)](mine, 0, team=pair)
            kernel[(1,)](everyones, 1, team=pair)
        kernel[(1,)](mine, 2, team=all_ranks)
        ty.barrier()
        of_pair = [2 - pair.rank, 0] if pair.rank >= 0 else [0, 0]
        assert mine.tolist() == [of_pair[0], 0, (ty.rank() - 1) % 3 + 1, 0]
        assert everyones.tolist() == [0, of_pair[0], 0, 0]
        ty.barrier()
        if pair.rank >= 0:
            pair.finalize()
        assert len(handles) == 2 + (pair.rank >= 0)
        kernel[(1,)](mine, 3)
        ty.barrier()
        assert mine[3] == (ty.rank() - 1) % 3 + 1
        return True
    assert ty.spawn(body, ranks=3) == [True] * 3


def test_memory_of_a_team_is_not_the_worlds(host):
    def body():
        pair = ty.team([0, 1], "pair")
        if pair.rank >= 0:
            handle = ty.register(np.zeros(4, np.int32), "pairs", team=pair)
            with pytest.raises(ty.LaunchError, match="not in the symmetric heap|belongs to a team"):
                make(TO_NEXT)[(1,)](handle, 0)
        ty.barrier()
    ty.spawn(body, ranks=3)


def test_after_free_it_is_an_array_again(host):
    def body():
        kernel, mine = make(TO_NEXT), np.zeros(4, np.int32)
        with ty.register(mine, "mine") as handle:
            kernel[(1,)](handle, 0)
            ty.barrier()
        with pytest.raises(ty.LaunchError, match="'mine' was freed"):
            kernel[(1,)](handle, 0)
        if host == "cpu":  # the interpreter finds out inside
            with pytest.raises(ty.CompileError, match="uses memory that is not in the symmetric heap"):
                kernel[(1,)](mine, 0)
        with ty.register(mine, "again") as handle:
            kernel[(1,)](mine, 1)
            ty.barrier()
        assert mine.tolist() == [(ty.rank() - 1) % 2 + 1] * 2 + [0, 0]
    ty.spawn(body, ranks=2)


class Owned(np.ndarray):
    """NumPy's own arrays have no weak references."""


def test_what_all_have_forgotten_is_let_go_at_the_next_registration(compiled):
    """Until then a peer may use it: its array stays. No rank waits for another in a destructor."""
    def body():
        mine = np.zeros(100, np.int32).view(Owned)
        alive = weakref.ref(mine)
        forgotten, kept = ty.register(mine, "forgotten"), ty.register(ints(100), "kept")
        del mine
        if ty.rank() == 0:
            del forgotten
        gc.collect()
        ty.register(ints(8), "next").free()
        assert alive() is not None
        forgotten = None
        gc.collect()
        assert alive() is not None
        ty.register(ints(8), "last").free()
        assert alive() is None
        kept.free()
        return len(ty.init().registrations.kept)
    assert ty.spawn(body, ranks=2) == [0, 0]


def test_more_than_fit_in_one_message_are_let_go(compiled):
    def body():
        handles = [ty.register(ints(8), f"number {i}") for i in range(80)]
        del handles
        gc.collect()
        for _ in range(3):
            ty.register(ints(8), "next").free()
        return len(ty.init().registrations.kept)
    assert ty.spawn(body, ranks=2) == [0, 0]


def test_the_end_of_a_world_lets_go(compiled):
    references = []

    def body():
        mine = np.zeros(100, np.int32).view(Owned)
        references.append(weakref.ref(mine))
        ty.register(mine, "mine")
    ty.spawn(body, ranks=3)
    gc.collect()
    assert len(references) == 3 and not any(reference() is not None for reference in references)


SAME = np.zeros(64, np.int32)


def sizes(rank):
    ty.register(ints(8 + rank), "x")


def types(rank):
    ty.register(np.zeros(8, [np.int32, np.float32][rank]), "x")


def same(rank):
    ty.register(SAME, "x")


def parts_of_one(rank):
    ty.register(SAME[8 * rank:8 * rank + 16], "x")


def overlapping(rank):
    mine = ints(64)
    whole = ty.register(mine, "whole")
    ty.register(mine[8:16], f"x in {whole.label}")


def empty(rank):
    ty.register(ints(0), "x")


def misaligned(rank):
    memory = np.zeros(256, np.int8)
    begin = -memory.ctypes.data % 16 + 4 * rank
    ty.register(memory[begin:begin + 16].view(np.int32), "x")


def heap(rank):
    ty.register(ty.zeros(8, ty.int32, "symmetric").numpy(), "x")


@pytest.mark.parametrize("mistake, text", [
    (sizes, "rank 1: registration of 36 bytes as 'x', int32[9]"),
    (types, "rank 1: registration of 32 bytes as 'x', fp32[8]"),
    (same, "'x' cannot be registered: rank 0 and rank 1 bring the same memory"),
    (parts_of_one, "'x' cannot be registered: rank 0 and rank 1 bring the same memory"),
    (overlapping, "on rank 0 it has memory in common with 'whole', which is registered"),
    (empty, "'x' cannot be registered: on rank 0 it has no elements")])
def test_mistakes_are_told_to_all_ranks(host, mistake, text):
    def body():
        with pytest.raises(ty.LaunchError) as raised:
            mistake(ty.rank())
        return str(raised.value)
    for told in ty.spawn(body, ranks=2):
        assert text in told, told


@pytest.mark.parametrize("mistake, text", [
    (misaligned, "it lies 0 bytes behind a multiple of 16 on rank 0, but 4 on rank 1"),
    (heap, "on rank 0 it lies in the symmetric heap\nhint: it is symmetric already, pass it as it is")])
def test_mistakes_that_matter_where_code_is_compiled(compiled, mistake, text):
    def body():
        with pytest.raises(ty.LaunchError) as raised:
            mistake(ty.rank())
        return str(raised.value)
    for told in ty.spawn(body, ranks=2):
        assert text in told, told


def test_what_is_no_array_of_its_own(host):
    frozen = np.zeros(8, np.int32)
    frozen.flags.writeable = False
    for array, text in [(ty.zeros(4, ty.int32, "y"), "'x' is symmetric already, as 'y'; pass it as it is"),
                        (np.zeros(16, np.int32)[::2], "'x' of shape [8] has strides [2]; register an array whose"),
                        (np.zeros((4, 8), np.int32).T, "'x' of shape [8, 4] has strides [1, 8]"),
                        (frozen, "'x' is read-only; other ranks may write what is registered")]:
        with pytest.raises(ty.LaunchError) as raised:
            ty.register(array, "x")
        assert text in str(raised.value)


def test_what_one_rank_cannot_bring_is_told_to_all(host):
    def body(bad):
        with pytest.raises(ty.LaunchError) as raised:
            ty.register(bad() if ty.rank() == 1 else np.zeros(8, np.int32), "x")
        ty.barrier()
        return str(raised.value)
    for bad, text in [(lambda: np.zeros(16, np.int32)[::2], "'x' of shape [8] has strides [2]"),
                      (lambda: "text", "argument 'x' is a str; a kernel takes numbers")]:
        told = ty.spawn(body, ranks=3, args=(bad,))
        assert told[1].startswith(text)
        assert all(one.startswith("'x' cannot be registered, because of what rank 1 brings: " + text)
                   for one in (told[0], told[2])), told


def test_whatever_an_array_of_one_rank_raises_is_told_to_all(host):
    class Broken:
        @property
        def __cuda_array_interface__(self):
            raise RuntimeError("freed already")

    def body():
        kind, own = (RuntimeError, Broken()) if ty.rank() == 1 else (ty.LaunchError, ints(8))
        with pytest.raises(kind, match="freed already"):
            ty.register(own, "x")
        ty.register(ints(8), "x").free()  # the ranks are together again
    ty.spawn(body, ranks=3)


def test_a_rank_that_does_something_else(compiled):
    def body():
        with pytest.raises(ty.LaunchError, match="rank 0: barrier\n  rank 1: registration of 'x'"):
            ty.register(ints(8), "x") if ty.rank() else ty.barrier()
    ty.spawn(body, ranks=2)


def test_names_of_any_length(compiled):
    """Ranks tell each other the first 63 bytes."""
    def body():
        for before in ["", "x"]:
            name = before + "\N{GREEK SMALL LETTER LAMDA}" * 100
            ty.register(ints(8), name).free()
            with pytest.raises(ty.LaunchError, match=f"as '{name[:30]}"):
                ty.register(ints(8 + ty.rank()), name)
    ty.spawn(body, ranks=2)


def test_a_rank_outside_of_the_team(host):
    def body():
        first = ty.team([0], "first")
        if ty.rank() == 1:
            with pytest.raises(ty.LaunchError, match="does not belong to team 'first'"):
                ty.register(ints(8), "x", team=first)
        ty.barrier()
    ty.spawn(body, ranks=2)


def test_accesses_outside_of_it_are_found(compiled):
    def body():
        handle = ty.register(ints(8), "x")
        with pytest.raises(ty.LaunchError, match="writes argument 'x'.* element 8 of 8|index 8"):
            make(TO_NEXT)[(1,)](handle, 8, check_bounds=True)
    with pytest.raises(ty.Error):
        ty.spawn(body, ranks=2)
        raise ty.LaunchError("found on all ranks")


def test_host_memory_of_processes_cannot_be_registered(compiled, tmp_path):
    for process in start(tmp_path, '''
try:
    ty.register(np.zeros(8), "x")
except ty.LaunchError as error:
    print(error)
''', 2):
        out, err = process.communicate(timeout=60)
        assert process.returncode == 0, err
        assert out.startswith("'x' cannot be registered: on rank 0 it is memory of the host that only its own "
                              "process has\nhint: allocate it with ty.zeros, or let the ranks be threads"), out


#===-- Devices: the fake driver runs no kernels, so that what they would get is looked at -----------===#

LOOK = '''
def table(kernel, *arguments):
    """What a launch was given of the first registered argument: distances to each rank."""
    kernel[(1,)](*arguments)
    launch = fake.fake_cuda_launch_at(fake.fake_cuda_launch_count() - 1)
    words = bytes(launch.parameters[:launch.parameter_bytes])[-16:-8]
    address = int.from_bytes(words, "little")
    return list((ctypes.c_int64 * ty.num_ranks()).from_address(address))

def at(address):
    return ctypes.c_int32.from_address(address)

fake.cuCtxSetCurrent.argtypes = [ctypes.c_void_p]
def allocate(count):
    """As another library does."""
    context, memory = ctypes.c_void_p(), ctypes.c_uint64()
    fake.cuDevicePrimaryCtxRetain(ctypes.byref(context), ty.init().device - 1)
    fake.cuCtxSetCurrent(context)
    assert fake.cuMemAlloc_v2(ctypes.byref(memory), ctypes.c_size_t(count)) == 0
    return memory.value

class Array:
    def __init__(self, address, count):
        self.shape, self.__cuda_array_interface__ = (count,), dict(
            shape=(count,), typestr="<i4", version=3, strides=None, data=(address, False))

kernel = make("""@ty.jit
def kernel(x, value):
    tl.store(dl.symm_at(x, (dl.rank() + 1) % dl.num_ranks()), value)
""")
'''

PEERS = LOOK + '''
rank, size, count = ty.rank(), ty.num_ranks(), 1 << 20
memory = allocate(4 * count + 4096 * rank)
array = Array(memory + 512 * rank, count - 1024)
handle = ty.register(array, "x")
at(handle.address).value = 100 + rank
ty.barrier()
for argument in (handle, array):
    distances = table(kernel, argument, 5)
    assert distances[rank] == 0 and len(set(distances)) == size
    assert [at(handle.address + each).value for each in distances] == [100 + peer for peer in range(size)]
assert [int(handle.at(peer).numpy()[0]) for peer in range(size)] == [100 + peer for peer in range(size)]
ty.init().notify  # the host's transfers, too:
'''


@pytest.mark.parametrize("ranks, lacking", [(2, ""), (3, ""), (2, "vmm")])
def test_processes_on_devices(tmp_path, ranks, lacking):
    right(job(tmp_path, PEERS + '''
handle.free()
again = ty.register(Array(memory, 16), "again")     # tables are used again, mappings too
fake.fake_cuda_calls.restype = ctypes.c_char_p
assert fake.fake_cuda_calls().split().count(b"cuIpcOpenMemHandle_v2") == (size - 1) * (2 if "vmm" in os.environ["FAKE_CUDA_LACKS"] else 1)
at(again.address + 4).value = 7 + rank
ty.barrier()
assert [at(again.address + 4 + each).value for each in table(kernel, again, 5)] == [7 + peer for peer in range(size)]
print("right")
''', ranks, 'device="cuda", heap_bytes=4 << 20, share_device=True',
              environment=lambda rank: {"FAKE_CUDA_LACKS": lacking}))


def test_registered_memory_stays_mapped(tmp_path):
    """Of more than 256 buffers that operators use, the ones used least are given up, but not these."""
    right(job(tmp_path, PEERS + '''
for _ in range(270):
    ty.register(Array(allocate(2 << 20), 64), "other")
for _ in range(9):
    ty.register(Array(allocate(2 << 20), 64), "other").free()
assert [at(handle.address + each).value for each in table(kernel, handle, 5)] == [100 + peer for peer in range(size)]
print("right")
''', 2, 'device="cuda", heap_bytes=4 << 20'))


def test_threads_on_devices():
    """Each rank's memory is at one address for all."""
    assert fake('''
        kernel = make("@ty.jit\\ndef kernel(x, value):\\n    tl.store(dl.symm_at(x, 1 - dl.rank()), value)\\n")
        import threading
        turn = threading.Lock()
        def body():
            mine = ty.zeros(64, ty.int32, device=f"cuda:{ty.rank()}")
            handle = ty.register(mine, "x")
            with turn:
                kernel[(1,)](handle, 1)
                words = bytes(last().parameters[:last().parameter_bytes])[-16:-8]
                table = (ctypes.c_int64 * 2).from_address(int.from_bytes(words, "little"))
                distances = list(table)
            ty.barrier()
            handle.free()
            return handle.rank, mine.address, [mine.address + each for each in distances]
        found = ty.spawn(body, ranks=2, device=["cuda:0", "cuda:1"], heap_bytes=4 << 20)
        addresses = [address for _, address, _ in found]
        print([peers == addresses for _, _, peers in found])
    ''') == "[True, True]\n"


@pytest.mark.parametrize("array, text", [
    ("np.zeros(8, np.int32)", "on rank 0 it is in memory of the host, but symmetric memory of this world is that "
                              "of cuda:0 (Fake GPU 0)\nhint: move it there, or make the world with the device="),
    ("ty.zeros(8, 'int32', device='cuda:0')", "on rank 1 it is in memory of cuda:0 (Fake GPU 0), but symmetric "
                                              "memory of this world is that of cuda:1 (Fake GPU 1)"),
    ("Array(allocate(4096 if ty.rank() else 4 << 20), 64)",
     "on rank 1 it was allocated in a way that its driver shares with no other process or device\nhint: allocate "
     "it with ty.zeros, with torch outside of a pool of cudaMallocAsync, or with cudaMalloc")])
def test_what_a_device_cannot_register(tmp_path, array, text):
    results = job(tmp_path, LOOK + f'''
try:
    ty.register({array}, "x")
except ty.LaunchError as error:
    print(error)
ty.barrier()
''')
    for rank, (status, out, err) in enumerate(results):
        assert status == 0 and text in out, f"rank {rank}: {out}{err}"


def test_device_memory_in_a_world_of_the_host():
    assert "it is in memory of cuda:0 (Fake GPU 0), but symmetric memory of this world is that of the host" in fake(
        "print(message(lambda: ty.register(x, 'x')))")
