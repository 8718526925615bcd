# SPDX-FileCopyrightText: The Tilery authors
# SPDX-License-Identifier: Apache-2.0
"""The documentation is true: its snippets run, its links lead somewhere, its tables are complete.

Fences and what happens to them, page by page:

* ```python: run in order in one namespace, from a file with the page's line numbers;
* ```python compiled: the same, but not in the interpreter;
* ```python gpu: the same, but only where there is a GPU;
* ```python file=ring.py: written beside them, for commands, and run alone;
* ```python torch file=layers.py: run as two ranks of torch.distributed, where torch is installed;
* ```python no-run: only shown;
* ```sh: lines that start with `$ tilery` run when the tool is built;
* ```cpp run: a whole program, which must compile, and end with status 0.
"""

import importlib.util
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest

import tilery.language as tl
import tilery.language.device as dl
from tilery import _capi

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md")])
TOOL = ROOT / "build/dev/bin/tilery"
COMPILER = shutil.which("g++") or shutil.which("clang++") or shutil.which("clang++-22")
FENCE = re.compile(r"^```(\w+)([^\n]*)\n(.*?)^```$", re.M | re.S)


class Snippet(NamedTuple):
    """The text of one fence, `line` being the line of the page before its first one."""

    language: str
    marks: list[str]
    text: str
    line: int

    @property
    def file(self) -> str | None:
        """The name of a snippet that is a file of its own."""
        return next((mark[5:] for mark in self.marks if mark.startswith("file=")), None)


def snippets(page: Path, language: str) -> list[Snippet]:
    text = page.read_text()
    found = [Snippet(match[1], match[2].split(), match[3], text.count("\n", 0, match.start(3)))
             for match in FENCE.finditer(text)]
    return [snippet for snippet in found
            if snippet.language == language and "no-run" not in snippet.marks]


def commands(page: Path) -> list[str]:
    return [line[2:] for snippet in snippets(page, "sh") for line in snippet.text.splitlines()
            if line.startswith("$ tilery")]


def programs(page: Path) -> list[Snippet]:
    return [snippet for snippet in snippets(page, "cpp") if "run" in snippet.marks]


def each_page(has=lambda page: True):
    """Runs a test for each page that `has` what it is about."""
    return pytest.mark.parametrize("page", [page for page in PAGES if has(page)],
                                   ids=lambda path: path.stem)


needs_compiler = pytest.mark.skipif(COMPILER is None, reason="no C++ compiler is installed")


def environment(backend: str) -> dict:
    library = _capi.find()
    paths = [str(Path(sys.executable).parent), str(TOOL.parent), os.environ.get("PATH", "")]
    known = {"TILERY_LIBRARY": str(library)} if library else {}
    return {**os.environ, **known, "PATH": os.pathsep.join(paths), "PYTHONPATH": str(ROOT / "python"),
            "TILERY_INTERPRET": str(int(backend == "interpret"))}


def run(command, folder: Path, backend: str, timeout: float = 120):
    done = subprocess.run(command, cwd=folder, env=environment(backend), capture_output=True,
                          text=True, timeout=timeout)
    assert done.returncode == 0, f"{shlex.join(map(str, command))}\n{done.stdout}{done.stderr}"


def write_files(page: Path, folder: Path) -> list[Path]:
    """Writes the snippets that are files; returns the paths of those that run alone."""
    files = [snippet for snippet in snippets(page, "python") if snippet.file]
    for snippet in files:
        (folder / snippet.file).write_text(snippet.text)
    return [folder / snippet.file for snippet in files if "torch" not in snippet.marks]


def torch_files(page: Path) -> list[Snippet]:
    return [snippet for snippet in snippets(page, "python") if "torch" in snippet.marks]


def script(page: Path, backend: str) -> str:
    """The page's snippets as one program with the page's line numbers."""
    lines = [""] * (page.read_text().count("\n") + 1)
    for snippet in snippets(page, "python"):
        if not snippet.file and runs_on(backend, snippet.marks):
            body = snippet.text.splitlines()
            lines[snippet.line:snippet.line + len(body)] = body
    return "\n".join(lines) + "\n"


def runs_on(backend: str, marks: list[str]) -> bool:
    if "gpu" in marks:
        return backend == "cuda"
    return backend != "interpret" or "compiled" not in marks


