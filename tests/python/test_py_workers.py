# The worker processes of stoker.Loader end when they should, whatever happens: Ctrl-C, kills, errors, loops that are
# left, parents that are gone. Nothing stays behind: no process, no zombie, no shared memory.
import gc
import json
import os
import random
import signal
import subprocess
import sys
import textwrap
import threading
import time
from pathlib import Path

import numpy as np
import pytest
from conftest import PYTHON_PACKAGE
from python_datasets import KILL, Ending, Numbers, Slow

stoker = pytest.importorskip("stoker", reason="needs the extension module: STOKER_PYTHON=ON")
pytest.importorskip("stoker._stoker", reason="needs the extension module: STOKER_PYTHON=ON")

from stoker.processes.source import IndexedSource  # noqa: E402


def children():
    """Processes of this one, zombies too; but not those that stay for the next use: multiprocessing's and the tests'."""
    found = []
    for task in Path("/proc/self/task").iterdir():
        try:
            of_task = (task / "children").read_text().split()
        except OSError:  # a thread that has just ended
            continue
        for child in of_task:
            try:
                line = Path(f"/proc/{child}/cmdline").read_bytes()
            except OSError:
                continue
            if not any(name in line for name in (b"resource_tracker", b"forkserver", b"fork_server", b"engine_server")):
                found.append(int(child))
    return found


@pytest.fixture(autouse=True)
def nothing_stays():
    before = children()
    yield
    if children() != before:
        gc.collect()
    assert children() == before


def environment(method):
    return {**os.environ, "PYTHONPATH": f"{PYTHON_PACKAGE}:{Path(__file__).parent}", "METHOD": method}


def start(text, method):
    """Runs a script in a new session, by which its processes are found."""
    command = [sys.executable, "-c", textwrap.dedent(text)]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    return subprocess.Popen(command, env=environment(method), start_new_session=True, **pipes)


def session_of(process):
    """The processes of its session that are left."""
    found = []
    for folder in Path("/proc").iterdir():
        try:
            fields = (folder / "stat").read_text().rpartition(")")[2].split() if folder.name.isdigit() else []
        except OSError:
            continue
        if fields and int(fields[3]) == process.pid:
            found.append(int(folder.name))
    return found


def wait_until_empty(process, seconds):
    until = time.monotonic() + seconds
    while session_of(process):
        assert time.monotonic() < until, session_of(process)
        time.sleep(0.02)


LOOP = """
    import os, stoker
    from python_datasets import Slow

    if __name__ == "__main__":
        loader = stoker.Loader(
            Slow(400, 0.002), 8, workers=2, framework="numpy", multiprocessing_context=os.environ["METHOD"]
        )
        try:
            print("begin", flush=True)
            while True:
                for index, values in loader:
                    assert (values == index[:, None]).all()
        finally:
            print("left", flush=True)
"""


@pytest.mark.parametrize("method, moments", [("fork", 1), ("spawn", 1), ("forkserver", 1)])
def test_ctrl_c_at_any_moment_leaves_nothing(method, moments):
    """STOKER_INTERRUPTS sets another number of moments."""
    when = random.Random(3)
    for _ in range(int(os.environ.get("STOKER_INTERRUPTS", moments))):
        process = start(LOOP, method)
        assert process.stdout.readline() == "begin\n"
        time.sleep(when.uniform(0, 0.3 if method == "fork" else 0.6))
        os.killpg(process.pid, signal.SIGINT)  # as a terminal does
        out, err = process.communicate(timeout=20)
        assert out == "left\n" and process.returncode == -signal.SIGINT
        if method != "forkserver":  # which resets the signal in the child, before that can ignore it
            assert err.count("Traceback") == err.count("KeyboardInterrupt") == 1, err
        wait_until_empty(process, 5)


