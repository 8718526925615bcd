# SPDX-FileCopyrightText: The Tilery authors
# SPDX-License-Identifier: Apache-2.0
"""Ranks use each other's buffers where they are. Processes over devices run on the fake library, whose
memory is the host's: it is found, mapped, known again, and given up."""

import ctypes
import json

import pytest
from test_process_devices import job, library, right

PEERS = '''
import ctypes
from tilery import _capi
api = _capi.library()
cuda = ctypes.CDLL(os.environ["TILERY_CUDA_LIBRARY"])
cuda.fake_cuda_calls.restype = ctypes.c_char_p
NONE, HEAP, PROCESS, SHARED, NEW = range(5)
rank, size, world = ty.rank(), ty.num_ranks(), ty.init()

class Place(ctypes.Structure):
    _fields_ = [("kind", ctypes.c_int32), ("problem", ctypes.c_int32), ("number", ctypes.c_uint64),
                ("offset", ctypes.c_uint64)]

api.tilery_place_problem.restype = ctypes.c_char_p
api.tilery_place_problem.argtypes = [ctypes.c_void_p]

def places_of(*buffers, team=world):
    own = (Place * len(buffers))()
    for at, (address, count) in enumerate(buffers):
        _capi.check(api.tilery_place_of(ctypes.c_void_p(team.handle), ctypes.c_void_p(address),
                                        ctypes.c_size_t(count), ctypes.byref(own[at])))
    ranks = ty.num_ranks(team=team)
    everyones = (Place * (ranks * len(buffers)))()
    _capi.check(api.tilery_world_all_gather_bytes(team.handle, ctypes.cast(own, ctypes.c_char_p),
                                                  ctypes.cast(everyones, ctypes.c_char_p), ctypes.sizeof(own),
                                                  None))
    return everyones

def opened(*buffers, team=world):
    """The places, as they were brought, what they became, and their addresses."""
    places = places_of(*buffers, team=team)
    brought = [place.kind for place in places]
    addresses = (ctypes.c_void_p * len(places))()
    _capi.check(api.tilery_places_open(ctypes.c_void_p(team.handle), places, len(buffers), addresses))
    return brought, places, [address for address in addresses]

def allocate(count):
    memory = ctypes.c_uint64()
    assert cuda.cuMemAlloc_v2(ctypes.byref(memory), ctypes.c_size_t(count)) == 0
    return memory.value

def free(address):
    assert cuda.cuMemFree_v2(ctypes.c_uint64(address)) == 0

def calls(symbol):
    return cuda.fake_cuda_calls().split().count(symbol.encode())

def write(address, value):
    ctypes.c_int64.from_address(address).value = value

def read(address):
    return ctypes.c_int64.from_address(address).value

cuda.cuCtxSetCurrent.argtypes = [ctypes.c_void_p]
ty.zeros(1, "int32", "first").free()
context = ctypes.c_void_p()
cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), world.device - 1)
cuda.cuCtxSetCurrent(context)
LARGE = 4 << 20
'''


def peers_job(tmp_path, body, ranks=2, figures="off", **options):
    right(job(tmp_path, PEERS + body + '\nprint("right")', ranks,
              environment=lambda rank: {"TILERY_CALIBRATION": figures}, **options))


def test_memory_is_mapped_once_and_known_again(tmp_path):
    peers_job(tmp_path, '''
x, y = allocate(LARGE), allocate(LARGE)
write(x + 64, 100 + rank), write(y, 200 + rank)
ty.barrier()
for turn in range(3):
    brought, places, found = opened((x + 64, 128), (y, LARGE))
    assert brought == ([NEW] if turn == 0 else [SHARED]) * 2 * size, brought
    assert [place.kind for place in places] == [SHARED] * 2 * size
    for peer in range(size):
        assert read(found[2 * peer]) == 100 + peer and read(found[2 * peer + 1]) == 200 + peer
    assert found[2 * rank : 2 * rank + 2] == [x + 64, y]
assert calls("cuIpcGetMemHandle") == 2 and calls("cuIpcOpenMemHandle_v2") == 2 * (size - 1)
brought, _, found = opened((x + 8, 8), (y + LARGE - 8, 8))      # other parts of the same memory
assert brought == [SHARED] * 2 * size
ty.barrier()
ty.finalize()
assert calls("cuIpcCloseMemHandle") == 2 * (size - 1)
''', ranks=3, init='device="cuda", heap_bytes=4 << 20, share_device=True')


