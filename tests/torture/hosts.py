# Several hosts: network namespaces with an address each, whose processes torchrun's rendezvous brings together. A link
# breaks, or a rank is killed or frozen, at random. The job ends or restarts within its time-out, and finishes with the
# undisturbed result.
import contextlib
import itertools
import os
import shutil
import signal
import subprocess
import threading
import time
from pathlib import Path

from attack import Attack, Failure, Skipped
from conftest import PROGRAM
from jobs import set_up, undisturbed

LIMIT = 200  # seconds
GRACE = 45  # seconds: torchrun kills a frozen process after 30
STEP_TIMEOUT = 5  # seconds
NETWORK = "10.77.0"
KINDS = ("kill", "freeze", "break", "flap")
serials = itertools.count()
lock = threading.Lock()  # of the numbers, as cases run in threads


def ip(*words):
    done = subprocess.run(["ip", *map(str, words)], capture_output=True, text=True)
    if done.returncode != 0:
        raise OSError(f"ip {' '.join(map(str, words))}: {done.stderr.strip()}")
    return done.stdout


class Hosts:
    """Namespaces whose links meet in a bridge, which lies in a namespace of its own."""

    def __init__(self, count):
        with lock:
            prefix = f"stk{os.getpid()}x{next(serials)}"
        self.switch = f"{prefix}s"
        self.names = [f"{prefix}h{index}" for index in range(count)]
        self.made = contextlib.ExitStack()

    def __enter__(self):
        try:
            for name in (self.switch, *self.names):
                ip("netns", "add", name)
                self.made.callback(ip, "netns", "del", name)
            ip("-n", self.switch, "link", "add", "bridge", "type", "bridge")
            ip("-n", self.switch, "link", "set", "bridge", "up")
            for index, name in enumerate(self.names):
                port = f"port{index}"
                ip("-n", self.switch, "link", "add", port, "type", "veth", "peer", "name", "eth0", "netns", name)
                ip("-n", self.switch, "link", "set", port, "master", "bridge", "up")
                ip("-n", name, "addr", "add", f"{NETWORK}.{index + 1}/24", "dev", "eth0")
                ip("-n", name, "link", "set", "eth0", "up")
                ip("-n", name, "link", "set", "lo", "up")
                self.write_names(index)
        except OSError:
            self.made.close()
            raise
        return self

    def write_names(self, index):
        """/etc/hosts as Debian writes it: a host's own name has a loopback address."""
        folder = Path("/etc/netns") / self.names[index]  # `ip netns exec` puts its files into /etc
        folder.mkdir(parents=True)
        self.made.callback(shutil.rmtree, folder)
        own = {index: "127.0.1.1"}
        lines = [f"{own.get(other, f'{NETWORK}.{other + 1}')} host{other}" for other in range(len(self.names))]
        (folder / "hosts").write_text("\n".join(["127.0.0.1 localhost", *lines, ""]))

    def __exit__(self, *_):
        self.kill()
        self.made.close()

    def kill(self):
        for index in range(len(self.names)):
            for pid in self.processes(index):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)

    def set_link(self, index, state):
        ip("-n", self.switch, "link", "set", f"port{index}", state)

    def processes(self, index):
        return [int(pid) for pid in ip("netns", "pids", self.names[index]).split()]

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
        for index, name in enumerate(self.names):
            named = ["unshare", "--uts", "sh", "-c", f'echo host{index} >/proc/sys/kernel/hostname; exec "$0" "$@"']
            command = ["ip", "netns", "exec", name, *named, PROGRAM, *launch, *train]
            with open(folder / f"host{index}.log", "a") as log:
                command = [str(word) for word in command]
                started.append(subprocess.Popen(command, cwd=folder, stdout=log, stderr=log, env=environment))
        return started


def prepare(_):
    if os.geteuid() != 0 or shutil.which("ip") is None:
        raise Skipped("needs root and iproute2")
    try:
        with Hosts(2):
            pass
    except OSError as error:
        raise Skipped(f"no network namespaces: {error}") from None


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
    with Hosts(count) as hosts:
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
