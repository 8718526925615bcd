#!/usr/bin/env python3
# SPDX-FileCopyrightText: The Tilery authors
# SPDX-License-Identifier: Apache-2.0
"""Writes docs/knobs.md from runtime/base/knobs.def; with --check says whether it is current."""

import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs/knobs.md"

KNOB = re.compile(r'^TILERY_KNOB\(\w+, (TILERY_\w+), (\w+), (.+), "(.*)"\)$', re.M)
TYPES = {"Text": "text", "Real": "number", "Integer": "integer", "Flag": "flag"}

HEAD = """# Knobs: the environment variables

<!-- Written by docs/generate_knobs.py from runtime/base/knobs.def; edit that file instead. -->

Set them before the process starts: the library reads them once, at first use. A value that does
not fit its type is a `ConfigError`; an unknown `TILERY_*` variable warns once and names the nearest
one. An option given in the program (`ty.init`, `ty.spawn`, a launch) wins over the variable.

Integers take the suffixes `k`, `M` and `G` (powers of 1024). Flags take `1`/`0`, `on`/`off`,
`true`/`false`.

| variable | type | default | meaning |
| --- | --- | --- | --- |
"""

TAIL = """
The variables of launchers (`RANK`, `WORLD_SIZE`, `MASTER_ADDR`, `OMPI_COMM_WORLD_RANK`, ...) are
listed in [worlds.md](worlds.md). What `ty.doctor()["knobs"]` returns is what is in force:

```python
import tilery as ty

knobs = ty.doctor(self_test=False)["knobs"]
assert knobs["TILERY_TIMEOUT_S"] > 0
assert "TILERY_JOB_TOKEN" not in knobs  # a secret, never shown
```
"""


def default(kind: str, text: str) -> str:
    """The default as users write it: "64G", "0", "native"."""
    shifted = re.fullmatch(r"int64_t\((\d+)\) << 30", text)
    if shifted:
        return f"`{shifted[1]}G`"
    if kind == "Flag":
        return "`1`" if text == "true" else "`0`"
    text = text.strip('"').removesuffix(".0")
    return f"`{text}`" if text else "empty"


def row(name: str, kind: str, value: str, sentence: str) -> str:
    return f"| `{name}` | {kind} | {value} | {sentence} |\n"


def page() -> str:
    text = (ROOT / "runtime/base/knobs.def").read_text()
    rows = [row(name, TYPES[kind], default(kind, value), sentence)
            for name, kind, value, sentence in KNOB.findall(text)]
    return HEAD + "".join(rows) + TAIL


def main() -> int:
    if "--check" in sys.argv:
        current = PAGE.exists() and PAGE.read_text() == page()
        print("docs/knobs.md is current" if current else
              "docs/knobs.md is out of date; run docs/generate_knobs.py")
        return 0 if current else 1
    PAGE.write_text(page())
    return 0


if __name__ == "__main__":
    sys.exit(main())
