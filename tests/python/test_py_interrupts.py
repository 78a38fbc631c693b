# Ctrl-C at 30 random moments of a loop over stoker.Loader, of files and of Python data sets: each time the loop ends at
# once, and no thread, process, file or shared memory stays. test_py_workers.py interrupts whole programs.
import os
import random
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest
from conftest import PYTHON_PACKAGE

pytest.importorskip("stoker._stoker", reason="needs the extension module: STOKER_PYTHON=ON")

MOMENTS = int(os.environ.get("STOKER_INTERRUPTS", 30))

# `begin` stands within the `try`, so that each signal arrives there.
LOOP = """
    import gc, os, sys, time
    import numpy as np
    import stoker
    from python_datasets import Slow
    from stoker.transforms import RandomResizedCrop

    def loop(epochs):
        if sys.argv[1] == "files":
            options = {"ops": [RandomResizedCrop(48)], "workers": 2}
            source = sys.argv[2]
        elif sys.argv[1] == "inline":
            options = {"workers": 0}
            source = Slow(24, 0.001)
        else:
            options = {"multiprocessing_context": sys.argv[1], "workers": 2}
            source = Slow(24, 0.001)
        loader = stoker.Loader(source, 4, framework="numpy", **options)
        for _ in range(epochs):
            for batch in loader:
                pass

    def own_memory():
        with open("/proc/self/maps") as file:
            return sum("memfd" in line or "/dev/shm" in line for line in file)

    def children():
        tasks = os.listdir("/proc/self/task")
        return sum(len(open(f"/proc/self/task/{task}/children").read().split()) for task in tasks)

    def held():
        return len(os.listdir("/proc/self/task")), children(), len(os.listdir("/proc/self/fd")), own_memory()

    if __name__ == "__main__":
        loop(1)
        gc.collect()
        usual = held()
        for line in sys.stdin:
            try:
                print("begin", flush=True)
                loop(10**9)
            except KeyboardInterrupt:
                pass
            until = time.monotonic() + 5
            gc.collect()
            while held() != usual and time.monotonic() < until:
                time.sleep(0.002)
            print("clean" if held() == usual else f"threads, children, files, shared memory: {held()}, not {usual}", flush=True)
"""


@pytest.mark.parametrize("source", ["files", "fork", "inline"])
def test_ctrl_c_at_random_moments_leaves_nothing(drawn, source):
    """STOKER_INTERRUPTS sets another number of moments."""
    environment = {**os.environ, "PYTHONPATH": f"{PYTHON_PACKAGE}:{Path(__file__).parent}"}
    command = [sys.executable, "-c", textwrap.dedent(LOOP), source, str(drawn)]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True, "bufsize": 1}
    with subprocess.Popen(command, env=environment, start_new_session=True, **pipes) as process:
        try:
            interrupt_often(process)
        finally:
            process.kill()  # the tests after this one count their children


def interrupt_often(process):
    when = random.Random(7)
    for moment in range(MOMENTS):
        process.stdin.write("again\n")
        assert process.stdout.readline() == "begin\n", process.stderr.read()
        time.sleep(when.uniform(0, 0.06))
        begin = time.monotonic()
        os.killpg(process.pid, signal.SIGINT)  # as a terminal does
        assert process.stdout.readline() == "clean\n", moment
        assert time.monotonic() - begin < 5
    _, errors = process.communicate(timeout=20)
    assert process.returncode == 0 and errors == ""
