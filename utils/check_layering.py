#!/usr/bin/env python3
# SPDX-FileCopyrightText: The Tilery authors
# SPDX-License-Identifier: Apache-2.0
"""Checks that #include and import lines respect the layering of ARCHITECTURE.md."""

import re
import subprocess
import sys

INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]', re.M)
IMPORT = re.compile(r"^\s*(?:from|import)\s+([\w.]+)", re.M)
VENDORS = re.compile(r"(^|/)(cuda|hip|hsa|acl|mc)[a-z_]*\.h")

# (folder, what it must not include, why). Folders are prefixes; the first match per rule counts.
FORBIDDEN = [
    ("include/tilery", r"^(mlir|llvm|compiler|runtime|capi|ops)/", "the public API stands alone"),
    ("runtime/base", r"^(compiler|capi|ops|mlir|llvm|runtime/(?!base/))", "base knows nothing of ours"),
    ("runtime/hal", r"^(compiler|capi|ops|mlir|llvm|runtime/(world|launch|check)/)",
     "drivers know base and hal"),
    ("runtime/", r"^(compiler|capi|ops|mlir|llvm|Python)", "the runtime has no compiler in it"),
    ("compiler/Dialect/Core", r"^compiler/(Dialect/(Device|Task)|Target|Conversion|Pipeline|Frontend)",
     "core is the lowest level"),
    ("compiler/Dialect/Device", r"^compiler/(Dialect/Task|Target|Conversion|Pipeline|Frontend)",
     "device knows core only"),
    ("compiler/", r"^(runtime|capi|ops)/", "the compiler does not know the runtime"),
    ("ops/", r"^(compiler|runtime|capi|mlir|llvm)/", "operators use the public API"),
]


def tracked(*patterns: str) -> list[str]:
    out = subprocess.run(["git", "ls-files", *patterns], capture_output=True, text=True, check=True)
    return [name for name in out.stdout.splitlines() if name]


def is_test(path: str) -> bool:
    return path.endswith("_test.cpp") or "/test/" in path


def check_cpp() -> list[str]:
    errors = []
    for path in tracked("*.cpp", "*.h", "*.hpp"):
        with open(path, encoding="utf-8") as file:
            text = file.read()
        for _, header in INCLUDE.findall(text):
            for folder, pattern, why in FORBIDDEN:
                if path.startswith(folder) and not is_test(path) and re.search(pattern, header):
                    errors.append(f"{path}: includes {header}: {why}")
            if VENDORS.search(header):
                errors.append(f"{path}: includes {header}: vendor libraries are opened at run time")
    return errors


def check_python() -> list[str]:
    errors = []
    for path in tracked("python/tilery/*.py", "python/tilery/**/*.py"):
        with open(path, encoding="utf-8") as file:
            text = file.read()
        for module in IMPORT.findall(text):
            if module.split(".")[0] == "torch" and "/interop/" not in path:
                errors.append(f"{path}: imports torch outside interop/")
        if "os.environ" in text and not path.endswith("knobs.py"):
            errors.append(f"{path}: reads os.environ outside knobs.py")
    return errors


if __name__ == "__main__":
    found = check_cpp() + check_python()
    print("\n".join(found) or "layering: ok")
    sys.exit(bool(found))
