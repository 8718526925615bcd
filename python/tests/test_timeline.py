# SPDX-FileCopyrightText: The Tilery authors
# SPDX-License-Identifier: Apache-2.0
"""The timeline of kernels: what they record, on which clock, and that it costs nothing when it is off."""

import json
import re
import time
from collections import defaultdict

import pytest
from backends import require_device, require_library
from kernel_text import make
from test_devices import fake
from test_ptx import OPERATORS, ROOT, assemble, ptx_of

import tilery as ty

MEET = """@ty.jit
def meet(x, inbox, states, ready, epoch, n, steps):
    peer = 1 - dl.rank()
    dl.put(inbox, x, n, peer)
    state = tl.load(states)
    for step in range(steps):
        state = state ^ (state << 13)
        state = state ^ (state >> 17)
        state = state ^ (state << 5)
    tl.store(states, state)
    dl.notify(ready, peer, epoch)
    dl.wait(ready, waitValue=epoch)
    for step in range(2):
        if step == 1:
            dl.barrier_all()
"""
STEPS = 1 << 23  # some 20 ms on a CPU, 100 ms on a GPU; arguments of 1 make kernels of their own


def meet_late(launches: int = 2) -> dict:
    """Rank 1 takes STEPS steps before it notifies rank 0, which waits for it; the host's times around.

    Its kernel is late, not its launch: ranks of one process that share a GPU launch together.
    """
    kernel = make(MEET, "meet")
    x, inbox = (ty.zeros(4096, ty.float32, name) for name in ("x", "inbox"))
    states = ty.zeros(1, ty.int32, "states")
    ready = ty.signals(1, "ready")
    kernel[(1,)](x, inbox, states, ready, 2, 4096, 16)
    spans = []
    for epoch in range(3, 3 + launches):
        ty.barrier()
        begin = time.monotonic_ns()
        kernel[(1,)](x, inbox, states, ready, epoch, 4096, STEPS if ty.rank() == 1 else 16)
        ty.synchronize()
        spans.append((begin, time.monotonic_ns()))
    return {"spans": spans, "summary": ty.trace_summary()}


def events_of(path) -> dict:
    """Events by rank and category, in the order of their begins; times in nanoseconds."""
    found = defaultdict(lambda: defaultdict(list))
    for event in json.loads(path.read_text())["traceEvents"]:
        if event["ph"] == "X":
            event["begin"], event["end"] = event["ts"] * 1e3, (event["ts"] + event["dur"]) * 1e3
            found[event["pid"]][event["cat"]].append(event)
    for categories in found.values():
        for events in categories.values():
            events.sort(key=lambda event: event["begin"])
    return found


@pytest.fixture(params=[None, "cuda"], ids=["cpu", "cuda"])
def device(request):
    require_library()
    if request.param:
        require_device()
        ty.finalize()
    with ty.interpret(False):
        yield request.param


def test_waits_show_who_is_late(device, tmp_path):
    path = tmp_path / "timeline.json"
    results = ty.spawn(meet_late, ranks=2, trace=str(path), device=device, timeout=20)
    events = events_of(path)
    slack = 2e6  # a thread that is not scheduled at once
    for rank, result in enumerate(results):
        of_rank, spans = events[rank], result["spans"]
        assert len(of_rank["launch"]) == 1 + len(spans) == len(of_rank["instance"])
        assert result["summary"]["launches"] == 1 + len(spans)
        assert result["summary"]["put_bytes"] == 4 * 4096 * (1 + len(spans))
        for (begin, end), launch in zip(spans, of_rank["launch"][1:]):
            assert begin - slack <= launch["begin"] <= launch["end"] <= end + slack
        assert all(event["args"]["to"] == 1 - rank for event in of_rank["put"] + of_rank["notify"])
        assert all(event["args"]["kernel"] == "meet" for event in of_rank["wait"])
    # Of the first launch, which compiles, any rank may be late.
    late = [[wait for wait in events[rank]["wait"]
             if wait["begin"] > results[rank]["spans"][0][0] - slack and wait["dur"] > 2 * slack / 1e3]
            for rank in (0, 1)]
    assert [len(waits) for waits in late] == [2, 0], late
    for wait, launch, notify in zip(late[0], events[0]["launch"][1:], events[1]["notify"][1:]):
        assert launch["begin"] <= wait["begin"] and wait["end"] <= launch["end"]
        assert abs(wait["end"] - notify["end"]) < slack  # on one clock
        assert re.fullmatch(r"wait ('ready'\[0\]|ready) \(kernel_\d+\.py:12\)", wait["name"]), wait["name"]
    # Rank 1 computes for almost all of the time that the host sees pass.
    computes = [end - begin for begin, end in results[1]["spans"]]
    for wait, span in zip(late[0], computes):
        assert span - 5 * slack < 1e3 * wait["dur"] < span + slack
    assert results[0]["summary"]["exposed_wait_ns"] > 0.9e3 * sum(wait["dur"] for wait in late[0])


