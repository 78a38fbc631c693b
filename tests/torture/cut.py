# Files that are truncated while they are read: a mapped file that shrinks raises SIGBUS. The program ends with an error
# line, or with success where it had read what it needed.
import shutil
import time

from attack import Attack, check_end
from conftest import run_program
from jobs import finish, start

TARGETS = ["x.stk", "x.tar", "x.lmdb", "x.h5"]
RECIPE = """
device = "cpu"
[data]
train = "{data}"
batch_size = 8
bad_samples = "100%"
train_ops = [{{op = "resize", size = [32, 32]}}]
[model]
hidden = [16]
[train]
epochs = 20
threads = 1
"""


def prepare(shared):
    run_program("synth", "photos", "photos", "--count", "40", cwd=shared)
    for target in TARGETS:
        run_program("pack", "photos", target, cwd=shared)


def run(case):
    name = TARGETS[case.number % len(TARGETS)]
    copy = case.folder / name
    source = case.shared / name
    (shutil.copytree if source.is_dir() else shutil.copy)(source, copy)
    file = next(copy.glob("shard-*")) if copy.is_dir() else copy
    size = case.random.randrange(file.stat().st_size)
    (case.folder / "r.toml").write_text(RECIPE.format(data=name))
    process = start(["train", "r.toml", "--out", "run", "--json"], case.folder)
    while process.poll() is None and not (case.folder / "run/metrics.jsonl").exists():
        time.sleep(0.01)
    time.sleep(case.random.uniform(0, 0.5))
    with file.open("r+b") as opened:
        opened.truncate(size)
    status, err = finish(process)
    check_end(status, err, f"{name} cut to {size} bytes")


def cut_attacks(count):
    return [Attack("cut-file", "success or an error line, no signal", count, run, prepare)]