def test_memory_at_an_old_address_is_new(tmp_path):
    peers_job(tmp_path, '''
x = allocate(LARGE)
opened((x, LARGE))
again = x
if rank == 0:
    free(x)
    again = allocate(LARGE)
    write(again, 7)
ty.barrier()
brought, places, found = opened((again, LARGE))
assert brought == [NEW, SHARED], brought
assert read(found[0]) == 7
assert rank == 0 or calls("cuIpcCloseMemHandle") == 0
if rank == 0:
    free(again)
    again = allocate(LARGE)
    write(again, 8)
ty.barrier()
brought, places, found = opened((again, LARGE))
assert brought == [NEW, SHARED] and read(found[0]) == 8
assert calls("cuIpcCloseMemHandle") == rank     # of the first one, which nobody has any more
ty.barrier()
''')


def test_the_heap_and_nothing(tmp_path):
    peers_job(tmp_path, '''
x = ty.zeros(64, "int64", "x")
write(x.address + 8 * rank, 5 + rank)
ty.barrier()
brought, places, found = opened((x.address + 8 * rank, 8), (0, 0))
assert brought == [HEAP, PROCESS] * size and [read(each) for each in found[::2]] == [5, 6]
ty.barrier()
''')


def test_what_one_rank_cannot_share_is_nobodys(tmp_path):
    peers_job(tmp_path, '''
x, small = allocate(LARGE), allocate(4096)
text = lambda place: api.tilery_place_problem(ctypes.byref(place)).decode()
brought, places, found = opened((small if rank == 1 else x, 64))
assert brought == [NEW, NEW] and [place.kind for place in places] == [SHARED, NONE]
assert found[1] is None and read(found[0]) is not None
assert text(places[1]) == "was allocated in a way that its driver shares with no other process or device"
brought, places, found = opened((small if rank == 1 else x, 64))
assert brought == [SHARED, NONE]
host = np.zeros(8)
_, places, found = opened((host.ctypes.data, 64))
assert [place.kind for place in places] == [NONE] * 2 and found == [None, None]
assert text(places[0]) == "is not memory of the device that the rank uses"
if rank == 1:
    cuda.fake_cuda_fail(b"cuIpcOpenMemHandle_v2", 1)
y = allocate(LARGE)
brought, places, found = opened((y, 64))
assert [place.kind for place in places] == [NONE, SHARED] and found[0] is None
assert text(places[0]) == "is memory that another rank's process cannot map"
assert opened((y, 64))[0] == [NONE, SHARED]
''')