@pytest.mark.parametrize("method", ["fork", "forkserver"])
def test_workers_end_with_a_killed_parent(method):
    process = start(LOOP, method)
    assert process.stdout.readline() == "begin\n"
    time.sleep(0.5)
    process.kill()
    process.wait()
    wait_until_empty(process, 5)


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_workers_inside_of_a_sample_end_with_their_parent(method, number):
    text = """
        import os, stoker
        from python_datasets import Slow

        if __name__ == "__main__":
            loader = stoker.Loader(Slow(40, 60), 4, workers=2, framework="numpy", multiprocessing_context=os.environ["METHOD"])
            batches = iter(loader)
            print("begin", flush=True)
            next(batches)
    """
    process = start(text, method)
    assert process.stdout.readline() == "begin\n"
    time.sleep(1 if method == "fork" else 4)
    process.send_signal(number)
    process.wait()
    wait_until_empty(process, 8)


def test_a_kept_batch_costs_its_worker_no_file_descriptor():
    loader = stoker.Loader([np.zeros(20_000)] * 400, 4, workers=1, framework="numpy", shuffle=False)
    batches = iter(loader)
    kept = [next(batches)]
    before = len(list(Path(f"/proc/{children()[0]}/fd").iterdir()))
    kept += [next(batches) for _ in range(60)]
    assert len(list(Path(f"/proc/{children()[0]}/fd").iterdir())) <= before + 2
    assert all((batch == 0).all() for batch in kept)
    loader.close()


def test_shared_memory_has_no_name():
    text = """
        import os, stoker
        from python_datasets import Slow
        from pathlib import Path

        loader = stoker.Loader(Slow(40, 0), 8, workers=1, framework="numpy")
        held = next(iter(loader))
        child = Path("/proc/self/task", str(os.getpid()), "children").read_text().split()[0]
        for process in ("self", child):
            maps = Path("/proc", process, "maps").read_text()
            assert "/memfd:stoker" in maps and "/dev/shm" not in maps, maps
    """
    process = start(text, "fork")
    assert process.communicate(timeout=20) == ("", "") and process.returncode == 0


def test_a_script_that_ends_inside_of_a_loop_is_quiet():
    done = start(LOOP.replace("while True", "if True").replace("assert", "break; assert"), "fork")
    assert done.communicate(timeout=20) == ("begin\nleft\n", "") and done.returncode == 0
    wait_until_empty(done, 5)


ENDS = {
    "killed": (KILL, "its end by SIGKILL; the kernel kills what takes too much memory"),
    "left": (0, "got status 3"),
}


@pytest.mark.parametrize("end", ENDS)
def test_a_worker_that_ends_is_named_at_once(end):
    number, message = ENDS[end]
    loader = stoker.Loader(Ending(40, 21, number), 4, workers=2, shuffle=False)
    begin = time.monotonic()
    with pytest.raises(stoker.IoError, match=f"worker process [0-9]+.*{message}") as caught:
        list(loader)
    assert time.monotonic() - begin < 5 and "\n" not in str(caught.value) and children() == []
    loader.set_epoch(0)
    assert next(iter(loader)).tolist() == [0, 1, 2, 3]  # with new workers
    loader.close()


def test_no_free_file_descriptor_is_named():
    text = """
        import os, resource, stoker
        import numpy as np

        loader = stoker.Loader([np.zeros(10_000)] * 40, 8, workers=1, framework="numpy")
        batches = iter(loader)
        held = next(batches)
        last = os.dup(0)
        os.close(last)
        resource.setrlimit(resource.RLIMIT_NOFILE, (last, last))
        try:
            for batch in batches:
                held = held, batch  # each needs separate memory
        except stoker.IoError as error:
            print(error)
    """
    process = start(text, "fork")
    out, err = process.communicate(timeout=20)
    assert "expected a free file descriptor" in out and err == "" and process.returncode == 0, (out, err)


def test_an_idle_worker_that_is_killed_is_noticed():
    loader = stoker.Loader(Numbers(64), 4, workers=1)
    batches = iter(loader)
    next(batches)
    os.kill(children()[0], signal.SIGKILL)
    with pytest.raises(stoker.IoError, match="SIGKILL"):
        list(batches)


