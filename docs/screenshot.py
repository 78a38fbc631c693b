#!/usr/bin/env python3
"""Runs a command in a pseudo-terminal and draws what the terminal shows at the end as an SVG picture.

    python3 docs/screenshot.py docs/demo.svg -- build/release/bin/stoker train recipes/digits.toml --out /tmp/demo
"""

import argparse
import html
import os
import pty
import re
import shlex
from pathlib import Path

COLUMNS, ROWS = 100, 60
CELL_WIDTH, LINE_HEIGHT, FONT_SIZE, MARGIN = 8.4, 19, 14, 18


def record(command: list[str]) -> str:
    """Everything the command wrote to a terminal of COLUMNS columns."""
    output = bytearray()

    def read(descriptor: int) -> bytes:
        block = os.read(descriptor, 65536)
        output.extend(block)
        return block

    os.environ.update(COLUMNS=str(COLUMNS), LINES=str(ROWS), TERM="xterm-256color")
    status = os.waitstatus_to_exitcode(pty.spawn(command, read))
    if status != 0:
        raise SystemExit(f"[{command[0]}] expected exit status 0, got {status}")
    return output.decode()


def screen(output: str) -> list[str]:
    """The lines on the screen: carriage returns and "erase to the end of the line" are obeyed."""
    lines, column = [""], 0
    for part in re.findall(r"\x1b\[[0-9;]*[A-Za-z]|\r|\n|[^\x1b\r\n]+", output):
        if part == "\n":
            lines.append("")
            column = 0
        elif part == "\r":
            column = 0
        elif part == "\x1b[K":
            lines[-1] = lines[-1][:column]
        elif not part.startswith("\x1b"):
            line = lines[-1].ljust(column)
            lines[-1] = line[:column] + part + line[column + len(part):]
            column += len(part)
    while lines and not lines[-1].strip():
        lines.pop()
    return lines


def svg(command: str, lines: list[str]) -> str:
    """The lines as a picture of a terminal window; text stays text."""
    shown = [f"$ {command}", *lines]
    width = MARGIN * 2 + CELL_WIDTH * max(len(line) for line in shown)
    height = MARGIN * 2 + 22 + LINE_HEIGHT * len(shown)
    rows = []
    for number, line in enumerate(shown):
        y = MARGIN + 22 + LINE_HEIGHT * (number + 0.75)
        fill = "#8bd5ca" if number == 0 else "#cad3f5"
        rows.append(f'<text x="{MARGIN}" y="{y:.1f}" fill="{fill}" xml:space="preserve">{html.escape(line)}</text>')
    dots = "".join(f'<circle cx="{MARGIN + 4 + 18 * i}" cy="18" r="5.5" fill="{colour}"/>'
                   for i, colour in enumerate(("#ed8796", "#eed49f", "#a6da95")))
    return (f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0f}" height="{height:.0f}" '
            f'font-family="DejaVu Sans Mono, Menlo, Consolas, monospace" font-size="{FONT_SIZE}">\n'
            f'<rect width="100%" height="100%" rx="8" fill="#24273a"/>\n{dots}\n' + "\n".join(rows) + "\n</svg>\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("picture", type=Path)
    parser.add_argument("--title", help="the command line to show instead of the one that is run")
    parser.add_argument("command", nargs="+")
    options = parser.parse_args()
    lines = screen(record(options.command))
    options.picture.write_text(svg(options.title or shlex.join(options.command), lines))


if __name__ == "__main__":
    main()
