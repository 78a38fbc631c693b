# Several processes of the program as torchrun starts them, without torchrun: its imports take five seconds.
import os
import socket
import subprocess
import time

from conftest import PROGRAM, Done


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


class Ranks:
    """A process for each command, in an environment as torchrun's would be; the second may run in another folder."""

    def __init__(self, commands, cwd, timeout=20, other=None, world=None):
        port = free_port()
        self.processes = []
        for rank, command in enumerate(commands):
            env = {"RANK": rank, "WORLD_SIZE": world or len(commands), "LOCAL_RANK": rank, "LOCAL_WORLD_SIZE": len(commands)}
            env |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port, "STOKER_DIST_TIMEOUT": timeout}
            self.processes.append(
                subprocess.Popen(
                    [str(word) for word in command],
                    cwd=other if rank == 1 and other else cwd,
                    env={**os.environ, **{key: str(value) for key, value in env.items()}},
                    stdout=subprocess.PIPE,
                    stderr=subprocess.PIPE,
                    text=True,
                )
            )

    def ends(self):
        """(status, stdout, lines of stderr) of each."""
        outputs = [process.communicate(timeout=60) for process in self.processes]
        return [(p.returncode, out, err.splitlines()) for p, (out, err) in zip(self.processes, outputs)]

    def done(self, status=0):
        """The output of all, as under a launcher; checks the exit statuses."""
        outputs = [process.communicate(timeout=120) for process in self.processes]
        statuses = [process.returncode for process in self.processes]
        assert statuses == [status] * len(statuses), (statuses, outputs)
        out, err = ("".join(part) for part in zip(*outputs))
        return Done(subprocess.CompletedProcess([], status, out, err))

    def wait_for(self, path):
        deadline = time.monotonic() + 30
        while not path.exists():
            assert all(process.poll() is None for process in self.processes), self.ends()
            assert time.monotonic() < deadline
            time.sleep(0.01)


def run_ranks(count, *arguments, cwd, status=0):
    """The program in `count` processes."""
    return Ranks([[PROGRAM, *arguments]] * count, cwd, timeout=60).done(status)
