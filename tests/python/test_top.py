# `stoker top`: the document, the text, and the live screen as a terminal emulator shows it: at several sizes, with keys,
# after a resize, Ctrl-C and errors.
import fcntl
import json
import os
import select
import signal
import struct
import subprocess
import termios
import time

import pyte
import pytest

SECTIONS = ["GPU", "CPU", "Memory", "Disk", "Network", "Run", "Process"]
SHARES = ["busy", "user", "system", "iowait", "steal"]


def read_once(stoker, seconds=0.2, **options):
    return stoker("top", "--once", "--json", "--interval", str(seconds), **options).json()


# ---- text and document ----


def test_the_document_has_its_keys(stoker):
    document = read_once(stoker)
    assert list(document) == ["host", "cpu", "memory", "disks", "network", "gpus", "runs", "processes"]
    assert document["host"]["seconds"] >= 0.2
    cpu = document["cpu"]
    assert len(cpu["cores"]) == cpu["online"] and 1 <= cpu["usable"] <= cpu["online"]
    for shares in [cpu["all"], *cpu["cores"]]:
        assert all(0 <= shares[name] <= 1 for name in SHARES)
    assert document["memory"]["total_bytes"] > document["memory"]["available_bytes"] > 0
    assert 0 < len(document["processes"]) <= 10
    cores = [process["cores"] for process in document["processes"]]
    assert cores == sorted(cores, reverse=True)


def test_busy_processes_are_seen(stoker):
    burn = [subprocess.Popen(["sh", "-c", "while :; do :; done"]) for _ in range(4)]  # other work may be as busy
    try:
        processes = read_once(stoker, seconds=1)["processes"]
    finally:
        for process in burn:
            process.kill()
            process.wait()
    mine = [process for process in processes if process["pid"] in {one.pid for one in burn}]
    assert mine and mine[0]["command"] == "sh -c while :; do :; done"
    assert all(0.02 < process["cores"] <= 1.1 for process in mine)


def test_the_text_has_all_sections_and_no_codes(stoker):
    out = stoker("top", "--once", "--interval", "0.2").out
    assert "\x1b" not in out and max(map(len, out.splitlines())) <= 120
    starts = [line.split()[0] for line in out.splitlines() if line and line[0] != " "]
    assert starts == ["stoker", *SECTIONS]


def test_wrong_usage(stoker):
    assert "--once" in stoker("top", "--json", status=2).err
    assert "--interval" in stoker("top", "--once", "--interval", "0", status=2).err
    error = stoker("top", status=None)
    assert error.status != 0 and error.err.count("\n") == 1 and "stoker top --once" in error.err


# ---- GPUs ----


def test_gpus_are_read(stoker, fake_driver):
    gpus = read_once(stoker, env={**fake_driver, "FAKE_GPUS": "2"})["gpus"]
    assert [gpu["index"] for gpu in gpus] == [0, 1]
    gpu = gpus[1]
    assert (gpu["name"], gpu["busy"], gpu["celsius"]) == ("Made-up H100", pytest.approx(0.87), 61)
    assert gpu["clock_reasons"] == ["power limit"] and gpu["throttled"]
    assert gpu["pcie"] == {"generation": 5, "width": 16} and gpu["mig"] is None
    assert gpu["processes"] == [{"pid": 4242, "memory_bytes": 40 << 30}, {"pid": 4343, "memory_bytes": None}]


def test_a_lost_gpu_is_shown(stoker, fake_driver):
    environment = {**fake_driver, "FAKE_GPUS": "2", "FAKE_NVML": "lost"}
    gpus = read_once(stoker, env=environment)["gpus"]
    assert [gpu["problem"] for gpu in gpus] == [None, "GPU is lost"]
    assert "GPU 1   GPU is lost" in stoker("top", "--once", "--interval", "0.1", env=environment).out


def test_what_a_gpu_does_not_report_is_null(stoker, fake_driver):
    environment = {**fake_driver, "FAKE_NVML": "silent"}
    gpu = read_once(stoker, env=environment)["gpus"][0]
    assert {key for key, value in gpu.items() if value is not None} == {"index", "name"}
    assert "busy: not reported" in stoker("top", "--once", "--interval", "0.1", env=environment).out


