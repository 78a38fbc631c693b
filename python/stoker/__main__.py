"""`stoker COMMAND` of the installed package, and `python -m stoker COMMAND`: `watch` and `bottleneck` run here, every
other command in the program `stoker`."""

from __future__ import annotations

import os
import sys
from pathlib import Path

_OWN_COMMANDS = """
  watch                       run a PyTorch script as it is, and say what slows it and what mends it
  bottleneck                  as watch, and name the functions and operators that take the time"""


def main() -> int:
    words = sys.argv[1:]
    if words[:1] in (["watch"], ["bottleneck"]):
        from stoker.watch.command import main as watch

        return watch(words[0], words[1:])
    from stoker._certificates import find_certificates
    from stoker._program import find_program, name_pyarrow, name_torch, needs_engine

    try:
        program = find_program(engine=needs_engine(words))
    except FileNotFoundError as error:
        print(error, file=sys.stderr)
        return 1
    name_torch(program)
    name_pyarrow()
    if words in (["--help"], ["-h"]):
        return _help(program)
    find_certificates()
    os.execv(program, [str(program), *words])


def _help(program: Path) -> int:
    """The program's own help, with the commands that run here at the end of its list."""
    import subprocess

    done = subprocess.run([program, "--help"], stdout=subprocess.PIPE, text=True, encoding="utf-8")
    commands, gap, rest = done.stdout.partition("\n\nExit status")
    print(commands + _OWN_COMMANDS + gap + rest, end="")
    return done.returncode


if __name__ == "__main__":
    sys.exit(main())
