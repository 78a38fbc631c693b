# A disk that is full, and one whose system calls fail. The command ends with an error, or with the undisturbed result;
# with the disk in order, the same command finishes with the undisturbed result.
import errno
import functools
import os
import shlex
import shutil
import struct
import subprocess
import tempfile
import threading

from attack import TIMEOUT, Attack, Failure, Skipped, check_end, compile_c
from conftest import PROGRAM
from jobs import finish, set_up, start, undisturbed

CALLS = ["open", "read", "mmap", "write", "sync", "rename", "truncate"]  # in the order of shim.c
FULL = ["write", "truncate"]  # the calls that a full disk refuses
MEANS = "an error line, no signal; then the same command finishes with the undisturbed result"


def case_job(case):
    alone = [job for job in undisturbed().jobs if job.ranks == 1]
    return alone[case.number % len(alone)]


def full_disk(count):
    """A tmpfs of a random size in a mount namespace."""
    inside = ["unshare", "-rm", "sh", "-c"]

    def prepare(shared):
        probe = [*inside, 'mount -t tmpfs -o size=1m torture "$1"', "sh", shared]
        if shutil.which("unshare") is None or subprocess.run(probe, capture_output=True).returncode != 0:
            raise Skipped("no tmpfs can be mounted in a user namespace here")
        undisturbed()

    def run(case):
        job = case_job(case)
        size = case.random.randrange(4096, int(1.1 * undisturbed().expected(job).size))
        set_up(case.folder, job)
        first, again = (shlex.join(str(word) for word in (PROGRAM, *arguments))
                        for arguments in (job.arguments, job.resume))  # fmt: skip
        script = f"""mount -t tmpfs -o size={size} torture out || exit 99
            {first} >first.out 2>first.err; echo $? >first.status
            mount -o remount,size=2g out || exit 99
            {again} >again.out 2>again.err; echo $? >again.status
            cp -a out copy"""
        done = subprocess.run([*inside, script], cwd=case.folder, capture_output=True, text=True, timeout=2 * TIMEOUT)
        if done.returncode != 0:
            raise Failure(f"{job.name}: the attack itself failed: {done.stderr}")
        (case.folder / "out").rmdir()
        (case.folder / "copy").rename(case.folder / "out")
        check_end(*end_of(case.folder, "first"), f"{job.name} on a disk of {size} bytes")
        undisturbed().check(job, case.folder, *end_of(case.folder, "again"))

    return Attack("full-disk", MEANS, count, run, prepare)


def end_of(folder, name):
    """Status and stderr. A shell's $? above 128 is a signal, which is negative here as in subprocess."""
    status = int((folder / f"{name}.status").read_text())
    return (128 - status if status > 128 else status), (folder / f"{name}.err").read_text(errors="replace")


class Shim:
    """shim.c, and how often each job makes each call on files of the torture's folders."""

    def __init__(self, folder):
        self.path = compile_c("shim.c", folder / "shim.so", "-shared", "-fPIC", "-ldl")
        self.counts = {}
        self.lock = threading.Lock()

    def environment(self, folder, **more):
        under = f"{tempfile.gettempdir()}/torture-"
        return {**os.environ, "LD_PRELOAD": str(self.path), "TORTURE_UNDER": under,
                "TORTURE_COUNTS": str(folder / "counts"), **more}  # fmt: skip

    def calls_of(self, job):
        with self.lock:
            if job.name not in self.counts:
                folder = undisturbed().shared / f"counted {job.name}"
                set_up(folder, job)
                status, err = finish(start(job.arguments, folder, self.environment(folder)))
                assert status == 0, err
                numbers = struct.unpack(f"{len(CALLS)}l", (folder / "counts").read_bytes())
                self.counts[job.name] = dict(zip(CALLS, numbers))
            return self.counts[job.name]


@functools.cache
def shim():
    return Shim(undisturbed().shared)


def failing_calls(name, count, error, calls):
    """From a random call of one kind on, all of that kind on the job's files fail."""

    def run(case):
        job = case_job(case)
        counted = {call: number for call, number in shim().calls_of(job).items() if call in calls and number > 0}
        call = case.random.choice(sorted(counted))
        at = case.random.randint(1, counted[call])
        where = f"{job.name}, {call} {at} of {counted[call]} fails with {errno.errorcode[error]}"
        fault = {"TORTURE_CALL": call, "TORTURE_AT": str(at), "TORTURE_ERRNO": str(error)}
        set_up(case.folder, job)
        status, err = finish(start(job.arguments, case.folder, shim().environment(case.folder, **fault)))
        check_end(status, err, where)
        try:
            if status == 0:
                undisturbed().compare(job, case.folder)
            undisturbed().finish_and_check(job, case.folder)
        except Failure as failure:
            said = err.strip().splitlines()[-1:] if status != 0 else "success"
            raise Failure(f"{where} ({said}); {failure}") from None

    return Attack(name, MEANS, count, run, lambda shared: shim())


def disk_attacks(count):
    return [
        full_disk(count),
        failing_calls("no-space", count, errno.ENOSPC, FULL),
        failing_calls("io-error", 2 * count, errno.EIO, CALLS),
    ]
