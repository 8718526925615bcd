# SPDX-FileCopyrightText: The Tilery authors
# SPDX-License-Identifier: Apache-2.0
"""The disk cache: hits in a new process, follows constants, and runs nothing of another user."""

import json
import os
import subprocess
import sys

from backends import require_library

SCRIPT = """
import json
import numpy as np
import tilery as ty
import tilery.language as tl

FACTOR = {factor}


@ty.jit
def scale(x, N: tl.constexpr):
    at = tl.arange(0, N)
    tl.store(x + at, tl.load(x + at) * FACTOR)


x = np.ones(8, np.float32)
scale[(1,)](x, N=8)
print(json.dumps([float(x[0]), json.loads(scale.warmup(x, N=8, grid=(1,))["metadata"])["cached"]]))
"""


def run(tmp_path, factor, cache):
    require_library()
    script = tmp_path / "scale.py"
    script.write_text(SCRIPT.format(factor=factor))
    result = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, timeout=60,
                            env=os.environ | {"TILERY_CACHE_DIR": str(cache)})
    assert result.returncode == 0, result.stderr
    return json.loads(result.stdout.splitlines()[-1]), result.stderr


def test_a_second_process_finds_the_code(tmp_path):
    cache = tmp_path / "cache"
    assert run(tmp_path, 3, cache)[0] == [3.0, False]
    assert run(tmp_path, 3, cache)[0] == [3.0, True]
    assert os.stat(cache).st_mode & 0o777 == 0o700


def test_a_changed_constant_is_not_stale(tmp_path):
    """Case 70: a global constant changes between two runs with a warm cache."""
    cache = tmp_path / "cache"
    assert run(tmp_path, 3, cache)[0][0] == 3.0
    assert run(tmp_path, 5, cache)[0] == [5.0, False]


def test_a_damaged_entry_counts_as_absent(tmp_path):
    cache = tmp_path / "cache"
    run(tmp_path, 3, cache)
    for entry in cache.iterdir():
        data = bytearray(entry.read_bytes())
        data[-1] ^= 255
        entry.write_bytes(data)
    assert run(tmp_path, 3, cache)[0] == [3.0, False]


def test_a_directory_that_others_can_write_is_not_used(tmp_path):
    cache = tmp_path / "cache"
    cache.mkdir()
    cache.chmod(0o777)
    value, warnings = run(tmp_path, 3, cache)
    assert value == [3.0, False]
    assert "must be a directory of this user that no other can write" in warnings
    assert not list(cache.iterdir())


def test_the_least_recently_used_entries_go(tmp_path):
    require_library()
    cache = tmp_path / "cache"
    script = tmp_path / "many.py"
    script.write_text(SCRIPT.format(factor=3) + """
import os, pathlib, time
cache = pathlib.Path(os.environ["TILERY_CACHE_DIR"])
first = {path.name for path in cache.iterdir()}
for size in (16, 32, 64, 128, 256, 512, 1024, 2048):
    time.sleep(0.02)
    scale[(1,)](np.ones(size, np.float32), N=size)
    for name in first:  # in use all the time
        os.utime(cache / name)
sizes = {path.name: path.stat().st_size for path in cache.iterdir()}
print(json.dumps([sum(sizes.values()), max(sizes.values()), len(sizes), first <= set(sizes)]))
""")
    limit = 5000
    result = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, timeout=60,
                            env=os.environ | {"TILERY_CACHE_DIR": str(cache),
                                              "TILERY_CACHE_BYTES": str(limit)})
    assert result.returncode == 0, result.stderr
    total, largest, count, kept = json.loads(result.stdout.splitlines()[-1])
    assert total <= limit + largest and 1 < count < 9 and kept
    unlimited = subprocess.run([sys.executable, str(script)], capture_output=True, text=True,
                               timeout=60, env=os.environ | {"TILERY_CACHE_DIR": str(cache),
                                                             "TILERY_CACHE_BYTES": "0"})
    assert json.loads(unlimited.stdout.splitlines()[-1])[2] == 9


def test_a_hit_counts_as_use(tmp_path):
    cache = tmp_path / "cache"
    run(tmp_path, 3, cache)
    (entry,) = cache.iterdir()
    os.utime(entry, (1e9, 1e9))
    assert run(tmp_path, 3, cache)[0] == [3.0, True]
    assert entry.stat().st_mtime > 1.5e9
