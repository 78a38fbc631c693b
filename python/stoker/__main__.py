"""`python -m stoker COMMAND`: `watch` and `bottleneck` run here, every other command in the program `stoker`."""

from __future__ import annotations

import os
import sys


def main() -> int:
    words = sys.argv[1:]
    if words[:1] in (["watch"], ["bottleneck"]):
        from stoker.watch.command import main as watch

        return watch(words[0], words[1:])
    from stoker._certificates import find_certificates
    from stoker._program import find_program

    try:
        program = find_program()
    except FileNotFoundError as error:
        print(error, file=sys.stderr)
        return 1
    find_certificates()
    os.execv(program, [str(program), *words])


if __name__ == "__main__":
    sys.exit(main())
