# SPDX-FileCopyrightText: The Tilery authors
# SPDX-License-Identifier: Apache-2.0
"""Every error text occurs in a test: three words in a row of each message of the code are looked for in
the texts of the tests. What no test can bring about is listed in UNTESTABLE with the reason."""

import ast
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
TEST = re.compile(r"(^|/)tests?/|(^|/)test_\w+\.py$|_test\.cpp$|_harness\.h$|/cts/")
# Where a message begins; its literals are those up to the end of the call.
CPP = re.compile(r"\b(?:raise|fail|refuse|CompileError|emitError|emitOpError|createStringError|"
                 r"rejectValue|runtime_error|Error)\(|\b(?:throw|return) Error\(")
LITERAL = re.compile(r'"((?:[^"\\\n]|\\.)*)"')
KINDS = ("CompileError", "ConfigError", "TargetError", "LaunchError", "PeerError", "WaitTimeout",
         "InternalError")
BUG = "this is a bug in tilery"  # nothing that a test could bring about
# Beginnings of messages that need a broken system or another machine.
UNTESTABLE = {
    "LLVM has no code generator for ": "an LLVM without this machine's target",
    "LLVM cannot emit ": "an LLVM without this machine's target",
    "translation to LLVM IR failed": "passes that leave something behind",
    "cannot start the just-in-time linker": "an LLVM without this machine's target",
    "target ' ... ' needs the processor feature": "a processor without AVX2 or AVX-512",
    "the library has no kernel file ": "a library that was put together wrongly",
    "cannot allocate {} bytes of host memory": "no memory left",
    "cannot allocate {} bytes of scratch memory": "no memory left",
    "cannot get a stack of {} bytes": "no memory left",
    "cannot duplicate a file descriptor": "no file descriptors left",
    "expected a function definition": "a module that finds definitions where there are none",
    "another rank failed": "a rank that dies between two stores",
    "the job's rendezvous belongs to another user": "a second user",
    "pidfd_open does not work here": "an old kernel, or a seccomp filter",
    # Of GPUs: owed with the tests of their target.
    "launch loaded code": "a device",
    "the driver of '{}' takes no newer PTX": "a device with an old driver",
    "kernel '{}' needs clusters": "a device",
    "kernel '{}' was compiled for '{}'": "a device",
    "cannot allocate {} bytes of memory on device": "a full device",
    "cannot allocate {} bytes that device": "a full device",
    "device {} ({}) cannot share memory": "an old device",
    "this process has loaded too many kernels": "a device",
    "kernel '{}' has {} run-time arguments, at most": "a device",
    "DLPack has no element type ": "a device",
    "needs a layout on both sides": "the NVIDIA target",
}


def tracked(*patterns: str) -> list[Path]:
    listed = subprocess.run(["git", "ls-files", *patterns], cwd=ROOT, capture_output=True, text=True,
                            check=True).stdout
    return [ROOT / name for name in listed.splitlines() if (ROOT / name).exists()]


def is_test(path: Path) -> bool:
    return TEST.search(path.relative_to(ROOT).as_posix()) is not None


def call_text(text: str, begin: int) -> str:
    """From an opening parenthesis to the one that closes it, literals skipped."""
    depth, at = 0, begin
    while at < len(text):
        if text[at] == '"':
            at = LITERAL.match(text, at).end() if LITERAL.match(text, at) else at + 1
            continue
        depth += (text[at] == "(") - (text[at] == ")")
        at += 1
        if depth == 0:
            break
    return text[begin:at]


def cpp_messages(path: Path):
    text = re.sub(r"^\s*//.*$|^\s*#include.*$", "", path.read_text(), flags=re.M)
    for found in CPP.finditer(text):
        inside = call_text(text, found.end() - 1)
        parts = re.sub(r'"\s*\n?\s*"', "", inside)  # literals that follow each other are one
        pieces = [piece.replace("\\n", "\n").replace('\\"', '"') for piece in LITERAL.findall(parts)]
        if any(len(words(piece)) >= 3 for piece in pieces):
            yield text.count("\n", 0, found.start()) + 1, pieces


def python_messages(path: Path):
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call) and \
                getattr(node.exc.func, "id", "") in KINDS:
            pieces = [part.value for argument in node.exc.args for part in ast.walk(argument)
                      if isinstance(part, ast.Constant) and isinstance(part.value, str)]
            if any(len(words(piece)) >= 3 for piece in pieces):
                yield node.lineno, pieces


def words(piece: str) -> list[str]:
    """Of a message without its hint; a word with a value in it is "\0"."""
    piece = re.sub(r"\{[^{}]*\}", "\0", piece.split("\nhint:")[0])
    bare = (re.sub(r"[^\w\0]+", "", word).lower() for word in piece.split())
    return ["\0" if "\0" in word else word for word in bare if word]


def runs(pieces: list[str]) -> list[str]:
    """Three words in a row without a value in or between them."""
    found = []
    for at, piece in enumerate(pieces):
        before = "\0" if at > 0 else ""  # values stand between the literals of a message
        after = "\0" if at + 1 < len(pieces) else ""
        for part in " ".join(words(before + piece + after)).split("\0"):
            row = part.split()
            found += [" ".join(row[i:i + 3]) for i in range(len(row) - 2)]
    return found


def main() -> int:
    tests = " ".join(path.read_text(errors="replace") for path in
                     tracked("*.py", "*.cpp", "*.mlir", "*.h") if is_test(path))
    tests = re.sub(r'"\s*\n?\s*(?:r|f|rf|R)?"', "", tests).replace("\\", "")
    known = " ".join(re.sub(r"[^\w]+", "", word).lower() for word in tests.split())
    known = f" {re.sub(' +', ' ', known)} "
    wrong = []
    for path in tracked("runtime/**", "compiler/**", "capi/**", "ops/**", "tools/**",
                        "python/tilery/**"):
        if is_test(path) or path.suffix not in (".cpp", ".h", ".py"):
            continue
        find = python_messages if path.suffix == ".py" else cpp_messages
        for line, pieces in find(path):
            candidates = runs(pieces)
            message = " ... ".join(pieces)
            excused = BUG in message or any(message.startswith(text) for text in UNTESTABLE)
            if candidates and not excused and not any(f" {run} " in known for run in candidates):
                wrong.append(f"{path.relative_to(ROOT)}:{line}: no test has this text: {message!r}")
    print("\n".join(wrong) if wrong else "errors: ok")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
