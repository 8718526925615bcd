# SPDX-FileCopyrightText: The Tilery authors
# SPDX-License-Identifier: Apache-2.0
"""The `tilery` command of an installed package: hands over to the native program beside it."""

import os
import sys
from pathlib import Path


def main() -> None:
    """Replaces this process by `tilery/bin/tilery` with the same arguments."""
    program = Path(__file__).parent / "bin" / "tilery"
    if not program.exists():
        sys.exit(f"tilery: the command-line program is not at {program}; build it with `make`")
    os.execv(program, [str(program), *sys.argv[1:]])
