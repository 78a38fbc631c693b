# Commands whose result is the same after any interruption, and how to compare results. The training and its figures are
# those of tests/python/test_resume.py.
import atexit
import functools
import json
import os
import shutil
import socket
import subprocess
import tempfile
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Callable

from attack import TIMEOUT, Failure, check_end, digest
from conftest import PROGRAM, run_program, stk_contents
from test_resume import EPOCHS, RECIPE, figures, steps


# Time for an attack, and a batch that two hosts can share, and three.
LONGER = {"epochs = 3": "epochs = 6", "batch_size = 32": "batch_size = 36"}
# Weights of some megabytes in shards; every rank writes its own.
SHARDED = {"hidden = [32]": "hidden = [512, 512]", "[train]\n": '[train]\nshard = "full"\n'}


@dataclass
class Job:
    name: str
    arguments: list  # of the program; writes into `out` of the current folder
    resume: list  # the arguments that finish an interrupted one
    result: Callable[[Path], dict]  # of the folder in which it ran: names and digests
    changes: dict = field(default_factory=dict)  # of texts in r.toml
    ranks: int = 1  # processes that do it together


def files_of(folder):
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    return {path.relative_to(folder).as_posix(): digest(path.read_bytes()) for path in files}


def packed(folder):
    return files_of(folder / "out")


def packed_lmdb(folder):
    """The places of an LMDB's pages depend on when they were written, so its samples are compared."""
    names = sorted(path.name for path in (folder / "out").iterdir())
    run_program("pack", "out/x.lmdb", "copy.stk", cwd=folder)
    return {"names": names, "samples": stk_contents(folder / "copy.stk")}


def trained(folder):
    run = folder / "out/run"
    newest = max((path for path in (run / "checkpoints").iterdir() if path.name.isdigit()), key=lambda p: int(p.name))
    weights = {path.name: digest(path.read_bytes()) for path in sorted(newest.glob("*.safetensors"))}
    report = run_program("train", "r.toml", "--out", "out/run", "--json", "--resume", "auto", cwd=folder).json()
    hidden = [path.name for path in (run / "checkpoints").iterdir() if path.name.startswith(".")]
    return {"figures": figures(report), "steps": steps(run), "step": newest.name, "left over": hidden, **weights}


def prepare(shared):
    """Writes what the jobs read."""
    run_program("synth", "photos", "photos", "--count", "40", cwd=shared)
    run_program("pack", "photos", "photos.stk", "--shard-size", "100KB", cwd=shared)


def make_jobs(shared):
    photos = shared / "photos"

    def pack(target, result=packed, source=photos, *options):
        arguments = ["pack", source, f"out/{target}", "--workers", "1", "--shard-size", "100KB", *options]
        return Job(f"pack {target}", arguments, arguments, result)

    train = ["train", "r.toml", "--out", "out/run", "--json"]
    return [
        pack("x.stk", packed, photos, "--codec", "dct"),
        pack("x-{000000..}.tar"),
        pack("x.h5"),
        pack("x.lmdb", packed_lmdb),
        pack("x.npz", packed, "synth:digits?count=5000"),
        pack("y.stk", packed, shared / "photos.stk"),
        Job("train", train, [*train, "--resume", "auto"], trained),
        Job("ranks", train, [*train, "--resume", "auto"], trained, SHARDED, ranks=2),
        *(Job(f"hosts {count}", train, [*train, "--resume", "auto"], trained, LONGER, ranks=count) for count in (2, 3)),
    ]


def set_up(folder, job):
    (folder / "out").mkdir(parents=True)
    recipe = RECIPE.replace(f"epochs = {EPOCHS}", "epochs = 3")
    for old, new in job.changes.items():
        recipe = recipe.replace(old, new)
    (folder / "r.toml").write_text(recipe)


def start(arguments, folder, env=None):
    command = [str(word) for word in (PROGRAM, *arguments)]
    return subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=env,
                            errors="replace")  # fmt: skip


class Ranks:
    """Processes as torchrun starts them, which can be waited for and killed as one."""

    def __init__(self, count, arguments, folder):
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        shared = {"WORLD_SIZE": count, "LOCAL_WORLD_SIZE": count, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
        envs = [{**shared, "RANK": rank, "LOCAL_RANK": rank} for rank in range(count)]
        self.processes = [
            start(arguments, folder, {**os.environ, **{key: str(value) for key, value in env.items()}}) for env in envs
        ]

    def communicate(self, timeout=None):
        outputs = [process.communicate(timeout=timeout) for process in self.processes]
        return outputs[0]

    def kill(self):
        for process in self.processes:
            process.kill()

    def poll(self):
        return self.processes[0].poll()

    @property
    def returncode(self):
        return next((process.returncode for process in self.processes if process.returncode != 0), 0)


def start_job(job, arguments, folder):
    return start(arguments, folder) if job.ranks == 1 else Ranks(job.ranks, arguments, folder)


def finish(process):
    try:
        _, err = process.communicate(timeout=TIMEOUT)
    except subprocess.TimeoutExpired:
        process.kill()
        process.communicate()
        raise
    return process.returncode, err


@dataclass
class Expected:
    """The result of an undisturbed job."""

    result: dict
    seconds: float
    size: int  # bytes in `out`


class Undisturbed:
    """The jobs and their undisturbed results, computed when first asked for. All attacks share one."""

    def __init__(self):
        self.shared = Path(tempfile.mkdtemp(prefix="torture-jobs-"))
        atexit.register(shutil.rmtree, self.shared, ignore_errors=True)
        prepare(self.shared)
        self.jobs = make_jobs(self.shared)
        self.known = {}
        self.lock = threading.Lock()

    def expected(self, job):
        with self.lock:
            if job.name not in self.known:
                folder = self.shared / f"undisturbed {job.name}"
                set_up(folder, job)
                begin = time.monotonic()
                status, err = finish(start_job(job, job.arguments, folder))
                seconds = time.monotonic() - begin
                assert status == 0, err
                size = sum(path.stat().st_size for path in (folder / "out").rglob("*") if path.is_file())
                self.known[job.name] = Expected(job.result(folder), seconds, size)
            return self.known[job.name]

    def compare(self, job, folder):
        got, expected = job.result(folder), self.expected(job).result
        differing = sorted(key for key in got.keys() | expected.keys() if got.get(key) != expected.get(key))
        if differing:
            raise Failure(f"{job.name}: differs from the undisturbed result in {json.dumps(differing)}")

    def check(self, job, folder, status, err):
        """The job was run again after an attack: it must have finished with the undisturbed result."""
        check_end(status, err, f"{job.name}, the same command again")
        if status != 0:
            raise Failure(f"{job.name}: the same command again was refused: {err.strip().splitlines()[-1]}")
        self.compare(job, folder)

    def finish_and_check(self, job, folder):
        self.check(job, folder, *finish(start_job(job, job.resume, folder)))


@functools.cache
def undisturbed():
    return Undisturbed()
