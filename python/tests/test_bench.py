# SPDX-FileCopyrightText: The Tilery authors
# SPDX-License-Identifier: Apache-2.0
"""tilery bench: results beside peers as a table and as a plot. Nothing is measured here."""

import json
import math
import os
import shutil
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
import zlib
from collections import defaultdict
from pathlib import Path

import numpy as np
import pytest
from test_cli import tilery  # noqa: F401

RESULTS = Path(__file__).resolve().parents[2] / "bench/results/gpu_overlap.json"
TIMES = {"op": "gemm_rs", "m": 64, "n": 512, "k": 256, "ours": 10.0, "nccl": 12.0, "torch": 8.0}


def written(path: Path, *entries, **more) -> str:
    path.write_text(json.dumps({"gpu": "A & B", "ranks": 2, "results": list(entries), **more}))
    return str(path)


def drawn(tilery, results, tmp_path) -> list:  # noqa: F811
    """Elements of the plot, which has to be well-formed."""
    tilery("bench", "plot", str(results), "-o", str(tmp_path / "plot.svg"))
    return list(ElementTree.parse(tmp_path / "plot.svg").iter())


def points(elements) -> list:
    return [element for element in elements if element.get("class", "").split()[:1] == ["point"]]


def texts(elements, kind) -> list:
    return [element.text for element in elements if element.get("class") == kind]


def place(point) -> tuple:
    return float(point.get("cx")), float(point.get("cy"))


def test_each_result_is_a_point(tilery, tmp_path):  # noqa: F811
    results = json.loads(RESULTS.read_text())["results"]
    elements = drawn(tilery, RESULTS, tmp_path)
    found = {point.find("{*}title").text: point for point in points(elements)}
    assert len(found) == len(points(elements)) == len(results)
    assert "time of the peer / time of tilery" in texts(elements, "axis")
    assert texts(elements, "axis").count("M (rows)") == 3
    assert texts(elements, "title") == ["2 x NVIDIA H200: above 1, tilery is faster", "ag_gemm", "gemm_rs",
                                        "gemm_ar"]
    shapes = {f"N x K = {entry['n']} x {entry['k']}" for entry in results}
    assert set(texts(elements, "legend")) == shapes | {"NCCL + cuBLAS, in CUDA graphs"}
    # Both axes are logarithmic: places are those of one line through all points.
    places, bounds = defaultdict(list), next(iter(elements)).get("viewBox").split()
    for entry in results:
        ratio = entry["nccl"] / entry["ours"]
        name = f"{entry['op']} {entry['m']} {entry['n']} x {entry['k']}: {ratio:.2f} beside NCCL + cuBLAS"
        x, y = place(found[f"{name}, in CUDA graphs"])
        assert 0 < x < float(bounds[2]) and 0 < y < float(bounds[3])
        places["y"].append((math.log(ratio), y))
        places[entry["op"]].append((math.log(entry["m"]), x))
    for pairs in places.values():
        (least, low), (most, high) = min(pairs), max(pairs)
        assert all(abs(low + (value - least) / (most - least) * (high - low) - at) < 0.2 for value, at in pairs)


def test_peers_and_calls_without_graphs_have_marks_of_their_own(tilery, tmp_path):  # noqa: F811
    eager = {"ours": 30.0, "nccl": 15.0}
    elements = drawn(tilery, written(tmp_path / "r.json", TIMES | {"eager": eager}), tmp_path)
    found = {point.find("{*}title").text: point for point in points(elements)}
    assert {name.split(": ")[1]: (point.tag.split("}")[1], "eager" in point.get("class"))
            for name, point in found.items()} == {
        "1.20 beside NCCL + cuBLAS, in CUDA graphs": ("circle", False),
        "0.80 beside torch, in CUDA graphs": ("rect", False),
        "0.50 beside NCCL + cuBLAS, without graphs": ("circle", True)}
    style = next(element.text for element in elements if element.tag.endswith("style"))
    assert "prefers-color-scheme: dark" in style


def test_collectives_are_drawn_over_bytes(tilery, tmp_path):  # noqa: F811
    results = [{"op": "all_reduce", "bytes": 1 << bits, "ours": 10, "nccl": 20, "torch one_shot": 15,
                "torch two_shot": 12} for bits in (10, 20, 28)]
    elements = drawn(tilery, written(tmp_path / "r.json", *results), tmp_path)
    assert len(points(elements)) == 6 and "bytes of a rank" in texts(elements, "axis")
    assert {"1K", "1M", "256M"} <= set(texts(elements, "label"))
    assert any("1.20 beside torch" in point.find("{*}title").text for point in points(elements))


