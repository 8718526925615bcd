#!/usr/bin/env python3
# SPDX-FileCopyrightText: The Tilery authors
# SPDX-License-Identifier: Apache-2.0
"""Draws a plot of `tilery bench` as PNG, twice as large as the SVG says: svg_to_png.py plot.svg plot.png

Needs the Python package resvg_py and a font of the system. `tilery bench plot -o plot.png` runs it.
"""

import sys
from pathlib import Path

FOLDERS = [Path("/usr/share/fonts"), Path("/usr/local/share/fonts"), Path.home() / ".local/share/fonts",
           Path.home() / ".fonts"]
# File names of sans-serif fonts that systems have, and what they are called.
FONTS = {"DejaVuSans.ttf": "DejaVu Sans", "LiberationSans-Regular.ttf": "Liberation Sans",
         "NotoSans-Regular.ttf": "Noto Sans", "Arial.ttf": "Arial", "FreeSans.ttf": "FreeSans",
         "Roboto-Regular.ttf": "Roboto", "OpenSans-Regular.ttf": "Open Sans"}


def font() -> tuple[str, str]:
    """The file of the first of these fonts that is there, and its name."""
    files = {path.name: path for folder in FOLDERS if folder.is_dir() for path in folder.rglob("*.ttf")}
    for file, name in FONTS.items():
        if file in files:
            return str(files[file]), name
    sys.exit(f"svg_to_png: no font for the labels is installed; looked for {', '.join(FONTS)}\n"
             "hint: install the system's package fonts-dejavu-core, or write an .svg file")


def main() -> None:
    try:
        import resvg_py
    except ImportError:
        sys.exit(f"svg_to_png: PNG needs the package resvg_py of {sys.executable}\n"
                 "hint: pip install resvg_py, or name another Python by --python, or write an .svg file")
    source, target = sys.argv[1:]
    file, name = font()
    drawn = resvg_py.svg_to_bytes(svg_path=source, zoom=2, font_files=[file], skip_system_fonts=True,
                                  font_family=name, sans_serif_family=name)
    try:
        Path(target).write_bytes(bytes(drawn))
    except OSError as error:
        sys.exit(f"svg_to_png: cannot write '{target}': {error.strerror}")


if __name__ == "__main__":
    main()
