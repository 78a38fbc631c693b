# A cgroup's memory limit below what a job would like to use: the job finishes or says that memory ran out, and is never
# killed for it.
import os
import subprocess
from pathlib import Path

from attack import Attack, Failure, Skipped, check_end
from conftest import PROGRAM, run_program
from jobs import finish

MIB = 1 << 20


class Group:
    """A cgroup below our own, version 2 or 1, with a limit."""

    def __init__(self, name, limit):
        version2, parent = own_group()
        self.folder = parent / name
        self.limit_file = self.folder / ("memory.max" if version2 else "memory.limit_in_bytes")
        try:
            self.folder.mkdir()
            self.limit_file.write_text(str(limit))
        except OSError as error:
            if self.folder.is_dir():
                self.folder.rmdir()
            raise Skipped(f"no cgroup with a memory limit can be made: {error}") from None

    def __enter__(self):
        return self.folder / "cgroup.procs"

    def __exit__(self, *_):
        self.folder.rmdir()


def own_group():
    """(whether of version 2, the folder of our own memory cgroup)"""
    for line in Path("/proc/self/cgroup").read_text().splitlines():
        _, controllers, path = line.split(":", 2)
        if controllers == "memory":
            return False, Path("/sys/fs/cgroup/memory" + path)
    for line in Path("/proc/self/cgroup").read_text().splitlines():
        if line.startswith("0::"):
            return True, Path("/sys/fs/cgroup" + line[3:])
    raise Skipped("no memory cgroup")


TRAIN = """
device = "cpu"
[data]
train = "{data}"
cache = "ram"
batch_size = 16
train_ops = [{{op = "random_crop", size = 64}}]
[model]
hidden = [16]
[train]
epochs = 2
threads = 1
"""


def memory_attacks(count):
    def prepare(shared):
        with Group(f"torture-probe-{os.getpid()}", 64 * MIB):
            pass
        run_program("synth", "photos", "photos", "--count", "400", cwd=shared)

    def run(case):
        (case.folder / "r.toml").write_text(TRAIN.format(data=case.shared / "photos"))
        jobs = [
            ["train", "r.toml", "--out", "run", "--json"],
            ["pack", case.shared / "photos", "x.stk", "--codec", "raw"],
            ["inspect", case.shared / "photos", "--verify"],
        ]
        arguments = jobs[case.number % len(jobs)]
        limit = case.random.randrange(*((220, 450) if arguments[0] == "train" else (32, 200))) * MIB
        with Group(f"torture-{os.getpid()}-{case.number}", limit) as processes:
            command = ["sh", "-c", f'echo $$ >"{processes}" && exec "$@"', "sh", PROGRAM, *arguments]
            status, err = finish(subprocess.Popen([str(word) for word in command], cwd=case.folder, text=True,
                                                  stdout=subprocess.PIPE, stderr=subprocess.PIPE))  # fmt: skip
        where = f"{arguments[0]} with {limit // MIB} MiB"
        if status == -9:
            raise Failure(f"{where}: killed for want of memory")
        check_end(status, err, where)

    return [Attack("memory-limit", "success or an error line, never killed for want of memory", count, run, prepare)]
