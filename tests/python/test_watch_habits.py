# What programs do that a watch has to live with: options that argparse would change, hooks that exit, locales, folders
# that come late, errors in the end, and watches of some ranks or several in a row.
import json
import os
import subprocess
import sys

import pytest

pytest.importorskip("stoker._stoker", reason="needs the extension module: STOKER_PYTHON=ON")
from conftest import PROGRAM, PYTHON_PACKAGE
from stoker.watch.command import _split
from stoker.watch.ranks import Rank
from stoker.watch.run import Watch
from test_watch import WITHOUT_DYNAMO, Runs

STEPS = WITHOUT_DYNAMO + """
from torch import nn
torch.set_num_threads(1)

def steps(count=40):
    model = nn.Linear(16, 4)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(count):
        optimizer.zero_grad()
        model(torch.randn(8, 16)).sum().backward()
        optimizer.step()
"""


@pytest.fixture
def runs(tmp_path):
    return Runs(tmp_path)


@pytest.mark.parametrize(
    ("words", "ours", "arguments"),
    [
        (["train.py", "--", "--lr"], ["train.py"], ["--", "--lr"]),
        (["-m", "pkg", "--", "x"], ["-m", "pkg"], ["--", "x"]),
        (["-mpkg.train", "-m", "x"], ["-m", "pkg.train"], ["-m", "x"]),
        (["-o", "r.html", "--json=v.json", "train.py", "-o", "x"], ["-o", "r.html", "--json=v.json", "train.py"], ["-o", "x"]),
        (["--keep", "train.py", "a.py"], ["--keep", "train.py", "a.py"], []),
        (["--", "train.py", "-m"], ["--", "train.py"], ["-m"]),
        (["-o"], ["-o"], []),
    ],
)
def test_the_programs_arguments_are_its_own(words, ours, arguments):
    assert _split(words) == (ours, arguments)


def test_two_hyphens_reach_the_program(runs):
    script = runs.script("import sys\nprint(sys.argv[1:])")
    assert runs.watch(script, "--", "--lr").stdout == runs.python(script, "--", "--lr").stdout == "['--', '--lr']\n"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("hook", "status"), [("sys.exit(3)", 3), ("sys.exit('bad')", 1), ("sys.exit()", 0), ("1 / 0", 1)]
)
def test_an_exception_hook_that_ends_the_program(tmp_path, hook, status):
    runs = Runs(tmp_path, whole=True)  # a traceback of a fork has the fork's own lines
    script = runs.script(
        STEPS + f"import sys\ndef hook(*error):\n    print('logged', file=sys.stderr)\n    {hook}\n"
        "sys.excepthook = hook\nsteps()\nraise ValueError('lost')\n"
    )
    plain, watched = runs.python(script), runs.watch(script)
    assert (watched.returncode, plain.returncode) == (status, status)
    assert watched.stdout == plain.stdout
    said = plain.stderr.splitlines()
    assert watched.stderr.splitlines()[: len(said)] == said
    assert "stoker watch ─" in watched.stderr, "the verdict comes all the same"


def test_a_locale_of_the_program_and_folders_that_are_made_at_the_end(runs):
    body = "import locale, os\nlocale.setlocale(locale.LC_ALL, 'C')\nassert not os.path.exists('out')\nsteps()\n"
    done = runs.watch("-o", "out/report.html", "--json", "out/deep/verdict.json", runs.script(STEPS + body))
    assert done.returncode == 0 and "not written" not in done.stderr
    assert "no verdict" not in done.stderr and "█" in done.stderr
    assert (runs.folder / "out/report.html").exists() and (runs.folder / "out/deep/verdict.json").exists()


def test_a_block_that_changes_its_folder_writes_where_it_began(runs):
    (runs.folder / "elsewhere").mkdir()
    done = runs.python(
        runs.script(
            STEPS + "import os, stoker\nwith stoker.watching(report='r.html', json='v.json', keep='kept'):\n"
            "    os.chdir('elsewhere')\n    steps()\n"
        )
    )
    assert done.returncode == 0, done.stderr
    assert {"r.html", "v.json", "kept"} <= set(os.listdir(runs.folder))
    assert os.listdir(runs.folder / "elsewhere") == []


def test_a_relative_program_is_found_from_another_folder(runs):
    body = (
        "import os, stoker\nos.environ['STOKER_BIN'] = os.path.relpath(os.environ['STOKER_BIN'])\n"
        "with stoker.watching():\n    steps()\n    os.chdir('/')\n"
    )
    done = runs.python(runs.script(STEPS + body))
    assert "no verdict" not in done.stderr and "stoker watch ─" in done.stderr


def test_a_block_without_the_program_runs_unwatched(runs):
    body = "import stoker, os\nos.environ.update(STOKER_BIN='/nowhere', PATH='')\nwith stoker.watching():\n    steps()\n"
    done = runs.python(runs.script(STEPS + body + "print('done')\n"))
    assert (done.returncode, done.stdout) == (0, "done\n")
    (line,) = done.stderr.splitlines()
    assert line.startswith("stoker watch: nothing is watched: ") and "/nowhere" in line


# As after an assert on a GPU: every later call there fails as well.
def test_what_cannot_be_measured_in_the_end_costs_no_verdict(runs):
    script = runs.script(
        STEPS + "import stoker, stoker.watch.session as session\n"
        "def fail(*given):\n    raise RuntimeError('CUDA error')\n"
        "session.measure_products = fail\nwith stoker.watching(keep='kept'):\n    steps()\n"
    )
    done = runs.python(script)
    assert "no verdict" not in done.stderr and "stoker watch ─" in done.stderr
    assert len(runs.records("kept", "step")) == 40


