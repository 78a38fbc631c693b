"""python -m stoker watch [options] train.py [args]: runs a PyTorch program unchanged and says what slows it.

`bottleneck` in the place of `watch` also profiles some of its steps.
"""

from __future__ import annotations

import argparse
import builtins
import contextlib
import importlib.machinery
import importlib.util
import io
import itertools
import os
import sys
import types
from pathlib import Path
from typing import Any

from stoker.watch.begin import DelayedWatch
from stoker.watch.ranks import Rank
from stoker.watch.verdict import flush_output, say

_FOLDER = os.path.dirname(__file__) + os.sep  # of hooks
_EXAMPLE = """example:
  python -m stoker {name} train.py --epochs 3
  python -m stoker {name} -o report.html -m package.train
  torchrun --nproc-per-node 2 -m stoker {name} train.py

The verdict goes to stderr; stdout and the exit status are the program's own.
docs/watch.md explains it."""
_ALLOWED = ("numerics", "random")  # without torch, which fix.fixer loads
_DESCRIPTIONS = {
    "watch": "Runs a PyTorch program unchanged, and says after its end what slowed it and what mends it.",
    "bottleneck": "As watch, with cProfile and torch.profiler in some of the steps: the functions and operators that "
    "took the most time.",
}


def _json_path(text: str) -> Path:
    """A program's name where the file's is missing would be overwritten."""
    if not text.endswith(".json"):
        raise argparse.ArgumentTypeError(f"expected a file name that ends in .json, found {text}")
    return Path(text)


