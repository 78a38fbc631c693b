"""The command `stoker` of the installed package: becomes the program that the wheel carries."""

import os
import sys
from pathlib import Path

from stoker._certificates import find_certificates


def main() -> None:
    program = Path(__file__).with_name("bin") / "stoker"
    if not program.is_file():
        sys.exit(f"stoker: expected the program at {program}, found none: `pip install` the package again")
    find_certificates()
    os.execv(program, [str(program), *sys.argv[1:]])
