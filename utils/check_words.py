#!/usr/bin/env python3
# SPDX-FileCopyrightText: The Tilery authors
# SPDX-License-Identifier: Apache-2.0
"""Checks licence headers, and that operators do not name vendors."""

import re
import subprocess
import sys

VENDORS = re.compile(r"\b(nvidia|cuda|amd|hip|rocm|ascend|maca)\b", re.I)


def tracked(*patterns: str) -> list[str]:
    out = subprocess.run(["git", "ls-files", *patterns], capture_output=True, text=True, check=True)
    return [name for name in out.stdout.splitlines() if name]


def read(path: str) -> str:
    with open(path, encoding="utf-8") as file:
        return file.read()


def main() -> int:
    errors = []
    for path in tracked("*.cpp", "*.h", "*.hpp", "*.td", "*.py", "*.c"):
        if "/corpus/" in path:
            continue
        if "SPDX-License-Identifier: Apache-2.0" not in "\n".join(read(path).splitlines()[:4]):
            errors.append(f"{path}: no SPDX licence header")
    for path in tracked("ops/*"):
        if VENDORS.search(read(path)):
            errors.append(f"{path}: names a vendor; operators ask the target what it can do")
    print("\n".join(errors) or "words: ok")
    return bool(errors)


if __name__ == "__main__":
    sys.exit(main())
