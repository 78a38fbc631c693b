# `python -m stoker watch` does not change a program's output, exit status and errors, and writes the files asked for.
# Whether it names a planted bottleneck is tested where nothing else runs: tests/ground_truth/watched.py.
import json
import os
import re
import subprocess
import sys

import pytest
from conftest import PROGRAM, PYTHON_PACKAGE, ROOT
from fork_server import run_python

TRAIN = """
import sys
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
torch.set_num_threads(1)
data = TensorDataset(torch.randn(640, 16), torch.arange(640) % 4)
loader = DataLoader(data, batch_size=16, shuffle=True, num_workers={workers}{context})
model = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 4))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
if __name__ == "__main__":
    for epoch in range({epochs}):
        for x, y in loader:
            loss = nn.functional.cross_entropy(model(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    print(loss.item(), torch.rand(1).item(), sys.argv, __name__, __file__)
"""


# PyTorch's optimizers load torch._dynamo, which takes as long as all the rest of such a program.
WITHOUT_DYNAMO = """import torch, sys, types
of = sys.modules["torch._dynamo"] = torch._dynamo = types.ModuleType("torch._dynamo")
of.graph_break, of.disable = lambda *words: None, lambda function, *words, **named: function
"""


def train(workers=0, context="", epochs=2, dynamo=False):
    """A program that trains; with `dynamo` it may compile, profile and form groups."""
    return ("" if dynamo else WITHOUT_DYNAMO) + TRAIN.format(workers=workers, context=context, epochs=epochs)


ENVIRONMENT = {**os.environ, "PYTHONPATH": str(PYTHON_PACKAGE), "STOKER_BIN": str(PROGRAM)}


def keys_of(value):
    """All keys of parsed JSON, at any depth."""
    below = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return {*(value if isinstance(value, dict) else ()), *(key for each in below for key in keys_of(each))}


READ = set(re.findall(r'"(\w+)"', "".join(file.read_text() for file in (ROOT / "src/stoker/records").glob("*.[ch]*"))))


class Runs:
    """Runs Python programs in one folder; `whole`: in a new interpreter, which takes seconds to load torch."""

    def __init__(self, folder, whole=False):
        self.folder = folder
        self.whole = whole

    def python(self, *words, prefix=(sys.executable,), env=ENVIRONMENT):
        how = {"cwd": self.folder, "timeout": 120, "env": env}
        if not self.whole and prefix == (sys.executable,) and words[0] != "-S":
            return run_python([*map(str, words)], **how)
        return subprocess.run([*map(str, prefix), *map(str, words)], capture_output=True, text=True, **how)

    def watch(self, *words):
        return self.python("-m", "stoker", "watch", *words)

    def script(self, text, name="train.py"):
        (self.folder / name).write_text(text)
        return name

    def records(self, folder, kind):
        lines = (self.folder / folder / "metrics.jsonl").read_text().splitlines()
        found = [record for record in map(json.loads, lines) if record["type"] == kind]
        assert keys_of(found) <= READ, "keys that records_json.cpp does not know"
        return found


@pytest.fixture
def runs(tmp_path):
    return Runs(tmp_path)


@pytest.fixture(scope="module")
def ended(tmp_path_factory):
    """A program that ends with status 3: its folder, the plain run, and a watched one that writes all it can."""
    runs = Runs(tmp_path_factory.mktemp("ended"), whole=True)
    script = runs.script(train() + "sys.exit(3)")
    options = ("--report", "page.html", "--json", "verdict.json", "--keep", "kept")
    return runs, runs.python(script), runs.watch(*options, script)


# Each worker that is spawned imports torch, and would import what an optimizer needs.
SPAWNED = pytest.param(", multiprocessing_context='spawn'", 1, marks=pytest.mark.slow)


@pytest.mark.parametrize("context, epochs", [("", 2), SPAWNED], ids=["fork", "spawn"])
def test_output_and_results_are_the_same(runs, context, epochs):
    body = train(2, context, epochs).replace("optimizer = ", 'if __name__ == "__main__":\n    optimizer = ')
    script = runs.script(body)
    plain, watched = runs.python(script, "--lr", "1"), runs.watch("--keep", "kept", script, "--lr", "1")
    assert plain.returncode == watched.returncode == 0, watched.stderr
    assert plain.stdout == watched.stdout
    assert "where the training thread spent" in watched.stderr
    assert len(runs.records("kept", "step")) == 40 * epochs
    workers = [record["workers_us"] for record in runs.records("kept", "interval") if "workers_us" in record]
    assert sum(of["samples"] for of in workers) >= 320 * epochs
    assert sum(of["augment"] for of in workers) > 0 and sum(of["cpu"] for of in workers) > 0
    assert sorted(os.listdir(runs.folder / "kept")) == ["metrics.jsonl"]