def test_pieces_of_an_address_range(tmp_path):
    """Memory that is mapped from pieces: each has a descriptor, which is passed on."""
    peers_job(tmp_path, '''
from ctypes import c_size_t, c_uint64, byref
class Properties(ctypes.Structure):
    _fields_ = [("type", ctypes.c_uint32), ("handles", ctypes.c_uint32), ("kind", ctypes.c_uint32),
                ("device", ctypes.c_int32), ("rest", ctypes.c_uint64 * 2)]
piece, count = 2 << 20, 6
base = c_uint64()
cuda.cuMemAddressReserve(byref(base), c_size_t(16 * piece), c_size_t(0), c_uint64(0), c_uint64(0))
handles = []
def extend(at):
    handle = c_uint64()
    assert cuda.cuMemCreate(byref(handle), c_size_t(piece), byref(Properties(1, 1, 1, world.device - 1)), c_uint64(0)) == 0
    assert cuda.cuMemMap(c_uint64(base.value + at * piece), c_size_t(piece), c_size_t(0), handle, c_uint64(0)) == 0
    assert cuda.cuMemSetAccess(c_uint64(base.value + at * piece), c_size_t(piece), None, c_size_t(1)) == 0
for at in range(count):
    extend(at)
    write(base.value + at * piece, 10 * rank + at)
ty.barrier()
brought, places, found = opened((base.value + piece, (count - 1) * piece))
assert [place.kind for place in places] == [SHARED] * size, brought
for peer in range(size):
    assert [read(found[peer] + at * piece) for at in range(count - 1)] == [10 * peer + 1 + at for at in range(count - 1)]
assert opened((base.value + 3 * piece, 2 * piece))[0] == [SHARED] * size
extend(count)
write(base.value + count * piece, 77 + rank)
ty.barrier()
brought, places, found = opened((base.value + (count - 1) * piece, 2 * piece))
assert brought == [NEW] * size and [read(each + piece) for each in found] == [77, 78, 79][:size]
cuda.cuMemUnmap(c_uint64(base.value + 2 * piece), c_size_t(piece))
extend(2)
brought, _, _ = opened((base.value + piece, 3 * piece))
assert brought == [NEW] * size
ty.barrier()
''', ranks=3, init='device="cuda", heap_bytes=4 << 20, share_device=True')


PIECE = '''
from ctypes import c_size_t, c_uint64, byref

class Properties(ctypes.Structure):
    _fields_ = [("type", ctypes.c_int32), ("handles", ctypes.c_int32), ("where", ctypes.c_int32),
                ("device", ctypes.c_int32)]

def piece():
    """2 MiB of memory that is shared by a descriptor."""
    base, handle, count = c_uint64(), c_uint64(), c_size_t(2 << 20)
    assert cuda.cuMemAddressReserve(byref(base), count, c_size_t(0), c_uint64(0), c_uint64(0)) == 0
    assert cuda.cuMemCreate(byref(handle), count, byref(Properties(1, 1, 1, world.device - 1)), c_uint64(0)) == 0
    assert cuda.cuMemMap(base, count, c_size_t(0), handle, c_uint64(0)) == 0
    assert cuda.cuMemSetAccess(base, count, None, c_size_t(1)) == 0
    return base.value

import resource
def leave_descriptors(count):
    """Of those that the process may have."""
    last = max(map(int, os.listdir("/proc/self/fd")))
    while (filled := os.dup(0)) <= last:
        pass
    resource.setrlimit(resource.RLIMIT_NOFILE, (filled + 1 + count, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
'''


@pytest.mark.parametrize("left,why", [
    (0, "Too many open files"),
    (1, "no descriptor came, of which a process can have only so many (ulimit -n)")])
def test_a_rank_without_descriptors_left(tmp_path, left, why):
    """The other one learns of it, unless it has gone on."""
    peers_job(tmp_path, PIECE + f'''
heap = ty.zeros(64, "int64", "x").address
mine = heap if rank else piece()
if rank == 1:
    leave_descriptors({left})
try:
    opened((mine, 64))
    assert rank == 0
except ty.PeerError as error:
    assert str(error).startswith("rank 1 cannot share memory with other ranks: {why}"), error
''', init='device="cuda", heap_bytes=4 << 20, timeout_s=2')


def test_teams(tmp_path):
    """What a team has mapped is new to the ranks that are not in it."""
    peers_job(tmp_path, '''
pair = ty.team([0, 2], "pair")
x = allocate(LARGE)
write(x, rank)
ty.barrier()
if rank != 1:
    assert opened((x, 8), team=pair)[0] == [NEW, NEW]
    assert opened((x, 8), team=pair)[0] == [SHARED, SHARED]
ty.barrier()
brought, _, found = opened((x, 8))
assert brought == [NEW] * 3 and [read(each) for each in found] == [0, 1, 2]
assert calls("cuIpcOpenMemHandle_v2") == 2
if rank != 1:
    assert opened((x, 8), team=pair)[0] == [SHARED, SHARED]
ty.barrier()
''', ranks=3, init='device="cuda", heap_bytes=4 << 20, share_device=True')


