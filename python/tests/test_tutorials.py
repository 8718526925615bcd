# SPDX-FileCopyrightText: The Tilery authors
# SPDX-License-Identifier: Apache-2.0
"""Every tutorial runs, in the interpreter and compiled, and says what it checked."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
LESSONS = sorted((ROOT / "tutorials").glob("[0-9]*.py"))


def run(script: Path, backend: str, *arguments: str, timeout: float = 120):
    environment = dict(os.environ, TILERY_INTERPRET=str(int(backend == "interpret")),
                       PYTHONPATH=str(ROOT / "python"))
    return subprocess.run([sys.executable, str(script), *arguments], env=environment,
                          capture_output=True, text=True, timeout=timeout)


def test_there_are_lessons():
    assert len(LESSONS) >= 5


@pytest.mark.parametrize("lesson", LESSONS, ids=lambda path: path.stem)
def test_tutorial(backend, lesson):
    done = run(lesson, backend)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip()


def test_demo(compiled, tmp_path):
    done = run(ROOT / "demo/ag_gemm.py", "cpu", "--rows", "300", "--columns", "64", "--depth", "96",
               "--timeline", str(tmp_path / "timeline.json"))
    assert done.returncode == 0, done.stderr
    for text in ("largest error", "compute", "wait", "transfer", "hidden", "timeline.json"):
        assert text in done.stdout, done.stdout
    assert (tmp_path / "timeline.json").stat().st_size > 0