TILES = """@ty.jit
def tiles(a, b, c, count, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)[:, None] * BLOCK + tl.arange(0, BLOCK)[None, :]
    for tile in range(tl.program_id(0), count, tl.num_programs(0)):
        acc = tl.zeros((BLOCK, BLOCK), tl.float32)
        for k in range(0, 4):
            acc = tl.dot(tl.load(a + k * BLOCK * BLOCK + at), tl.load(b + at), acc)
        tl.store(c + tile * BLOCK * BLOCK + at, acc)
"""


def multiply_tiles():
    kernel = make(TILES, "tiles")
    a, b = (ty.zeros(4 * 64 * 64, ty.float16, device="cuda") for _ in range(2))
    c = ty.zeros(12 * 64 * 64, ty.float32, device="cuda")
    for _ in range(3):
        kernel[(4,)](a, b, c, 12, BLOCK=64)


def test_a_gpu_tells_of_tiles(tmp_path):
    require_device()
    ty.finalize()
    with ty.interpret(False):
        ty.spawn(multiply_tiles, ranks=1, trace=str(tmp_path / "timeline.json"), device="cuda")
    events = events_of(tmp_path / "timeline.json")[0]
    assert [launch["args"]["instances"] for launch in events["launch"]] == [4, 4, 4]
    assert len(events["instance"]) == 12 and len(events["tile"]) == 36
    for instance in events["instance"]:
        tiles = [tile for tile in events["tile"] if tile["tid"] == instance["tid"] and
                 instance["begin"] <= tile["begin"] and tile["end"] <= instance["end"]]
        assert len(tiles) == 3 and all(tile["name"] == "tile of tiles" for tile in tiles)


# --- code -----------------------------------------------------------------------------------------

SOURCE = "import tilery as ty\nimport tilery.language as tl\nimport tilery.language.device as dl\n"


def test_code_without_a_timeline_reads_no_clock(tmp_path, monkeypatch):
    file = tmp_path / "tiles.py"
    file.write_text(SOURCE + TILES)
    signature = "*fp16:16, *fp16:16, *fp32:16, i32, 64"
    monkeypatch.delenv("TILERY_TRACE", raising=False)
    assert "globaltimer" not in ptx_of(file, "tiles", signature, "sm_90a")
    monkeypatch.setenv("TILERY_TRACE", str(tmp_path / "t.json"))
    for gpu in ("sm_80", "sm_90a"):
        ptx = ptx_of(file, "tiles", signature, gpu)
        assert ptx.count("globaltimer") == 3  # the begin, a tile, the end
        # Two tickets at the begin, one after a tile.
        assert ptx.count("%smid") == 2 and len(re.findall(r"atom\S*\.add\.u64", ptx)) == 3
        assemble(ptx, gpu, tmp_path)


def test_each_wait_is_recorded_where_it_is(tmp_path, monkeypatch):
    file = tmp_path / "meet.py"
    file.write_text(SOURCE + MEET)
    signature = "*fp32:16, symm *fp32:16, *i32:16, signal, i32, i32, i32"
    counts = []
    for path in ("", str(tmp_path / "t.json")):
        monkeypatch.setenv("TILERY_TRACE", path)
        counts.append(ptx_of(file, "meet", signature, "sm_90a").count("%smid"))
    assert counts == [0, 5]  # put, notify, wait, barrier, instance


def test_producers_tell_of_their_waits(tmp_path, monkeypatch):
    folder, function, signature, options, _ = next(row for row in OPERATORS if row[0] == "ag_gemm")
    monkeypatch.setenv("TILERY_TRACE", str(tmp_path / "t.json"))
    ptx = ptx_of(ROOT / f"ops/{folder}/{folder}.py", function, signature, "sm_90a", **options)
    wait = 3 << 16  # the kind of event beside the multiprocessor's number
    for role in (0, 1 << 24):
        assert re.search(rf"or\.b32\s+\S+\s+\S+\s+{wait | role};", ptx)


# --- without a GPU --------------------------------------------------------------------------------

WORLD = '''
import json, pathlib

def body():
    kernel[(2,)](x, y, 5)
    return ty.trace_summary()

path = pathlib.Path("{path}")
'''


def test_kernels_get_a_ring(tmp_path):
    """The context is the last parameter; the ring and the kernel's number stand at its end."""
    assert fake(WORLD.format(path=tmp_path / "t.json") + '''
results = ty.spawn(body, ranks=1, trace=str(path), device="cuda")
words = ctypes.cast(pointer(20) + 64, ctypes.POINTER(ctypes.c_uint64))
print(words[0] != 0, words[1], results[0]["launches"], "globaltimer" in kernel.asm["ptx"])
ty.spawn(body, ranks=1, device="cuda")
words = ctypes.cast(pointer(20) + 64, ctypes.POINTER(ctypes.c_uint64))
print(words[0], words[1], len(json.loads(path.read_text())["traceEvents"]) > 0)
    '''.replace("\n    '''", "")).splitlines() == ["True 0 0 False", "0 0 True"]


def test_a_clock_that_cannot_be_read(tmp_path):
    assert fake(WORLD.format(path=tmp_path / "t.json") + '''
print(message(lambda: ty.spawn(body, ranks=1, trace=str(path), device="cuda")))
''', FAKE_CUDA_LACKS="clock") == (
        "LaunchError: Fake GPU 0 does not answer within 2 s, so that its clock cannot be compared with the "
        "host's\nhint: it computes for others; record the timeline when it is free\n")