def test_without_gpus_the_reason_is_shown(stoker, fake_driver):
    environment = {**fake_driver, "FAKE_NVML": "broken"}
    document = read_once(stoker, env=environment)
    assert document["gpus"] == [] and document["host"]["gpu_problem"] == "NVML does not start: Driver Not Loaded"
    assert "GPU     NVML does not start" in stoker("top", "--once", "--interval", "0.1", env=environment).out


# ---- runs ----


def step_line(step, **more):
    us = {"wait": 1000, "step": 9000, "checkpoint": 10**9}
    return json.dumps({"type": "step", "schema": 1, "step": step, "epoch": 1, "samples": 64, "us": us, **more})


@pytest.fixture
def held_run(tmp_path):
    """A run folder of the given lines whose lock this process holds."""
    descriptors = []

    def hold(text):
        folder = tmp_path / "made-up"
        folder.mkdir()
        (folder / "recipe.toml").write_text("")
        (folder / "metrics.jsonl").write_text(text)
        descriptors.append(os.open(folder, os.O_RDONLY | os.O_DIRECTORY))
        fcntl.flock(descriptors[0], fcntl.LOCK_EX)
        return folder

    yield hold
    for descriptor in descriptors:
        os.close(descriptor)


def run_at(stoker, folder):
    return [run for run in read_once(stoker)["runs"] if run["path"] == str(folder)]


def test_the_last_steps_of_a_run_are_read(stoker, held_run):
    lines = [step_line(step, loss=2.0, ready=step % 3) for step in range(1, 301)]
    noise = ["", "no JSON", "[" * 5000, '{"type":"epoch"}', step_line(2**70), step_line("x"), '{"type":"step","us":3}']
    folder = held_run("\n".join([*lines, step_line(301), *noise, step_line(302)[:50]]))
    (run,) = run_at(stoker, folder)
    assert (run["step"], run["epoch"], run["steps"], run["pid"]) == (301, 1, 200, os.getpid())
    assert run["step_seconds"] == pytest.approx(0.01) and run["wait"] == pytest.approx(0.1)
    assert run["images_per_second"] == pytest.approx(6400)
    assert run["loss"] == 2.0 and run["ready_batches"] == pytest.approx(1, abs=0.02)
    assert 0 <= run["written_seconds_ago"] < 60


def test_steps_of_a_watched_program_may_lack_their_samples(stoker, held_run):
    folder = held_run("\n".join(step_line(step).replace('"samples": 64, ', "") for step in range(1, 9)) + "\n")
    (run,) = run_at(stoker, folder)
    assert run["step"] == 8 and run["images_per_second"] is None


def test_a_loss_that_diverged_is_the_latest(stoker, held_run):
    folder = held_run("\n".join([*[step_line(step, loss=2.0) for step in range(1, 9)], step_line(9, loss=None), ""]))
    (run,) = run_at(stoker, folder)
    assert run["step"] == 9 and run["loss"] is None


def test_a_step_before_the_lines_of_many_ranks_is_read(stoker, held_run):
    interval = json.dumps({"type": "interval", "schema": 1, "rank": 7, "us": {"wait": 6000}})
    folder = held_run("\n".join([step_line(7), *[interval] * 20_000, ""]))  # 1.3 MB
    (run,) = run_at(stoker, folder)
    assert run["step"] == 7


def test_a_deep_line_is_no_step(stoker, held_run):
    deep = "[" * 60_000 + "]" * 60_000
    folder = held_run(f'{step_line(7)}\n{{"type":"step","us":{deep}}}\n')
    (run,) = run_at(stoker, folder)
    assert run["step"] == 7


def test_a_run_without_steps_is_listed(stoker, held_run):
    folder = held_run("")
    (run,) = run_at(stoker, folder)
    assert run["step"] is None and run["wait"] is None
    assert "no steps yet" in stoker("top", "--once", "--interval", "0.1").out


def test_a_folder_that_nobody_writes_is_no_run(stoker, tmp_path):
    (tmp_path / "recipe.toml").write_text("")
    (tmp_path / "metrics.jsonl").write_text(step_line(1) + "\n")
    assert run_at(stoker, tmp_path) == []