def _parser(name: str) -> argparse.ArgumentParser:
    kept = "records" if name == "watch" else "records, profile.pstats and trace.json"
    parser = argparse.ArgumentParser(
        prog=f"python -m stoker {name}",
        usage="%(prog)s [options] (SCRIPT | -m MODULE) [ARGS...]",
        description=_DESCRIPTIONS[name],
        epilog=_EXAMPLE.format(name=name),
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("-o", "--report", type=Path, metavar="FILE", help="also write an HTML page with charts")
    parser.add_argument("--json", type=_json_path, metavar="FILE", help="also write the document of stoker diagnose --json")
    parser.add_argument("--keep", type=Path, metavar="DIR", help=f"keep the {kept} here, for stoker diagnose DIR")
    if name == "watch":
        _add_fix(parser)
    parser.add_argument("-m", dest="module", action="store_true", help="SCRIPT is the name of a module")
    parser.add_argument("script", metavar="SCRIPT", help="the program to run")
    rest = parser.add_argument("arguments", nargs=argparse.REMAINDER, metavar="ARGS", help="its arguments")
    rest.required = False  # or before Python 3.12 the message for a missing SCRIPT also names ARGS
    return parser


def _add_fix(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--fix", action="store_true", help="try changes while the program runs, and keep those that pay")
    parser.add_argument(
        "--allow", action="append", default=[], choices=_ALLOWED, metavar="WORD",
        help="with --fix also changes that alter numbers: numerics (pixels and weights are rounded otherwise), "
        "random (random ops draw other numbers)",
    )  # fmt: skip
    parser.add_argument("--patch", type=Path, metavar="FILE", help="with --fix: write the patch of the script here")
    parser.add_argument("--write", action="store_true", help="with --fix: apply the patch at the end")


def _fix_of(options: argparse.Namespace) -> dict[str, Any] | None:
    """None without --fix. Raises ValueError for options that need it."""
    if not getattr(options, "fix", False):
        given = [name for name in ("allow", "patch", "write") if getattr(options, name, None)]
        if given:
            raise ValueError(f"--{given[0]}: expected --fix with it")
        return None
    patch = None if options.patch is None else options.patch.absolute()
    return {"allowed": frozenset(options.allow), "folder": Path.cwd(), "patch": patch, "write": options.write}


def _split(words: list[str]) -> tuple[list[str], list[str]]:
    """Our own words, up to the program's name, and its arguments, which argparse would change: it drops a `--`."""
    ours: list[str] = []
    rest = iter(words)
    for word in rest:
        attached = word.startswith("-m") and len(word) > 2  # -mpackage.train
        ours += ["-m", word[2:]] if attached else [word]
        if word in ("-o", "--report", "--json", "--keep", "--allow", "--patch"):
            ours += list(itertools.islice(rest, 1))
        elif word == "--":
            ours += list(itertools.islice(rest, 1))
            break
        elif attached or not word.startswith("-"):
            break
    return ours, list(rest)


def _search_first(folder: str) -> None:
    if not getattr(sys.flags, "safe_path", False):
        sys.path[0] = folder


def _load_script(path: str) -> tuple[types.CodeType, dict[str, Any]]:
    whole = os.path.abspath(path)
    with io.open_code(whole) as file:
        code = compile(file.read(), whole, "exec", dont_inherit=True)
    _search_first(os.path.dirname(os.path.realpath(whole)))
    loader = importlib.machinery.SourceFileLoader("__main__", whole)
    return code, {"__file__": whole, "__loader__": loader, "__cached__": None}


def _load_module(name: str) -> tuple[types.CodeType, dict[str, Any]]:
    _search_first(os.getcwd())
    spec = importlib.util.find_spec(name)
    if spec is not None and spec.submodule_search_locations is not None:
        name += ".__main__"
        spec = importlib.util.find_spec(name)
    code = getattr(spec.loader, "get_code", lambda name: None)(name) if spec is not None else None
    if spec is None or code is None:
        raise ImportError(f"no module named {name} that can be run")
    sys.argv[0] = spec.origin or name
    return code, {
        "__file__": spec.origin,
        "__loader__": spec.loader,
        "__spec__": spec,
        "__package__": name.rpartition(".")[0],
    }


def _execute(code: types.CodeType, names: dict[str, Any]) -> int | None:
    """Runs it as __main__ and returns what the process should exit with; None where Ctrl-C has ended it.

    Errors are printed as Python prints them.
    """
    program = types.ModuleType("__main__")
    program.__dict__.update(names)
    program.__dict__["__builtins__"] = builtins
    sys.modules["__main__"] = program  # stays: functions that run at exit need its names
    failure: BaseException | None = None
    try:
        exec(code, program.__dict__)
    except SystemExit as stop:
        return _status_of(stop)
    except BaseException as error:
        failure = error  # printed outside of this block: hooks' errors have no context, as in Python
    if failure is None:
        return 0
    status = _print_error(failure)
    return 1 if status is None and not isinstance(failure, KeyboardInterrupt) else status


def _status_of(stop: SystemExit) -> int:
    if stop.code is None or isinstance(stop.code, int):
        return stop.code or 0
    _print_reason(str(stop.code))
    return 1


def _print_reason(text: str) -> None:
    """Prints the reason of sys.exit(text), as Python does: also past a stderr that the program has taken away."""
    if sys.stderr is not None:
        say(text)
        return
    with contextlib.suppress(OSError):
        os.write(2, f"{text}\n".encode(errors="backslashreplace"))


def _print_error(error: BaseException) -> int | None:
    """As Python prints it: without the line above, and without the frames of hooks.

    Returns the exit status where the program's own sys.excepthook ends the process.
    """
    known: set[int] = set()
    _leave_out_hooks(error, known)
    flush_output()
    try:
        sys.excepthook(type(error), error, error.__traceback__)
    except SystemExit as stop:
        return _status_of(stop)
    except BaseException as broken:
        say("Error in sys.excepthook:")
        _leave_out_hooks(broken, known)
        sys.__excepthook__(type(broken), broken, broken.__traceback__)
        say("\nOriginal exception was:")
        sys.__excepthook__(type(error), error, error.__traceback__)
    return None


def _leave_out_hooks(error: BaseException | None, known: set[int]) -> None:
    """In the traceback of an error and in those of its causes."""
    while error is not None and id(error) not in known:
        known.add(id(error))
        entries = []
        entry = error.__traceback__
        while entry is not None:
            if not entry.tb_frame.f_code.co_filename.startswith(_FOLDER):
                entries.append(entry)
            entry = entry.tb_next
        trace: types.TracebackType | None = None
        for entry in reversed(entries):
            trace = types.TracebackType(trace, entry.tb_frame, entry.tb_lasti, entry.tb_lineno)
        error.__traceback__ = trace
        _leave_out_hooks(error.__cause__, known)
        error = error.__context__


def main(name: str, words: list[str]) -> int:
    """name: "watch" or "bottleneck". Returns the exit status of the program, or Python's where it cannot be run."""
    ours, arguments = _split(words)
    options = _parser(name).parse_args(ours)
    sys.argv = [options.script, *arguments]
    try:
        code, names = (_load_module if options.module else _load_script)(options.script)
    except SyntaxError as error:  # printed as Python prints it, with the line
        _print_error(error if options.module else error.with_traceback(None))
        return 1
    except (OSError, ImportError, ValueError) as error:
        say(f"stoker {name}: {options.script}: {error}")
        unreadable = isinstance(error, OSError) and not isinstance(error, IsADirectoryError)
        return 2 if unreadable and not options.module else 1  # as Python exits
    if importlib.util.find_spec("torch") is None:
        say(f"stoker {name}: expected PyTorch in {sys.executable}, found none: it watches PyTorch programs")
        return 2
    if options.report is not None and options.report.suffix not in (".html", ".htm"):
        say(f"stoker {name}: --report: expected a file name that ends in .html, found {options.report}")
        return 2
    try:
        fix = _fix_of(options)
    except ValueError as error:
        say(f"stoker {name}: {error}")
        return 2
    paths = (options.keep, options.report, options.json)
    whole = [None if path is None else path.absolute() for path in paths]  # the program may change its folder
    try:
        if whole[0] is not None:
            Rank.of_environment().named(whole[0]).mkdir(parents=True, exist_ok=True)
    except OSError as error:
        say(f"stoker {name}: {error}")
        return 2
    watch = DelayedWatch(name, whole, fix)
    watch.wait()
    status = _execute(code, names)
    watch.finish(status)
    if status is None:  # Python then ends as it does after Ctrl-C; the error has been printed
        sys.excepthook = lambda *error: None
        raise KeyboardInterrupt
    return status