def is_the_programs(plain, watched, status):
    assert plain.returncode == watched.returncode == status
    assert plain.stdout == watched.stdout
    assert watched.stderr.startswith(plain.stderr)
    assert "where the training thread spent" in watched.stderr


def test_the_exit_status_is_the_programs(ended):
    _, plain, watched = ended
    is_the_programs(plain, watched, 3)


def test_errors_are_the_programs(runs):
    script = runs.script(train() + "model(data[:2])")
    is_the_programs(runs.python(script), runs.watch(script), 1)


STATUSES = [
    ("sys.exit(-2)", 254),
    ("sys.exit('no')", 1),
    ("sys.stderr.close()", 0),
    ("sys.stderr = None\nraise ValueError('no')", 1),
    ("sys.stderr = None\nsys.exit('no')", 1),
    ("sys.stdout.close()\nraise ValueError('no')", 1),
]


@pytest.mark.parametrize("end, status", STATUSES)
def test_a_number_is_no_signal_and_a_program_may_give_up_its_outputs(runs, end, status):
    script = runs.script(f"import sys\nprint('yes')\n{end}\n")
    plain, watched = runs.python(script), runs.watch(script)
    assert (plain.returncode, plain.stdout) == (watched.returncode, watched.stdout) == (status, "yes\n")
    assert watched.stderr.startswith(plain.stderr) and (plain.stderr or end == "sys.exit(-2)" or not watched.stderr)


def test_what_cannot_be_run_ends_as_python_ends_it(runs):
    runs.whole = True  # an interpreter says so before any program runs
    broken = runs.script("print(1\n")
    plain, watched = runs.python(broken), runs.watch(broken)
    assert watched.returncode == plain.returncode == 1 and watched.stderr == plain.stderr
    words = ("-m", "no_such_module")
    assert runs.watch(*words).returncode == runs.python(*words).returncode


def test_without_pytorch_it_is_one_line(runs):
    done = runs.python("-S", "-m", "stoker", "watch", runs.script("print('no')"))
    assert done.returncode == 2 and done.stdout == ""
    assert len(done.stderr.splitlines()) == 1 and "expected PyTorch" in done.stderr


def test_ctrl_c_ends_it_as_it_ends_the_program(runs):
    end = "import atexit, os, signal; atexit.register(print, 'bye'); os.kill(os.getpid(), signal.SIGINT)"
    script = runs.script(train() + end)
    plain, watched = runs.python(script), runs.watch(script)
    is_the_programs(plain, watched, -2)
    assert plain.stdout.endswith("bye\n")


def test_forked_children_leave_the_records_alone(runs):
    child = "import os\nif os.fork() == 0:\n    optimizer.step(); os._exit(0)\nos.wait()\n"
    done = runs.watch("--keep", "kept", runs.script(train() + child))
    assert done.returncode == 0, done.stderr
    assert len(runs.records("kept", "step")) == 80


def test_modules_run_with_m(runs):
    (runs.folder / "package").mkdir()
    runs.script(train(), "package/__main__.py")
    runs.script(train(), "package/__init__.py")
    plain, watched = runs.python("-m", "package", "a"), runs.watch("-m", "package", "a")
    assert plain.stdout == watched.stdout and plain.returncode == watched.returncode == 0, watched.stderr


def test_report_document_and_kept_records_say_the_same(ended):
    runs, _, done = ended
    document = json.loads((runs.folder / "verdict.json").read_text())
    again = runs.python("diagnose", "kept", "--json", prefix=[PROGRAM])
    assert json.loads(again.stdout) == document
    assert document["problems"] == []
    assert all(finding["fix"]["recipe"] is None for finding in document["findings"])
    assert "<html" in (runs.folder / "page.html").read_text()
    names = ("kept", "page.html", "verdict.json")
    assert done.stderr.endswith(f"stoker watch: wrote {', '.join(str(runs.folder / name) for name in names)}\n")


@pytest.mark.parametrize("command", ["watch", pytest.param("bottleneck", marks=pytest.mark.slow)])
def test_files_that_cannot_be_written_cost_a_line_each_and_not_the_verdict(runs, command):
    (runs.folder / "file").write_text("")
    script = runs.script(train(dynamo=command == "bottleneck"))
    done = runs.python("-m", "stoker", command, "--json", "file/verdict.json", "-o", "file/page.html", script)
    assert done.returncode == 0 and done.stdout
    assert "where the training thread spent" in done.stderr and "no verdict" not in done.stderr
    lines = [line for line in done.stderr.splitlines() if "was not written" in line]
    assert len(lines) == 2 and "file/page.html" in lines[0] and "file/verdict.json" in lines[1], done.stderr
    assert all(line.startswith(f"stoker {command}: ") for line in lines)
    assert "wrote" not in done.stderr