def test_a_real_run_is_found(program, stoker, tmp_path):
    (tmp_path / "r.toml").write_text(
        '[data]\ntrain = "synth:digits?count=6400"\nworkers = 1\nbatch_size = 64\n'
        'train_ops = [{op = "normalize", preset = "mnist"}]\nval_ops = [{op = "normalize", preset = "mnist"}]\n'
        '[model]\nname = "mlp"\n[train]\nepochs = 100000\n'
    )
    train = subprocess.Popen([program, "train", "r.toml", "--out", "mine"], cwd=tmp_path, stderr=subprocess.DEVNULL)
    try:
        for _ in range(60):
            runs = run_at(stoker, tmp_path / "mine")
            if runs and runs[0]["step"]:
                break
            time.sleep(0.5)
    finally:
        train.kill()
        train.wait()
    assert runs and runs[0]["pid"] == train.pid and runs[0]["step"] > 0
    assert runs[0]["images_per_second"] > 0 and 0 <= runs[0]["wait"] <= 1


# ---- the live screen ----


class Live:
    """The program in a pseudo terminal, with a terminal emulator that shows its screen."""

    def __init__(self, program, columns, rows, *arguments, **environment):
        self.screen = pyte.Screen(columns, rows)
        self.stream = pyte.ByteStream(self.screen)
        self.master, slave = os.openpty()
        self.resize(columns, rows)
        self.before = termios.tcgetattr(slave)
        self.raw = b""
        self.process = subprocess.Popen(
            [program, "top", *arguments],
            stdin=slave,
            stdout=slave,
            stderr=slave,
            env={**os.environ, "TERM": "linux", "LC_ALL": "C.UTF-8", **environment},
            start_new_session=True,
            preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),
        )
        self.slave = slave

    def resize(self, columns, rows):
        fcntl.ioctl(self.master, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
        self.screen.resize(rows, columns)

    def lines(self):
        return [line.rstrip() for line in self.screen.display]

    def wait_for(self, condition, seconds=20):
        """Reads until `condition(lines)` is true."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            if select.select([self.master], [], [], 0.1)[0]:
                part = os.read(self.master, 65536)
                self.raw += part
                self.stream.feed(part)
            if condition(self.lines()):
                return self.lines()
        raise AssertionError("\n".join(self.lines()))

    def drawn(self):
        return self.wait_for(lambda lines: lines[0].startswith("stoker top") and lines[-1].startswith("q quit"))

    def press(self, keys):
        os.write(self.master, keys.encode())

    def end(self):
        """The exit status; the terminal is restored."""
        status = self.process.wait(20)
        while select.select([self.master], [], [], 0.2)[0]:
            self.raw += os.read(self.master, 65536)
        assert termios.tcgetattr(self.slave) == self.before
        os.close(self.master)
        os.close(self.slave)
        return status


@pytest.fixture
def live(program):
    started = []

    def start(columns, rows, *arguments, **environment):
        started.append(Live(program, columns, rows, *arguments, **environment))
        return started[-1]

    yield start
    for one in started:
        if one.process.poll() is None:
            one.process.kill()
            one.process.wait()


@pytest.mark.parametrize("columns, rows", [(60, 24), (140, 40)])
def test_the_screen_fits(live, fake_driver, columns, rows):
    screen = live(columns, rows, **fake_driver)
    lines = screen.drawn()
    starts = [line.split()[0] for line in lines if line and line[0] != " "]
    assert starts == ["stoker", *SECTIONS, "q"]
    gpu = next(line for line in lines if line.startswith("GPU 0"))
    assert "87 %" in gpu and "60.0 of 80.0 GiB" in gpu and ("Made-up H100" in gpu) == (columns == 140)
    header = next(line for line in lines if line.startswith("Process"))
    assert header.endswith("command") and ("threads" in header) == (columns >= 80)
    screen.press("q")
    assert screen.end() == 0


def test_a_narrow_screen_leaves_columns_out_and_cuts_no_number(live, held_run):
    held_run("\n".join(step_line(step, loss=2.0, ready=1) for step in range(1, 301)))
    screen = live(40, 60)
    lines = screen.wait_for(lambda lines: any("made-up" in line for line in lines))
    header = next(line for line in lines if line.startswith("Run"))
    row = next(line for line in lines if "made-up" in line)
    assert header.split() == ["Run", "wait", "images/s"]
    assert row.split() == ["made-up", "10", "%", "6,400"]
    disks = next((line for line in lines if line.startswith("Disk")), "Disk read MB/s busy")
    assert disks.split() == ["Disk", "read", "MB/s", "busy"]
    assert next(line for line in lines if line.startswith("Process")).split() == ["Process", "cores", "command"]
    screen.press("q")
    assert screen.end() == 0


@pytest.mark.parametrize("columns, rows", [(1, 1), (300, 100)])
def test_no_size_breaks_it(live, columns, rows):
    screen = live(columns, rows)
    screen.wait_for(lambda lines: lines[0].startswith("stoker top"[:columns]) or lines[0].startswith("q"))
    screen.press("q")
    assert screen.end() == 0


def test_the_keys(live):
    screen = live(100, 30)
    assert screen.drawn()[-1] == "q quit  p pause  s sort: CPU  + - every 2 s"
    screen.press("s")
    screen.wait_for(lambda lines: "sort: memory" in lines[-1])
    screen.press("+")
    screen.wait_for(lambda lines: "every 4 s" in lines[-1])
    screen.press("---")
    screen.wait_for(lambda lines: "every 0.5 s" in lines[-1])
    screen.press("p")
    clock = screen.wait_for(lambda lines: "p continue" in lines[-1])[0]
    time.sleep(1.2)
    screen.press("s")
    assert screen.wait_for(lambda lines: "sort: reads" in lines[-1])
    screen.press("p")
    screen.wait_for(lambda lines: "p pause" in lines[-1] and lines[0] != clock)
    screen.press("q")
    assert screen.end() == 0


def test_sorting_takes_no_new_reading(live, held_run):
    folder = held_run("\n".join(step_line(step) for step in range(1, 301)))
    screen = live(140, 40, "--interval", "60")
    screen.wait_for(lambda lines: any("made-up" in line and " 300 " in line for line in lines))
    (folder / "metrics.jsonl").write_text("\n".join(step_line(step) for step in range(1, 778)))
    screen.press("s")
    lines = screen.wait_for(lambda lines: "sort: memory" in lines[-1])
    assert any("made-up" in line and " 300 " in line for line in lines)
    first = next(i for i, line in enumerate(lines) if line.startswith("Process")) + 1
    memory = [float(line.split()[2]) for line in lines[first:-1] if line]
    assert memory == sorted(memory, reverse=True)
    screen.press("q")
    assert screen.end() == 0


def test_the_screen_follows_the_window(live):
    screen = live(140, 40, LINES="24", COLUMNS="80")  # as a parent process may have set them
    screen.drawn()
    screen.resize(60, 20)
    screen.wait_for(lambda lines: lines[19].startswith("q quit") and any(line.startswith("CPU") for line in lines))
    screen.press("q")
    assert screen.end() == 0


@pytest.mark.parametrize("how", ["key", signal.SIGTERM])
def test_signals_leave_the_terminal_clean(live, how):
    screen = live(80, 24, TERM="xterm-256color")
    screen.wait_for(lambda lines: "quit" in lines[-1])
    if how == "key":
        screen.press("\x03")
        assert screen.end() == 128 + signal.SIGINT
    else:
        screen.process.send_signal(how)
        assert screen.end() == 128 + how
    assert b"\x1b[?1049l" in screen.raw  # back from the alternate screen


def test_colours_only_where_the_terminal_has_them(live, fake_driver):
    def codes(kind):
        screen = live(80, 24, TERM=kind, FAKE_NVML="hot", **fake_driver)
        screen.wait_for(lambda lines: "quit" in lines[-1])
        screen.press("q")
        assert screen.end() == 0
        return screen.raw

    assert b"\x1b[31m" in codes("linux") or b";31m" in codes("linux")
    assert b"31m" not in codes("vt100")


def test_an_unknown_terminal_is_named(live):
    screen = live(80, 24, TERM="no-such-terminal")
    assert screen.process.wait(20) not in (0, -signal.SIGSEGV)
    screen.end()
    text = screen.raw.decode()
    assert "TERM=no-such-terminal" in text and "stoker top --once" in text


def test_ascii_where_the_locale_has_no_blocks(live, fake_driver):
    screen = live(80, 24, LC_ALL="C", **fake_driver)
    lines = screen.drawn()
    gpu = next(line for line in lines if line.startswith("GPU 0"))
    assert "##########.." in gpu and "\n".join(lines).isascii()
    screen.press("q")
    assert screen.end() == 0
