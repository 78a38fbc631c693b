# `python -m stoker watch` loads PyTorch when the program does, and begins then: the program's settings before it count.
import pytest

pytest.importorskip("stoker._stoker", reason="needs the extension module: STOKER_PYTHON=ON")
from test_watch import Runs, train


@pytest.fixture
def runs(tmp_path):
    return Runs(tmp_path, whole=True)


SETS = """
import importlib.util, os, sys
os.environ["OMP_NUM_THREADS"] = "1"
os.environ["TORCH_LOGS"] = "graph_breaks"
assert "torch" not in sys.modules and importlib.util.find_spec("torch") is not None
import torch
print(torch.get_num_threads(), torch._logging._internal.log_state.is_artifact_enabled("graph_breaks"))
print(len(sys.meta_path), sorted(vars(torch.__loader__)), torch.__loader__ is torch.__spec__.loader)
"""


@pytest.mark.slow
def test_what_a_program_sets_before_it_imports_torch_counts(runs):
    script = runs.script(SETS + train())
    plain, watched = runs.python(script), runs.watch("--keep", "kept", script)
    assert plain.stdout.startswith("1 True\n") and watched.stdout == plain.stdout, watched.stderr
    assert len(runs.records("kept", "step")) == 80


IN_A_THREAD = """
import threading
def load():
    import torch
thread = threading.Thread(target=load)
thread.start()
thread.join()
"""


@pytest.mark.slow
def test_another_thread_may_import_torch(runs):
    script = runs.script(IN_A_THREAD + train())
    plain, watched = runs.python(script), runs.watch("--keep", "kept", script)
    assert plain.returncode == 0 and watched.stdout == plain.stdout, watched.stderr
    assert len(runs.records("kept", "step")) == 80


FORKS = """
import os
child = os.fork()
import torch
if child:
    os.waitpid(child, 0)
"""


@pytest.mark.slow
def test_a_child_that_is_forked_before_imports_torch_unwatched(runs):
    script = runs.script(FORKS + train())
    plain, watched = runs.python(script), runs.watch("--keep", "kept", script)
    assert plain.returncode == 0 and watched.stdout == plain.stdout, watched.stderr
    assert len(runs.records("kept", "step")) == 80
    assert watched.stderr.count("where the training thread spent") == 1


@pytest.mark.parametrize("command", ["watch", "bottleneck"])
def test_a_program_without_torch_is_told_so_in_one_line(runs, command):
    script = runs.script("import sys\nprint(1)\nsys.exit(3)\n")
    done = runs.python("-m", "stoker", command, "--json", "verdict.json", script)
    assert (done.returncode, done.stdout) == (3, "1\n")
    assert done.stderr == f"stoker {command}: the program did not import torch, so nothing was watched\n"


def test_a_folder_that_cannot_be_made_is_told_before_the_program_runs(runs):
    (runs.folder / "file").write_text("")
    done = runs.watch("--keep", "file/kept", runs.script("print(1)\n"))
    assert (done.returncode, done.stdout) == (2, "")
    assert len(done.stderr.splitlines()) == 1 and "file/kept" in done.stderr


def test_a_watch_that_cannot_begin_costs_the_verdict_only(runs):
    (runs.folder / "kept/metrics.jsonl").mkdir(parents=True)
    watched = runs.watch("--keep", "kept", runs.script("import torch\nprint('yes')\n"))
    assert watched.returncode == 0 and watched.stdout == "yes\n"
    (line,) = watched.stderr.splitlines()
    assert line.startswith("stoker watch: nothing is watched: ") and "kept/metrics.jsonl" in line
