#!/usr/bin/env python3
# SPDX-FileCopyrightText: The Tilery authors
# SPDX-License-Identifier: Apache-2.0
"""Checks file sizes: 500 lines a source file, 200 a header; exceptions carry a reason."""

import subprocess
import sys

LIMITS = {".cpp": 500, ".py": 500, ".td": 500, ".h": 200, ".hpp": 200}
EXCEPTIONS = {
    "include/tilery/tilery.h": "the whole C interface in one header, half of it documentation",
    "compiler/Frontend/Ast.h": "one node type after another",
    "compiler/Frontend/Generator.h": "one class over eight source files",
    "compiler/Target/Simt/Lowering.h": "one class over fourteen source files",
}


def main() -> int:
    files = subprocess.run(["git", "ls-files"], capture_output=True, text=True, check=True)
    errors = []
    for path in files.stdout.splitlines():
        suffix = path[path.rfind("."):]
        if suffix not in LIMITS or path in EXCEPTIONS:
            continue
        with open(path, encoding="utf-8") as file:
            lines = sum(1 for _ in file)
        if lines > LIMITS[suffix]:
            errors.append(f"{path}: {lines} lines, the limit is {LIMITS[suffix]}; split it")
    print("\n".join(errors) or "sizes: ok")
    return bool(errors)


if __name__ == "__main__":
    sys.exit(main())
