"""cProfile and torch.profiler in some steps of a watched program. The rules read the other steps.

From step 15 on a quarter of the steps runs under cProfile: 15 to 17, 30 to 35, 60 to 71, and so on. Four steps run
under torch.profiler. Steps decide and not the time, so that all ranks of a job are slowed in the same ones.
"""

from __future__ import annotations

import cProfile
import os
import sys
import warnings
from pathlib import Path
from typing import Any

import torch
from torch.profiler import ProfilerAction, ProfilerActivity, profile

from stoker.watch.patches import Patches
from stoker.watch.places import place_name

TRACE = "trace.json"
FUNCTIONS = "profile.pstats"

_FIRST = 15  # after the counted steps of lines.py and session.py
_OPERATOR_STEPS = 4
_OPERATOR_STARTS = range(21, 27)  # steps in which torch.profiler may begin
_MOST_FUNCTIONS = 100  # in the records
_OWN_FILES = os.path.dirname(__file__) + os.sep


def under_cprofile(step: int) -> bool:
    """Whether a step, from 1, is in [15, 18), [30, 36), [60, 72), ..."""
    first = _FIRST
    while 2 * first <= step:
        first *= 2
    return first <= step < first * 6 // 5


class Profiles:
    """The profilers of the training thread. Call `step_done` after each step, and `stop` at the end.

    folder: for trace.json and profile.pstats; None: this rank's are not wanted.
    """

    def __init__(self, folder: Path | None) -> None:
        self._folder = folder
        self.problems: list[str] = []
        self._functions = cProfile.Profile()
        self._functions_run = False
        self._functions_done = False
        self.function_steps = 0
        self._operators: profile | None = None
        self._operators_done = False
        self._operator_steps = 0  # that torch.profiler has seen whole
        self._starts = False  # torch.profiler is made by us
        self._patches = Patches()
        if folder is not None:
            for name in (TRACE, FUNCTIONS):
                (folder / name).unlink(missing_ok=True)

    def install(self) -> None:
        """If the program profiles itself, ours make room for it."""
        make, enable = torch.autograd.profiler.profile.__init__, cProfile.Profile.enable

        def make_first(made: Any, *args: Any, **options: Any) -> None:
            if not self._starts:
                self._end_operators()
                self._give_up_operators("the program runs torch.profiler itself")
            make(made, *args, **options)

        def enable_first(profiler: cProfile.Profile, *args: Any, **options: Any) -> None:
            if profiler is not self._functions:
                self._end_functions()
                self._give_up_functions()
            enable(profiler, *args, **options)

        self._patches.replace(torch.autograd.profiler.profile, "__init__", make_first)
        self._patches.replace(cProfile.Profile, "enable", enable_first)

    def remove(self) -> None:
        self._patches.undo()

    @property
    def running(self) -> bool:
        return self._functions_run or self._operators is not None

    def wanted(self, step: int) -> bool:
        """Whether `step` is to run under one of the profilers."""
        functions = under_cprofile(step) and not self._functions_done
        return functions or self._operators_begin(step) or self._operators is not None

    def _operators_begin(self, step: int) -> bool:
        return step in _OPERATOR_STARTS and self._operators is None and not self._operators_done

    def step_done(self, step: int, device: torch.device | None) -> None:
        """After each step: ends what has seen enough, and starts what the next step is to run under."""
        if self._functions_run:
            self.function_steps += 1
            if not under_cprofile(step + 1):
                self._end_functions()
        elif under_cprofile(step + 1) and not self._functions_done:
            self._begin_functions()
        if self._operators is not None:
            self._operator_steps += 1
            if self._operator_steps < _OPERATOR_STEPS:
                self._operators.step()
            else:
                self._end_operators()
        elif self._operators_begin(step + 1):
            self._begin_operators(device)

    def stop(self) -> None:
        """Ends both at once: before a fork, whose child would go on profiling, and at the end of the program."""
        self._end_functions()
        self._end_operators()

    def _begin_functions(self) -> None:
        if sys.getprofile() is not None:
            self._give_up_functions()
            return
        try:
            self._functions.enable()
        except ValueError:  # Python 3.12 and later: another profiler runs
            self._give_up_functions()
        else:
            self._functions_run = True

    def _end_functions(self) -> None:
        if not self._functions_run:
            return
        self._functions_run = False
        running: Any = sys.getprofile()
        if running is None or running is self._functions:  # None: Python 3.12 and later
            self._functions.disable()
        else:  # it has replaced ours
            self._give_up_functions()

    def _begin_operators(self, device: torch.device | None) -> None:
        activities = [ProfilerActivity.CPU]
        if device is not None and device.type == "cuda":
            activities.append(ProfilerActivity.CUDA)
        self._starts = True
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # about cycles; there is one
                always = ProfilerAction.RECORD  # a schedule is what marks the steps
                started = profile(activities=activities, record_shapes=True, schedule=lambda step: always)
                started.start()
            self._operators = started
        except RuntimeError as error:
            self._give_up_operators(str(error).splitlines()[0])
        finally:
            self._starts = False

    def _end_operators(self) -> None:
        if self._operators is None:
            return
        operators, self._operators = self._operators, None
        self._operators_done = self._operator_steps > 0
        try:
            operators.stop()
            if self._folder is not None and self._operators_done:
                operators.export_chrome_trace(str(self._folder / TRACE))
        except (OSError, RuntimeError) as error:
            self._give_up_operators(str(error).splitlines()[0])

    def _give_up_operators(self, reason: str) -> None:
        self._operators_done = True
        self._note(f"operators: {reason}")

    def _give_up_functions(self) -> None:
        self._functions_done = True
        self._note("functions: the program runs a profiler of its own")

    def _note(self, problem: str) -> None:
        if problem not in self.problems:
            self.problems.append(problem)

    def missing(self) -> list[str]:
        """Why a profile is missing or incomplete, a sentence each."""
        missing = list(self.problems)
        if self.function_steps == 0 and not missing:
            missing.append(f"no profile was taken: the program made fewer than {_FIRST} steps")
        elif self.trace is None and not any(problem.startswith("operators") for problem in missing):
            start = _OPERATOR_STARTS.start
            missing.append(
                f"operators, and trace.json: they are recorded from step {start} on, and the program made fewer than "
                f"{start + 4} steps, or started processes in each; watch more epochs"
            )
        return missing

    @property
    def trace(self) -> Path | None:
        path = None if self._folder is None else self._folder / TRACE
        return path if path is not None and path.exists() else None

    def record(self) -> dict[str, Any] | None:
        """`functions` of docs/records.md; None where no step ran under cProfile. Also writes the file for pstats."""
        if self.function_steps == 0:
            return None
        if self._folder is not None:
            try:
                self._functions.dump_stats(self._folder / FUNCTIONS)
            except OSError as error:
                self._note(f"functions: {error}")
        entries = [entry for entry in self._functions.getstats() if not _is_ours(entry.code)]
        entries.sort(key=lambda entry: -entry.inlinetime)
        return {"steps": self.function_steps, "functions": [_function(entry) for entry in entries[:_MOST_FUNCTIONS]]}


def _is_ours(code: Any) -> bool:
    return not isinstance(code, str) and code.co_filename.startswith(_OWN_FILES)


def _function(entry: Any) -> dict[str, Any]:
    """The record of an entry of cProfile, whose `code` is a text for functions that are built in."""
    code = entry.code
    times = {"count": entry.callcount, "self_us": 1e6 * entry.inlinetime, "total_us": 1e6 * entry.totaltime}
    if isinstance(code, str):
        return {"name": code.strip("<>"), **times}
    name = getattr(code, "co_qualname", code.co_name)  # Python 3.11 and later have the qualified one
    return {"name": name, "place": place_name((code.co_filename, code.co_firstlineno)), **times}
