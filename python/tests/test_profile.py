# SPDX-FileCopyrightText: The Tilery authors
# SPDX-License-Identifier: Apache-2.0
"""tilery profile: what it adds up, and whose errors it reports."""

import json
import sys
from pathlib import Path

import pytest
from test_cli import tilery  # noqa: F401

ROOT = Path(__file__).resolve().parents[2]


def event(kind: str, name: str, rank: int, begin: float, end: float, **arguments) -> dict:
    return {"ph": "X", "cat": kind, "name": name, "pid": rank, "tid": 1, "ts": begin, "dur": end - begin,
            "args": arguments}


EVENTS = [
    {"ph": "M", "name": "process_name", "pid": 0, "tid": 0, "args": {"name": "rank 0"}},
    event("launch", "ring", 0, 0, 1000, instances=2),
    event("instance", "ring", 0, 0, 900, instance=0),
    event("instance", "ring", 0, 0, 1000, instance=1),
    event("tile", "tile of ring", 0, 0, 300, instance=1),
    event("wait", "wait ready + owner (ring.py:12)", 0, 100, 200, kernel="ring", at="/a/ring.py:12"),
    event("wait", "wait ready + owner (ring.py:12)", 0, 300, 590, kernel="ring", at="/a/ring.py:12"),
    event("wait", "wait done (ring.py:20)", 0, 700, 710, kernel="ring", at="/a/ring.py:20"),
    event("wait", "wait ready + owner (ring.py:12)", 0, 100, 150, kernel="ring", at="/a/ring.py:12",
          copies=True),
    event("launch", "ring", 1, 0, 500, instances=1),
    event("instance", "ring", 1, 0, 500, instance=0),
    event("wait", "wait 'ready'[3] (ring.py:12)", 1, 0, 5, kernel="ring", at="/a/ring.py:12"),
    event("wait", "wait 'ready'[4] (ring.py:12)", 1, 5, 10, kernel="ring", at="/a/ring.py:12"),
]


@pytest.fixture
def timeline(tmp_path) -> str:
    path = tmp_path / "timeline.json"
    path.write_text(json.dumps({"traceEvents": EVENTS}))
    return str(path)


def test_waits_are_added_up_by_place(tilery, timeline):  # noqa: F811
    found = json.loads(tilery("profile", "--json", timeline))
    assert found["kernels"] == [
        {"rank": 0, "kernel": "ring", "launches": 1, "instances": 2, "launch_us": 1000,
         "instance_us": 1900, "wait_us": 400},
        {"rank": 1, "kernel": "ring", "launches": 1, "instances": 1, "launch_us": 500, "instance_us": 500,
         "wait_us": 10}]
    shown = [(wait["rank"], wait["signal"], wait["at"], wait["waits"], wait["total_us"],
              wait["longest_us"], wait["copies"]) for wait in found["waits"]]
    assert shown == [(0, "ready + owner", "/a/ring.py:12", 2, 390, 290, False),
                     (0, "ready + owner", "/a/ring.py:12", 1, 50, 50, True),
                     (0, "done", "/a/ring.py:20", 1, 10, 10, False),
                     (1, "ready", "/a/ring.py:12", 2, 10, 5, False)]
    assert found["waits"][0]["share"] == pytest.approx(390 / 1900)


def test_top_cuts_the_table(tilery, timeline):  # noqa: F811
    text = tilery("profile", "--top", "2", timeline)
    lines = text.splitlines()
    assert "   0         1        1.000     21.1 %  ring" in lines
    assert "   0   20.5 %        0.390        2       290.0  ring: ready + owner (/a/ring.py:12)" in lines
    assert lines[-1].endswith("ring: ready + owner (/a/ring.py:12), copying warp")
    assert "done" not in text


def test_mistakes(tilery, timeline, tmp_path):  # noqa: F811
    assert "there is no timeline 'absent.json'" in tilery("profile", "absent.json", status=1)
    assert "'--top' stands behind the timeline; options come before it" in tilery(
        "profile", timeline, "--top", "3", status=1)
    (tmp_path / "other.json").write_text("[1, 2]")
    assert "is not a timeline" in tilery("profile", str(tmp_path / "other.json"), status=1)
    assert "a timeline, or the program to run is required" in tilery("profile", status=106)
    assert "--top" in tilery("profile", "--top", "0", timeline, status=105)


PROGRAM = """
import sys
sys.path[:0] = {path!r}
import tilery as ty
from kernel_text import make

kernel = make('''@ty.jit
def meet(ready):
    dl.notify(ready, 1 - dl.rank(), 1)
    dl.wait(ready, waitValue=1)
''', "meet")

if __name__ == "__main__":
    with ty.interpret(False):
        {start}
"""
BODY = "kernel[(1,)](ty.signals(1, 'ready'))"


@pytest.mark.parametrize("words, start", [
    ((), f"ty.spawn(lambda: {BODY}, ranks=2)"),
    (("-n", "2"), f"ty.init(); {BODY}; ty.finalize()")], ids=["threads", "processes"])
def test_a_program_is_profiled_while_it_runs(tilery, tmp_path, words, start):  # noqa: F811
    program, kept = tmp_path / "program.py", tmp_path / "kept.json"
    program.write_text(PROGRAM.format(path=sys.path, start=start))
    found = json.loads(tilery("profile", "--json", "-o", str(kept), *words, "--", sys.executable,
                              str(program)))
    assert [(kernel["rank"], kernel["kernel"], kernel["launches"]) for kernel in found["kernels"]] == [
        (0, "meet", 1), (1, "meet", 1)]
    assert json.loads(kept.read_text())["traceEvents"]
    program.write_text("raise SystemExit(3)")
    assert "launches" not in tilery("profile", sys.executable, str(program), status=3)