def test_many_buffers(tmp_path):
    """Of more than 256, the ones used least are unmapped."""
    peers_job(tmp_path, '''
buffers = [allocate(2 << 20) for _ in range(270)]
for address in buffers:
    assert opened((address, 8))[0] == [NEW] * size
assert opened((buffers[-1], 8))[0] == [SHARED] * size and opened((buffers[0], 8))[0] == [NEW] * size
assert calls("cuIpcCloseMemHandle") == 14, calls("cuIpcCloseMemHandle")
ty.barrier()
''')


OPERATORS = '''

class Launch(ctypes.Structure):
    _fields_ = [("kernel", ctypes.c_char_p), ("numbers", ctypes.c_uint32 * 8), ("stream", ctypes.c_void_p),
                ("parameters", ctypes.POINTER(ctypes.c_uint8)), ("parameter_bytes", ctypes.c_int32)]
cuda.fake_cuda_launch_at.restype = Launch

class Array:
    """Rows of fp32 in memory of the device."""
    def __init__(self, address, rows, columns):
        self.address, self.shape, self.strides = address, (rows, columns), (4 * columns, 4)
        self.__cuda_array_interface__ = dict(shape=self.shape, typestr="<f4", version=3, strides=None,
                                             data=(address, False))
    def numpy(self):
        floats = ctypes.c_float * (self.shape[0] * self.shape[1])
        return np.frombuffer(floats.from_address(self.address), np.float32).reshape(self.shape)

def kernels():
    """Names of what has been launched since the last time."""
    names = [cuda.fake_cuda_launch_at(i).kernel.decode() for i in range(cuda.fake_cuda_launch_count())]
    cuda.fake_cuda_reset()
    return names
n = 1 << 20
'''


def test_copy_engines_go_straight_to_the_peers_rows(tmp_path):
    """Own rows are the kernel's, which does not run here."""
    peers_job(tmp_path, OPERATORS + '''
x, out = Array(allocate(4 * n), 1, n), Array(allocate(4 * n * size), size, n)
for turn in range(2):
    x.numpy()[:], out.numpy()[:] = rank + 10 * turn, -1
    ty.barrier()
    kernels()
    ty.ops.all_gather(x, out, form="direct_copies")
    ty.barrier()
    expected = [-1 if peer == rank else peer + 10 * turn for peer in range(size)]
    assert (out.numpy() == np.array(expected, "f4")[:, None]).all(), out.numpy()
    assert kernels() == ["open_call", "take_own"]
    blocks, got = Array(out.address, size, n), Array(allocate(4 * n * size), size, n)
    blocks.numpy()[:] = np.arange(size)[:, None] + 100 * rank
    ty.barrier()
    ty.ops.all_to_all(blocks, got, form="direct_copies")
    ty.barrier()
    assert [int(row[0]) for peer, row in enumerate(got.numpy()) if peer != rank] == [
        rank + 100 * peer for peer in range(size) if peer != rank]
    assert kernels() == ["open_call", "take_own"]
    ty.ops.broadcast(x, Array(got.address, 1, n), root=1, form="direct_copies")
    ty.barrier()
    assert rank == 1 or (got.numpy()[0] == 1 + 10 * turn).all()
    kernels()
    ty.ops.all_reduce(x, x)
    assert kernels() == ["all_reduce_direct"]
    ty.barrier()
''', ranks=3, init='device="cuda", heap_bytes=16 << 20, share_device=True')


def test_a_rank_whose_memory_is_its_own_makes_all_stage(tmp_path):
    peers_job(tmp_path, OPERATORS + '''
large, stepped = Array(allocate(4 * n), 1, n), Array(allocate(4 * n), 1, n)
ty.ops.all_reduce(large, large)
assert kernels() == ["all_reduce_direct"]
if rank == 1:
    cuda.fake_cuda_fail(b"cuIpcGetMemHandle", 1)
for turn in range(2):
    ty.ops.all_reduce(large, stepped)
    launched = kernels()
    assert launched and not any("direct" in name for name in launched), launched
try:
    ty.ops.all_reduce(large, stepped, form="direct")
    raise AssertionError("it is not shared")
except ty.LaunchError as error:
    assert str(error) == (
        "all_reduce: form 'direct' uses the ranks' own buffers, but 'out' of rank 1 was allocated in a way "
        "that its driver shares with no other process or device; leave 'form' at auto"), error
ty.barrier()
''', init='device="cuda", heap_bytes=128 << 20')


