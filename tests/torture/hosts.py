# Several hosts: network namespaces with an address each, whose processes torchrun's rendezvous brings together. A link
# breaks, or a rank is killed or frozen, at random. The job ends or restarts within its time-out, and finishes with the
# undisturbed result.
import contextlib
import os
import signal
import subprocess
import time
from pathlib import Path

from attack import Attack, Failure, Skipped
from conftest import PROGRAM
from jobs import set_up, undisturbed
from namespaces import Hosts, why_not

LIMIT = 200  # seconds
GRACE = 45  # seconds: torchrun kills a frozen process after 30
STEP_TIMEOUT = 5  # seconds
KINDS = ("kill", "freeze", "break", "flap")


class Job(Hosts):
    """Hosts that train together."""

    def rank(self, index):
        """The process that trains on a host; None before it has begun."""
        for pid in self.processes(index):
            with contextlib.suppress(OSError):
                if Path(f"/proc/{pid}/comm").read_text().strip() == "stoker-engine":
                    return pid
        return None

    def start(self, folder):
        """Starts the same command on each host, as a cluster does."""
        launch = ["launch", "--nproc-per-node", 1, "--nnodes", len(self.names), "--max-restarts", 3]
        launch += ["--rdzv-backend", "c10d", "--rdzv-endpoint", "host0:29500", "--rdzv-id", "job"]
        launch += ["--rdzv-conf", "join_timeout=20,read_timeout=10"]
        train = ["--", PROGRAM, "train", "r.toml", "--out", "out/run", "--resume", "auto"]
        environment = {**os.environ, "STOKER_DIST_TIMEOUT": str(STEP_TIMEOUT)}
        started = []
        for index in range(len(self.names)):
            command = self.inside(index, PROGRAM, *launch, *train)
            with open(folder / f"host{index}.log", "a") as log:
                started.append(subprocess.Popen(command, cwd=folder, stdout=log, stderr=log, env=environment))
        return started


def prepare(_):
    if missing := why_not():
        raise Skipped(missing)


def checkpoint_of(folder):
    checkpoints = folder / "out/run/checkpoints"
    steps = [int(path.name) for path in checkpoints.glob("*") if path.name.isdigit()]
    return max(steps, default=0)


def wait_for_the_moment(case, launched):
    """One case in five is disturbed while the hosts find each other, the others after some checkpoint."""
    wanted = 15 * case.random.randint(1, 7)
    limit = case.random.uniform(0, 8) if case.number % 5 == 0 else LIMIT
    begin = time.monotonic()
    while checkpoint_of(case.folder) < wanted and time.monotonic() - begin < limit:
        if all(process.poll() is not None for process in launched):
            return
        time.sleep(0.002)
    time.sleep(case.random.uniform(0, 0.05))


def disturb(case, hosts, kind):
    host = case.random.randrange(len(hosts.names))
    if kind in ("kill", "freeze"):
        begin = time.monotonic()
        while (pid := hosts.rank(host)) is None:
            if time.monotonic() - begin > LIMIT:
                raise Failure(f"{kind}: no rank began within {LIMIT} s: {last_lines(case.folder)}")
            time.sleep(0.02)
        os.kill(pid, signal.SIGKILL if kind == "kill" else signal.SIGSTOP)
        return
    hosts.set_link(host, "down")
    if kind == "flap":
        time.sleep(case.random.uniform(0.1, 2 * STEP_TIMEOUT))
        hosts.set_link(host, "up")


def wait_for_end(case, hosts, launched, kind):
    """The exit statuses. torchrun may wait for a lost host for minutes, so the others end some time after the first
    that fails, as with `srun --kill-on-bad-exit`."""
    begin = time.monotonic()
    failed = None
    while any(process.poll() is None for process in launched):
        now = time.monotonic()
        if failed is None and any(process.poll() for process in launched):
            failed = now
        if failed is not None and now > failed + GRACE:
            hosts.kill()
        elif now > begin + LIMIT:
            raise Failure(f"{kind}: still running after {LIMIT} s: {last_lines(case.folder)}")
        time.sleep(0.05)
    return [process.returncode for process in launched]


def last_lines(folder):
    logs = sorted(folder.glob("host*.log"))
    return " / ".join(log.read_text(errors="replace").strip().rpartition("\n")[2][-200:] for log in logs)


def run(case):
    count = 2 + case.number % 2
    kind = KINDS[case.number // 2 % len(KINDS)]
    job = next(job for job in undisturbed().jobs if job.name == f"hosts {count}")
    set_up(case.folder, job)
    with Job(count) as hosts:
        launched = hosts.start(case.folder)
        wait_for_the_moment(case, launched)
        disturb(case, hosts, kind)
        ends = wait_for_end(case, hosts, launched, kind)
        if any(ends):  # as a cluster that starts the job again
            for index in range(count):
                hosts.set_link(index, "up")
            ends = wait_for_end(case, hosts, hosts.start(case.folder), kind)
        if any(ends):
            raise Failure(f"{kind}: the same command again ended with {ends}: {last_lines(case.folder)}")
    undisturbed().compare(job, case.folder)


def host_attacks(count):
    means = "the job ends or restarts within its time-out, and finishes with the undisturbed result, bit for bit"
    return [Attack("hosts", means, count, run, prepare, threads=4)]  # most of the time is waiting