def test_results_that_cannot_be_drawn(tilery, tmp_path):  # noqa: F811
    def refused(path, output="plot.svg"):
        return tilery("bench", "plot", str(path), "-o", str(tmp_path / output), status=1)

    assert "none.json' cannot be opened" in refused(tmp_path / "none.json")
    (tmp_path / "half.json").write_text("{")
    assert "half.json' cannot be read as JSON" in refused(tmp_path / "half.json")
    assert "has no times of operators beside peers\nhint: bench/gpu_overlap.py" in refused(
        written(tmp_path / "r.json"))
    assert "has no times of operators" in refused(written(tmp_path / "r.json", {"op": "matmul", "ours": 3}))
    alone = {name: value for name, value in TIMES.items() if name not in ("nccl", "torch")}
    assert "no peer was measured" in refused(written(tmp_path / "r.json", alone))
    assert "cannot write '" in refused(written(tmp_path / "r.json", TIMES), "there/is/no/folder.svg")


def decoded(path):
    """The pixels of a PNG of 8-bit RGBA, by the filters of its specification (section 9)."""
    data, at, packed = path.read_bytes(), 8, b""
    assert data[:8] == b"\x89PNG\r\n\x1a\n"
    while at < len(data):
        size, kind = int.from_bytes(data[at:at + 4], "big"), data[at + 4:at + 8]
        body, at = data[at + 8:at + 8 + size], at + 12 + size
        if kind == b"IHDR":
            width, height = (int.from_bytes(body[i:i + 4], "big") for i in (0, 4))
            assert tuple(body[8:]) == (8, 6, 0, 0, 0)
        packed += body if kind == b"IDAT" else b""
    lines = np.frombuffer(zlib.decompress(packed), np.uint8).reshape(height, 1 + 4 * width)
    image, above = np.zeros((height, width, 4), np.uint8), np.zeros((width, 4), np.int32)
    for y, line in enumerate(lines):
        row = line[1:].reshape(width, 4).astype(np.int32)
        if line[0] == 2:
            row += above
        elif line[0]:  # what depends on the pixel to the left
            left = corner = np.zeros(4, np.int32)
            for x in range(width):
                guess = left + above[x] - corner
                far = [abs(guess - left), abs(guess - above[x]), abs(guess - corner)]
                nearest = np.where((far[0] <= far[1]) & (far[0] <= far[2]), left,
                                   np.where(far[1] <= far[2], above[x], corner))
                row[x] = (row[x] + {1: left, 3: (left + above[x]) // 2, 4: nearest}[int(line[0])]) % 256
                left, corner = row[x], above[x]
        above = row % 256
        image[y] = above
    return image


def test_a_png_is_a_picture_of_the_svg(tilery, tmp_path):  # noqa: F811
    pytest.importorskip("resvg_py")
    results = written(tmp_path / "r.json", TIMES)
    elements = drawn(tilery, results, tmp_path)
    tilery("bench", "plot", results, "-o", str(tmp_path / "plot.png"), "--python", sys.executable)
    assert sorted(path.name for path in tmp_path.glob("plot*")) == ["plot.png", "plot.svg"]
    image, scale = decoded(tmp_path / "plot.png"), 2
    width, height = map(float, next(iter(elements)).get("viewBox").split()[2:])
    assert image.shape == (scale * height, scale * width, 4)
    assert (image[:8, :8] == 255).all()
    circle = next(point for point in points(elements) if point.tag.endswith("circle"))
    x, y = (int(scale * value) for value in place(circle))
    assert tuple(image[y, x]) == (0x09, 0x69, 0xDA, 255)
    title = next(element for element in elements if element.get("class") == "title")
    left, base = (int(scale * float(title.get(name))) for name in ("x", "y"))
    assert (image[base - 20:base, left:left + 200, :3].max(axis=-1) < 100).sum() > 200  # its letters


def test_a_png_without_the_package_or_a_font(tilery, tmp_path):  # noqa: F811
    results = written(tmp_path / "r.json", TIMES)

    def refused(text, output="plot.png"):
        """By a Python that knows only this module resvg_py."""
        folder = tmp_path / "modules"
        folder.mkdir(exist_ok=True)
        (folder / "resvg_py.py").write_text(text)
        python = tmp_path / "python"
        python.write_text(f"#!/bin/sh\nHOME=/none PYTHONPATH={folder} exec {sys.executable} -c '{HIDE}' \"$@\"\n")
        python.chmod(0o755)
        return tilery("bench", "plot", results, "-o", str(tmp_path / output), "--python", str(python), status=1)

    assert "PNG needs the package resvg_py" in refused("raise ImportError")
    assert "hint: pip install resvg_py" in refused("raise ImportError")
    assert "no font for the labels is installed; looked for DejaVuSans.ttf" in refused("")
    assert "a plot is an .svg or a .png file, not" in refused("", "plot.jpg")
    assert list(tmp_path.glob("plot*")) == []
    (tmp_path / "plot.png").write_text("an earlier one")
    refused("")
    assert (tmp_path / "plot.png").read_text() == "an earlier one"


def test_a_png_that_cannot_be_written(tilery, tmp_path):  # noqa: F811
    pytest.importorskip("resvg_py")
    (tmp_path / "plot.png").mkdir()
    error = tilery("bench", "plot", written(tmp_path / "r.json", TIMES), "-o", str(tmp_path / "plot.png"),
                   "--python", sys.executable, status=1)
    assert "plot.png': Is a directory" in error and "Traceback" not in error
    assert (tmp_path / "plot.png").is_dir()


# Runs the program that it is given where no folder has fonts.
HIDE = ("import pathlib, runpy, sys; pathlib.Path.is_dir = lambda path: False; sys.argv = sys.argv[1:]; "
        "runpy.run_path(sys.argv[0], run_name=\"__main__\")")

# In place of a Python with PyTorch: leaves its arguments, and on rank 0 the results.
PYTHON = """#!/bin/sh
echo "$@" > {folder}/arguments.$RANK
while [ "$1" != --output ]; do shift; done
[ $RANK != 0 ] || cp {folder}/measured.json "$2"
exit {status}
"""


@pytest.mark.parametrize("status", [0, 3])
def test_overlap_shows_what_was_measured(tilery, tmp_path, status):  # noqa: F811
    written(tmp_path / "measured.json", TIMES | {"eager": {"ours": 30.0, "nccl": 15.0}})
    python = tmp_path / "python"
    python.write_text(PYTHON.format(folder=tmp_path, status=status))
    python.chmod(0o755)
    output = tmp_path / "overlap.json"
    shown = tilery("bench", "overlap", "-n", "2", "--python", str(python), "-o", str(output), "--ops", "gemm_rs",
                   status=status)
    for rank in (0, 1):
        program, *arguments = (tmp_path / f"arguments.{rank}").read_text().split()
        assert program.endswith("/bench/gpu_overlap.py") and Path(program).exists()
        assert arguments == ["--eager", "--output", str(output), "--ops", "gemm_rs"]
    rows = [line.split() for line in shown.splitlines() if line.startswith("gemm_rs")]
    assert rows == [["gemm_rs", "64", "512", "256", "graph", "10.0", "12.0", "8.0"],
                    ["gemm_rs", "64", "512", "256", "eager", "30.0", "15.0", "-"]]
    assert len(points(ElementTree.parse(output.with_suffix(".svg")).iter())) == 3


def test_explain_shows_every_form_beside_what_was_expected(tilery, tmp_path):  # noqa: F811
    shape = {"op": "gemm_rs", "m": 64, "n": 512, "k": 256, "error": 0.0}
    chosen = shape | {"chosen": "unfused", "expected": {"overlapped": 9.04, "unfused": 8.5},
                      "form overlapped": 8.0, "form unfused": 10.0, "ours": 10.0, "regret": 0.25}
    failed = shape | {"chosen": "unfused", "expected": {"unfused": 8.5}}
    written(tmp_path / "measured.json", chosen, failed)
    python = tmp_path / "python"
    python.write_text(PYTHON.format(folder=tmp_path, status=0))
    python.chmod(0o755)
    output = tmp_path / "overlap.json"
    shown = tilery("bench", "overlap", "--explain", "--random", "7", "--python", str(python), "-o", str(output))
    program, *arguments = (tmp_path / "arguments.0").read_text().split()
    assert arguments == ["--explain", "--output", str(output), "--random", "7"]
    title, first, second, where = shown.splitlines()
    assert title.endswith("us: measured (expected), * chosen") and where == str(output)
    assert first.split() == ["gemm_rs", "64", "512", "256", "regret", "25.0", "%", "overlapped", "8.0", "(9.0)",
                             "*unfused", "10.0", "(8.5)"]
    assert second.split() == ["gemm_rs", "64", "512", "256", "regret", "-", "*unfused", "-", "(8.5)"]
    assert not output.with_suffix(".svg").exists()
    assert "--random" in tilery("bench", "overlap", "--random", "7", status=107)


def test_overlap_without_what_it_needs(tilery, tmp_path):  # noqa: F811
    python = tmp_path / "python"
    python.write_text(f"#!/bin/sh\nexec {sys.executable} -S \"$@\"\n")  # has no packages
    python.chmod(0o755)
    output = tmp_path / "overlap.json"
    told = tilery("bench", "overlap", "--python", str(python), "-o", str(output), status=1)
    assert "gpu_overlap: No module named 'torch' for " in told and "which needs PyTorch with CUDA" in told
    assert not output.exists()
    program = Path(shutil.which("tilery") or Path(__file__).resolve().parents[2] / "build/dev/bin/tilery")
    if program.read_bytes()[:4] != b"\x7fELF":
        pytest.skip("the program is that of an installed package")
    elsewhere = tmp_path / "tilery"
    shutil.copy(program, elsewhere)
    environment = os.environ | {"LD_LIBRARY_PATH": str(program.parent.parent / "lib")}
    run = subprocess.run([elsewhere, "bench", "overlap", "-o", output], env=environment, capture_output=True,
                         text=True, timeout=60)
    assert run.returncode == 1
    assert "gpu_overlap.py is neither in the package nor in a folder around" in run.stderr