def test_sums_of_products_go_to_the_peers_out_where_they_can(tmp_path):
    """By itself where figures say so; not where a rank's `out` is its own or lies otherwise."""
    terms = {f"gemm_ar.{form}.{term}": value for form, start in (("direct", 0), ("two_shot", 1), ("one_shot", 1e9))
             for term, value in (("start", start), ("factor", 1), ("exposed", 0.1))}
    curves = {f"{name}.{bytes}": 1e9 + bytes for name in ("all_reduce.push", "all_gather.push", "link.copies")
              for bytes in (1 << 10, 1 << 20)}
    figures = tmp_path / "figures.json"
    figures.write_text(json.dumps({"version": 6, "ranks": 2, "sustained": 700e6} | terms | curves))
    peers_job(tmp_path, OPERATORS + '''
m = 256
a, b, out = (Array(allocate(LARGE), m, m) for _ in range(3))
ty.ops.gemm_ar(a, b, out)
assert kernels() == ["gemm_ar_direct"]
explained = ty.ops.explain("gemm_ar", a, b, out)
assert explained["chosen"] == "direct" and explained["direct"] < explained["two_shot"] < explained["one_shot"]
for turn in range(3):
    ty.ops.gemm_ar(a, b, out)
assert kernels() == ["gemm_ar_direct"] * 3
apart = Array(allocate(LARGE), m, m)
step = 2 * m if rank == 1 else m
apart.strides = (4 * step, 4)
apart.__cuda_array_interface__["strides"] = apart.strides
ty.ops.gemm_ar(a, b, apart)
assert kernels() == ["gemm_ar_two_shot"]
if rank == 1:
    cuda.fake_cuda_fail(b"cuIpcGetMemHandle", 1)
mine = Array(allocate(LARGE), m, m)
for turn in range(2):
    ty.ops.gemm_ar(a, b, mine)
assert kernels() == ["gemm_ar_two_shot"] * 2
for tensor, problem in ((mine, "was allocated in a way that its driver shares with no other process or device"),
                        (apart, "is fp32 with strides [512, 1] and that of rank 0 fp32 with strides [256, 1]")):
    try:
        ty.ops.gemm_ar(a, b, tensor, form="direct")
        raise AssertionError("it cannot be used")
    except ty.LaunchError as error:
        assert str(error) == ("gemm_ar: form 'direct' uses the ranks' own buffers, but 'out' of rank 1 " + problem +
                              "; leave 'form' at auto"), error
ty.barrier()
''', init='device="cuda", heap_bytes=128 << 20', figures=str(figures))


def test_new_memory_while_a_stream_is_recorded(tmp_path):
    """Nothing is unmapped then, and memory that a recorded call uses is not given up for other memory."""
    peers_job(tmp_path, OPERATORS + '''
stream = ctypes.c_void_p()
cuda.cuStreamCreate(ctypes.byref(stream), 0)
first = Array(allocate(4 * n), 1, n)
ty.ops.all_reduce(first, first)
cuda.fake_cuda_capture(stream, 1)
_capi.library().tilery_stream_use(stream)
recorded = Array(allocate(4 * n), 1, n)
ty.ops.all_reduce(recorded, recorded)
assert kernels() == ["all_reduce_direct"] * 2 and calls("cuIpcCloseMemHandle") == 0
cuda.fake_cuda_capture(stream, 0)
_capi.library().tilery_stream_use(None)
for _ in range(270):
    opened((allocate(2 << 20), 8))
assert opened((recorded.address, 8))[0] == [SHARED] * size
assert opened((first.address, 8))[0] == [NEW] * size
ty.barrier()
''', init='device="cuda", heap_bytes=16 << 20')