TRAINER = """
import torch
from stoker.watch.transformers import StokerWatch
from torch import nn
from transformers import Trainer, TrainingArguments

class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer, self.calls = nn.Linear(16, 4), 0

    def forward(self, x, labels):
        self.calls += 1
        if self.calls == 30:
            raise ValueError("no more memory")
        return {"loss": nn.functional.cross_entropy(self.layer(x), labels)}

data = [{"x": torch.randn(16), "labels": i % 4} for i in range(400)]
arguments = TrainingArguments("out", report_to=[], use_cpu=True, per_device_train_batch_size=8, disable_tqdm=True)
Trainer(Model(), arguments, train_dataset=data, callbacks=[StokerWatch(json="verdict.json")]).train()
"""


def test_the_trainers_error_does_not_cost_the_verdict(runs):
    pytest.importorskip("transformers")
    pytest.importorskip("accelerate")
    done = runs.python(runs.script(TRAINER))
    assert done.returncode == 1 and "no more memory" in done.stderr
    assert done.stderr.count("stoker watch ─") == 1
    assert json.loads((runs.folder / "verdict.json").read_text())["ranks"][0]["steps"] == 29


def ranks(runs, body, count=2):
    """Runs the program as that many ranks of one job. Returns each one's stderr."""
    script = runs.script(STEPS + "import os, stoker, time\nrank = int(os.environ['RANK'])\n" + body)
    environment = {**os.environ, "PYTHONPATH": str(PYTHON_PACKAGE), "STOKER_BIN": str(PROGRAM)}
    environment |= {"WORLD_SIZE": str(count), "LOCAL_WORLD_SIZE": str(count), "MASTER_PORT": str(os.getpid())}
    started = [
        subprocess.Popen(
            [sys.executable, script],
            cwd=runs.folder,
            stderr=subprocess.PIPE,
            text=True,
            env={**environment, "RANK": str(rank), "LOCAL_RANK": str(rank)},
        )
        for rank in range(count)
    ]
    said = [process.communicate(timeout=110)[1] for process in started]
    assert [process.returncode for process in started] == [0] * count, said
    return said


@pytest.mark.slow
def test_watches_in_a_row_do_not_touch_each_others_records(runs):
    body = (
        "for i, keep in enumerate([None, None, 'kept2', 'kept3']):\n"
        "    with stoker.watching(json=f'v{i}.json', keep=keep):\n        steps()\n"
        "        time.sleep(0 if rank else 1)\n"  # the other rank is in its next watch then
    )
    said = ranks(runs, body)
    assert "rank 1 has" not in said[0] and "was not" not in said[0] and said[1] == ""
    for i in range(4):
        found = json.loads((runs.folder / f"v{i}.json").read_text())["ranks"]
        assert [(rank["rank"], rank["steps"]) for rank in found] == [(0, 40), (1, 40)]


def test_a_watch_of_one_rank_alone_does_not_wait_for_the_others(runs):
    body = (
        "import stoker.watch.ranks as of_ranks\nfrom stoker.watch import session\nof_ranks._PATIENCE = 80\n"
        "if rank == 0:\n    with stoker.watching():\n        steps(40)\n"
        "        session._current.folder._began -= 80\n"  # it began long ago
        "        begin = time.monotonic()\n    assert time.monotonic() - begin < 60\n"
    )
    said = ranks(runs, body)
    assert "rank 1 was not watched" in said[0] and "not ended" not in said[0]


@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        ({"RANK": "5", "WORLD_SIZE": "8", "SLURM_PROCID": "5", "SLURM_NTASKS": "8", "SLURM_LOCALID": "1"}, (5, 8, 1)),
        ({"RANK": "5", "WORLD_SIZE": "8", "SLURM_PROCID": "0", "SLURM_NTASKS": "1", "SLURM_LOCALID": "0"}, (5, 8, 5)),
        ({"OMPI_COMM_WORLD_RANK": "3", "OMPI_COMM_WORLD_SIZE": "4", "OMPI_COMM_WORLD_LOCAL_RANK": "1"}, (3, 4, 1)),
        ({"RANK": "3", "WORLD_SIZE": "4"}, (3, 4, 3)),
        ({"SLURM_PROCID": "0", "SLURM_NTASKS": "8"}, (0, 1, 0)),  # of a batch script, which runs one process
    ],
)
def test_ranks_without_torchrun(monkeypatch, environment, expected):
    for name in list(os.environ):
        if name in ("RANK", "WORLD_SIZE") or name.startswith(("LOCAL_", "SLURM_", "OMPI_", "PALS_")):
            monkeypatch.delenv(name)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    rank = Rank.of_environment()
    assert (rank.rank, rank.world_size, rank.local_rank) == expected


def test_the_document_does_not_overwrite_a_program(runs):
    script = runs.script("print('ran')")
    done = runs.watch("--json", script, "--epochs", "1")
    assert done.returncode == 2 and "argument --json: expected a file name that ends in .json, found train.py" in done.stderr
    assert (runs.folder / script).read_text() == "print('ran')"
    with pytest.raises(ValueError, match="json: expected a file name that ends in .json"):
        Watch(document=runs.folder / script)