def test_phases_sum_to_the_steps_and_facts_are_the_programs(ended):
    runs, _, _ = ended
    facts = runs.records("kept", "facts")[-1]
    assert facts["writer"] == "torch"
    assert "." in facts["software"]["torch"] and facts["host"]["processor"] != ""
    assert facts["data"]["workers"] == 0 and facts["data"]["samples"] == 640
    assert facts["train"]["batch_size"] == 16 and facts["train"]["steps_per_epoch"] == 40
    assert facts["train"]["parameters"] == 16 * 32 + 32 + 32 * 4 + 4
    assert facts["train"]["optimizer_kernel"] == "single" and facts["train"]["precision"] == "fp32"
    assert facts["train"]["matmul_flops"] == 6 * 16 * (16 * 32 + 32 * 4)
    steps = runs.records("kept", "step")
    assert [step["epoch"] for step in steps] == [1] * 40 + [2] * 40
    for step in steps[10:]:
        assert {"wait", "forward", "backward", "optimizer"} <= set(step["us"]), step


def test_a_part_of_a_program_is_watched(runs):
    body = train().replace("    for epoch in", "  with stoker.watching(keep='kept'):\n    for epoch in")
    body = body.replace("\n    print", "\n  print")
    done = runs.python(runs.script("import stoker\n" + body))
    assert done.returncode == 0, done.stderr
    assert len(runs.records("kept", "step")) == 80
    assert "where the training thread spent" in done.stderr


RANKS = """
import os, time
import torch
import torch.distributed as dist
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
torch.set_num_threads(1)
dist.init_process_group("gloo")
class Slow(TensorDataset):
    def __getitem__(self, index):
        time.sleep(0.02 * (dist.get_rank() == 1) / 8)
        return super().__getitem__(index)
loader = DataLoader(Slow(torch.randn(400, 16), torch.arange(400) % 4), batch_size=8)
model = nn.parallel.DistributedDataParallel(nn.Linear(16, 4))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for x, y in loader:
    optimizer.zero_grad()
    nn.functional.cross_entropy(model(x), y).backward()
    optimizer.step()
dist.destroy_process_group()
"""


@pytest.mark.slow
def test_torchrun_gives_one_verdict_that_names_the_straggler(runs):
    script = runs.script(RANKS)
    launch = ("-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", "-m", "stoker", "watch")
    done = runs.python(*launch, "--json", "verdict.json", "--keep", "kept", script)
    assert done.returncode == 0, done.stderr
    document = json.loads((runs.folder / "verdict.json").read_text())
    assert [rank["steps"] for rank in document["ranks"]] == [50, 50]
    straggler = {finding["rule"]: finding for finding in document["findings"]}["straggler"]
    assert straggler["evidence"]["rank"] == 1 and '"wait"' in straggler["text"]
    assert done.stderr.count("stoker watch ") == 1


def test_files_beyond_the_limit_of_their_size_change_no_status(runs):
    script = runs.script(train() + "sys.exit(3)")
    limited = ("prlimit", "--fsize=20000", sys.executable)
    done = runs.python("-m", "stoker", "watch", "-o", "page.html", "--keep", "kept", script, prefix=limited)
    assert done.returncode == 3 and "where the training thread spent" in done.stderr, done.stderr
    reason = next(line for line in done.stderr.splitlines() if "page.html was not written" in line)
    assert "the limit on file sizes" in reason, reason


def test_a_missing_script_is_one_line(runs):
    done = runs.watch("missing.py")
    assert done.returncode == 2 and done.stdout == ""
    assert len(done.stderr.splitlines()) == 1 and "missing.py" in done.stderr


def test_a_missing_program_is_said_before_the_training(runs):
    found = {**ENVIRONMENT, "STOKER_BIN": "/nowhere", "PATH": "/usr/bin:/bin"}
    command = ("-m", "stoker", "watch")
    done = runs.python(*command, runs.script("import torch\nprint('yes')\n"), env=found)
    assert done.returncode == 0 and done.stdout == "yes\n"
    (line,) = done.stderr.splitlines()
    assert "nothing is watched" in line and "/nowhere" in line
    kept = runs.python(*command, "--keep", "kept", runs.script(train()), env=found)
    assert "no verdict" in kept.stderr and runs.records("kept", "step"), "records can be judged elsewhere"