@each_page(lambda page: snippets(page, "python"))
def test_python(backend, page, tmp_path):
    files = write_files(page, tmp_path)
    text = script(page, backend)
    if not text.strip() and not files:
        pytest.skip("the page has no Python for this backend")
    program = tmp_path / f"{page.stem.replace('-', '_')}_page.py"
    program.write_text(text)
    for path in [*files, program]:
        run([sys.executable, str(path)], tmp_path, backend)


@pytest.mark.skipif(not importlib.util.find_spec("torch"),
                    reason="torch is not installed (pip install torch)")
@each_page(torch_files)
def test_torch(compiled, page, tmp_path):
    write_files(page, tmp_path)
    for snippet in torch_files(page):
        run([sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2",
             snippet.file], tmp_path, compiled)


@each_page(commands)
def test_shell(page, tmp_path):
    if not TOOL.exists():
        pytest.skip("the tool is not built")
    for name in ("examples", "ops", "tutorials"):
        (tmp_path / name).symlink_to(ROOT / name)
    write_files(page, tmp_path)
    for line in commands(page):
        run(["bash", "-c", line], tmp_path, "cpu")


@needs_compiler
@each_page(programs)
def test_cpp_compiles(page, tmp_path):
    for snippet in programs(page):
        source = tmp_path / "program.cpp"
        source.write_text(snippet.text)
        run([COMPILER, "-std=c++20", "-Wall", "-Wextra", "-Werror", "-fsyntax-only",
             f"-I{ROOT / 'include'}", str(source)], tmp_path, "cpu")


@needs_compiler
@each_page(programs)
def test_cpp_runs(compiled, page, tmp_path):
    library = _capi.find().resolve()
    for snippet in programs(page):
        source = tmp_path / "program.cpp"
        source.write_text(snippet.text)
        run([COMPILER, "-std=c++20", f"-I{ROOT / 'include'}", str(source), str(library), "-pthread",
             f"-Wl,-rpath,{library.parent}", "-o", str(tmp_path / "program")], tmp_path, "cpu")
        run([str(tmp_path / "program")], tmp_path, "cpu")


def test_there_are_pages():
    assert {"README", "ARCHITECTURE", "CONTRIBUTING", "language"} <= {page.stem for page in PAGES}
    assert sum(bool(snippets(page, "python")) for page in PAGES) >= 6


def anchors(page: Path) -> set[str]:
    """The fragments that GitHub gives to a page's headings."""
    text = FENCE.sub("", page.read_text())
    headings = re.findall(r"^#+ (.*)$", text, re.M)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@each_page()
def test_links(page):
    text = FENCE.sub("", page.read_text())
    for target in re.findall(r"\]\(([^)\s]+)\)", text):
        if target.startswith(("http://", "https://")):
            continue
        path, _, fragment = target.partition("#")
        there = (page.parent / path).resolve() if path else page
        assert there.exists(), f"{page.name} links to {target}, which does not exist"
        assert not fragment or fragment in anchors(there), f"{page.name}: no heading for {target}"


def test_the_knobs_page_is_current():
    done = subprocess.run([sys.executable, str(ROOT / "docs/generate_knobs.py"), "--check"],
                          capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def public(module) -> list[str]:
    """Functions of a module of the language."""
    def is_of_the_language(value) -> bool:
        where = str(getattr(value, "__module__", ""))
        return callable(value) and not isinstance(value, type) and \
            where.startswith("tilery.language") and where != "tilery.language.values"
    return [name for name, value in vars(module).items()
            if not name.startswith("_") and is_of_the_language(value)]


def builtins() -> set[str]:
    """The names in the front end's tables."""
    text = "".join(path.read_text() for path in
                   sorted((ROOT / "compiler/Frontend/Language").glob("*.cpp")))
    return set(re.findall(r'(?:table\.add\((?:language|device|"tilery\.language"), |unary\()"(\w+)"',
                          text))


def test_the_language_page_names_every_function():
    words = set(re.findall(r"\w+", (ROOT / "docs/language.md").read_text()))
    names = {*public(tl), *public(dl), *builtins()}
    assert len(names) > 80
    assert sorted(names - words) == []


def test_the_operators_page_names_every_operator_and_option(compiled):
    import tilery as ty

    text = (ROOT / "docs/operators.md").read_text()
    for operator in ty.ops.list():
        assert f"| `{operator['name']}` |" in text, f"docs/operators.md does not mention {operator['name']}"
        for option in operator["options"]:
            assert f"`{option}`" in text, f"docs/operators.md misses {operator['name']}'s {option}"