def test_an_interrupted_wait_goes_on_with_the_same_batch():
    """As in a notebook: KeyboardInterrupt, and the cell is run again."""
    whole = [index.tolist() for index, _ in stoker.Loader(Slow(40, 0), 4, workers=0)]
    loader = stoker.Loader(Slow(40, 0.05), 4, workers=2)
    found = [next(iter(loader))[0].tolist()]
    state = loader.state_dict()

    def interrupt(number, frame):
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGALRM, interrupt)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.02)
        with pytest.raises(KeyboardInterrupt):
            for index, _ in loader:  # begins the next epoch
                pass
    finally:
        signal.signal(signal.SIGALRM, before)
    assert children() == []
    loader.load_state_dict(state)
    assert found + [index.tolist() for index, _ in loader] == whole
    loader.close()


def test_an_interrupt_at_any_line_leaves_a_position_that_fits():
    """At any line of IndexedSource.next a signal may arrive: state() names the batch that comes next."""
    whole = stoker.Loader(Numbers(8), 4, workers=0)
    epochs = [[index.tolist() for index, _ in whole] for _ in range(2)]
    code = IndexedSource.next.__code__
    at, interrupted = 0, True
    while interrupted:
        at, lines, interrupted = at + 1, 0, False
        loader = stoker.Loader(Numbers(8), 4, workers=0)
        source = loader._source

        def trace(frame, event, argument):
            nonlocal lines
            lines += frame.f_code is code and event == "line"
            if lines == at:
                raise KeyboardInterrupt
            return trace

        sys.settrace(trace)
        try:
            while source.next() is not None:
                pass
        except KeyboardInterrupt:
            interrupted = True
        finally:
            sys.settrace(None)
        state = json.loads(source.state())
        rest = [taken[0][0].tolist() for taken in iter(source.next, None)]
        if rest or state["batch"] > 0:  # nothing more where only the end of the epoch was left
            assert rest == epochs[state["epoch"]][state["batch"] :], (at, state)
    assert at > 20


def test_a_second_ctrl_c_while_the_workers_end():
    loader = stoker.Loader(Slow(40, 60), 4, workers=1)
    threads = [threading.Timer(seconds, os.kill, (os.getpid(), signal.SIGINT)) for seconds in (0.3, 0.6)]
    for thread in threads:
        thread.start()
    with pytest.raises(KeyboardInterrupt):
        next(iter(loader))
    for thread in threads:
        thread.join()
    assert children() == []
    loader.dataset.seconds = 0
    assert len(list(loader)) == 10
    loader.close()


def test_ctrl_c_while_a_loader_is_collected_is_not_lost():
    loader = stoker.Loader(Slow(40, 1), 4, workers=1)
    batches = iter(loader)
    loader._source._submit(0, 0, 0)
    time.sleep(0.5)  # the worker is inside of a sample
    thread = threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT))
    with pytest.raises(KeyboardInterrupt):
        thread.start()
        del batches, loader
        time.sleep(1)
    thread.join()
    assert children() == []


def test_a_batch_that_is_dropped_calls_no_python():
    """Python drops a KeyboardInterrupt that arrives in a function which it calls while an object is freed."""
    loader = stoker.Loader(Numbers(40), 4, workers=1)
    batches = iter(loader)
    batch, later, called = next(batches), next(batches), []  # the loader itself holds the later one

    def trace(frame, event, argument):
        called.append(frame.f_code.co_name)

    sys.setprofile(trace)
    try:
        del batch
    finally:
        sys.setprofile(None)
    assert [name for name in called if name != "test_a_batch_that_is_dropped_calls_no_python"] == []
    assert len(list(batches)) == 8 and len(later) == 2
    loader.close()


def test_a_batch_that_cannot_be_written_leaves_no_file():
    """Its numbers have more than 64 bits, which shows only while they are written."""
    loader = stoker.Loader([1, 1 << 70] * 40, 2, workers=0, shuffle=False)
    for _ in range(3):
        with pytest.raises(OverflowError):
            next(iter(loader))
    gc.collect()  # the errors' tracebacks hold the memory, and that a file
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(20):
        with pytest.raises(OverflowError):
            next(iter(loader))
    gc.collect()
    assert len(os.listdir("/proc/self/fd")) == before


