# Ctrl-C at random moments of a loop over stoker.Loader, of files and of Python data sets: each time the loop ends at
# once, and no thread, process, file or shared memory stays. Then Ctrl-C at each line of some functions, and while a
# server is waited for.
# test_py_workers.py interrupts whole programs.
import _thread
import gc
import operator
import os
import random
import signal
import socket
import subprocess
import sys
import textwrap
import threading
import time
from pathlib import Path

import pytest
from conftest import PYTHON_PACKAGE
from python_datasets import Lines, Numbers
from test_py_workers import children, nothing_stays  # noqa: F401

stoker = pytest.importorskip("stoker", reason="needs the extension module: STOKER_PYTHON=ON")
pytest.importorskip("stoker._stoker", reason="needs the extension module: STOKER_PYTHON=ON")

MOMENTS = int(os.environ.get("STOKER_INTERRUPTS", 12))

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


def test_ctrl_c_does_not_wait_for_a_server():
    """Its connection is taken by the system, and no byte comes back."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = f"http://127.0.0.1:{server.getsockname()[1]}/images.tar"
        command = [sys.executable, "-c", f"import stoker; print('begin', flush=True); stoker.open({address!r})"]
        environment = {**os.environ, "PYTHONPATH": str(PYTHON_PACKAGE)}
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
        with subprocess.Popen(command, env=environment, **pipes) as process:
            assert process.stdout.readline() == "begin\n"
            with server.accept()[0]:
                begin = time.monotonic()
                process.send_signal(signal.SIGINT)
                _, errors = process.communicate(timeout=50)
            assert time.monotonic() - begin < 5
        assert errors.rstrip().endswith("KeyboardInterrupt") and process.returncode == -signal.SIGINT, errors


def interrupted_at(called, at, action):
    """Runs the action with Ctrl-C at the `at`-th line of functions of that name. Whether there is one."""
    arrived = False

    def trace(frame, event, argument):
        nonlocal at, arrived
        code = frame.f_code
        if code.co_name == called and "/processes/" in code.co_filename and event in ("line", "return"):
            at -= 1
            if at == 0:
                arrived = True
                os.kill(os.getpid(), signal.SIGINT)
        return trace

    sys.settrace(trace)
    try:
        action()
    except KeyboardInterrupt:
        pass
    finally:
        sys.settrace(None)
    return arrived


@pytest.mark.slow
@pytest.mark.parametrize(
    "called, workers",
    [("__init__", 1), ("start", 1), ("_stop", 1), ("_read", 1), ("_received_memory", 1), ("take", 0)],
)
def test_ctrl_c_at_any_line_that_begins_or_ends_workers_leaves_nothing(called, workers):
    """No process and no file. The signal also arrives at the return, before anything holds the returned value."""
    list(stoker.Loader(Numbers(4), 4, workers=workers))  # opens what stays open
    gc.collect()
    files = len(os.listdir("/proc/self/fd"))
    at, arrived = 0, True
    while arrived:
        at += 1
        loader = stoker.Loader(Numbers(4), 4, workers=workers, prefetch=1)

        def action():
            held = next(iter(loader))  # its memory is a new file
            loader._source._stop()
            del held

        arrived = interrupted_at(called, at, action)
        del loader, action
        gc.collect()
        assert children() == [] and len(os.listdir("/proc/self/fd")) == files, at
    assert at > 3


def test_ctrl_c_that_came_before_is_raised_before_anything_is_held():
    from stoker.processes.interrupts import HeldInterrupts

    held, entered = HeldInterrupts(), []
    with pytest.raises(KeyboardInterrupt):  # no line of Python lies between the two calls
        entered.extend(map(operator.call, (_thread.interrupt_main, held.__enter__)))
    assert len(entered) < 2
    with pytest.raises(KeyboardInterrupt):
        os.kill(os.getpid(), signal.SIGINT)


def test_ctrl_c_that_waits_comes_at_the_end_of_what_holds_it():
    """It is not taken by another thread, which tells Python of it later."""
    from stoker.processes.interrupts import HeldInterrupts

    waiting, moments = threading.Event(), 0
    threads = [threading.Thread(target=waiting.wait) for _ in range(8)]
    for thread in threads:
        thread.start()
    try:
        for _ in range(2000):
            with pytest.raises(KeyboardInterrupt):
                with HeldInterrupts():
                    os.kill(os.getpid(), signal.SIGINT)
                moments += 1  # reached where it comes later
    finally:
        waiting.set()
        for thread in threads:
            thread.join()
    assert moments == 0


@pytest.mark.parametrize("data", [Numbers(24), Lines(24)])
def test_ctrl_c_twice_goes_on_with_the_same_batch(data):
    """The second one comes while the first is dealt with, and may keep the workers from their end."""

    def rest_of(source):
        return [str(value) for value, _ in iter(source.next, None)]

    def interrupt():
        raise KeyboardInterrupt

    loader = stoker.Loader(data, 4, workers=1)
    whole = rest_of(loader._source)
    loader.close()
    at, arrived = 0, True
    while arrived and at < 8:
        at += 1
        loader = stoker.Loader(data, 4, workers=1)
        source = loader._source
        found = [str(source.next()[0])]
        source._first_result = interrupt
        arrived = interrupted_at("_go_back", at, source.next)
        del source._first_result
        assert found + rest_of(source) == whole, at
        loader.close()
    assert at > 3