UNGUARDED = """
import stoker

# Larger than a pipe, so that the worker ends while the loader still writes to it.
data = list(range(200_000))
loader = stoker.Loader(data, 8, workers=1, framework="numpy", multiprocessing_context="forkserver")
try:
    next(iter(loader))
except stoker.IoError as error:
    print(error)
"""


def test_a_script_without_a_main_guard_is_told(tmp_path):
    (tmp_path / "script.py").write_text(UNGUARDED)
    command = [sys.executable, tmp_path / "script.py"]
    process = subprocess.run(command, env=environment("forkserver"), capture_output=True, text=True, timeout=20)
    assert "[workers] expected" in process.stdout and "its message is above" in process.stdout, process.stderr
    assert 'if __name__ == "__main__"' in process.stderr.replace("'", '"') and process.returncode == 0


LATE = """
class Late:
    def __len__(self):
        return 8

    def __getitem__(self, index):
        import numpy  # which the worker has not loaded

        return float(numpy.random.rand())
"""


def test_a_sample_that_imports_numpy_has_its_random_numbers(tmp_path):
    (tmp_path / "late.py").write_text(LATE)
    text = f"""
        import sys
        sys.path.insert(0, {str(tmp_path)!r})
        import stoker
        from late import Late

        for workers in (0, 2):
            loader = stoker.Loader(
                Late(), 1, workers=workers, framework="numpy", shuffle=False, multiprocessing_context="spawn"
            )
            print([batch.item() for batch in loader])
    """
    out, err = start(text, "spawn").communicate(timeout=20)
    inline, spawned = out.splitlines()
    assert inline == spawned and err == ""


class Texts:
    """Its first batches are larger than a pipe's buffer."""

    def __len__(self):
        return 100_000

    def __getitem__(self, index):
        return (40_000 if index < 160 else 1) * "x"


def test_a_far_prefetch_of_large_texts_comes_through():
    loader = stoker.Loader(Texts(), 8, workers=1, prefetch=1024, shuffle=False)
    signal.signal(signal.SIGALRM, lambda number, frame: (_ for _ in ()).throw(TimeoutError("both wait")))
    signal.alarm(30)
    try:
        batches = iter(loader)
        assert [len(next(batches)) for _ in range(3)] == [8] * 3
    finally:
        signal.alarm(0)
    loader.close()


def test_another_position_drops_the_work_that_was_ahead():
    loader = stoker.Loader(Slow(400, 0.01), 20, workers=2, shuffle=False)
    next(iter(loader))
    begin = time.monotonic()
    loader.set_epoch(5)
    assert next(iter(loader))[0].tolist() == list(range(20))
    assert time.monotonic() - begin < 0.7  # one batch takes 0.2 s, the six that were in flight take 0.6 s more
    loader.close()


def test_a_forked_child_gets_an_error_and_leaves_the_workers_alone():
    loader = stoker.Loader(Numbers(40), 4, workers=2)
    batches = iter(loader)
    next(batches)
    child = os.fork()
    if child == 0:
        try:
            next(batches)
        except stoker.InvalidArgument as error:
            os._exit(7 if "forked child" in str(error) else 1)
        os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
    assert len(list(batches)) == 9
    loader.close()
    with pytest.raises(stoker.InvalidArgument, match="closed"):
        list(loader)


class Ragged:
    def __len__(self):
        return 4

    def __getitem__(self, index):
        return list(range(index + 1))


@pytest.mark.parametrize("workers", [0, 1])
def test_nested_tensors_arrive(workers):
    torch = pytest.importorskip("torch")

    def collate(samples):
        return torch.nested.nested_tensor([torch.tensor(sample) for sample in samples])

    loader = stoker.Loader(Ragged(), 2, shuffle=False, workers=workers, collate_fn=collate)
    assert [[part.tolist() for part in batch.unbind()] for batch in loader] == [[[0], [0, 1]], [[0, 1, 2], [0, 1, 2, 3]]]
