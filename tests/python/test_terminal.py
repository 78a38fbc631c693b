# The program at a terminal: the progress line at several widths, Ctrl-C, losses in tables, suggestions.
import fcntl
import json
import os
import re
import select
import signal
import struct
import subprocess
import sys
import termios
import time

import pytest
from terminal import on_terminal

RECIPE = """
[data]
train = "synth:digits?count=3200"
workers = 1
train_ops = [{op = "normalize", preset = "mnist"}]
val_ops = [{op = "normalize", preset = "mnist"}]
batch_size = 64
[model]
name = "mlp"
hidden = [1024, 1024]
[train]
epochs = 3
"""


class Terminal:
    """The program with a terminal of `columns` columns as its stderr."""

    def __init__(self, columns, command, cwd):
        # The slave stays open until all is read: Linux may drop what the master has not read when the last one closes.
        self.master, self.slave = os.openpty()
        fcntl.ioctl(self.slave, termios.TIOCSWINSZ, struct.pack("HHHH", 40, columns, 0, 0))
        self.process = subprocess.Popen(command, cwd=cwd, stdout=subprocess.PIPE, stderr=self.slave)
        self.data, self.shown = b"", ""

    def read_some(self, seconds=0.2):
        """Reads what is shown next; False if nothing was within `seconds`."""
        if not select.select([self.master], [], [], seconds)[0]:
            return False
        self.data += os.read(self.master, 4096)
        self.shown = self.data.decode(errors="ignore")
        return True

    def read(self, until=None):
        """Reads until `until` is shown, or to the end; True if it was shown."""
        while until is None or until not in self.shown:
            ended = self.process.poll() is not None
            if not self.read_some() and ended:
                return False
        return True

    def resize(self, columns):
        """Shown is then all that was drawn for the width before, except for a line on its way."""
        while self.read_some(0):
            pass
        fcntl.ioctl(self.master, termios.TIOCSWINSZ, struct.pack("HHHH", 40, columns, 0, 0))

    def finish(self):
        self.read()
        out = self.process.communicate(timeout=60)[0].decode()
        os.close(self.slave)
        os.close(self.master)
        return out

    def bars(self):
        """Each redrawn progress line."""
        return [line for line in re.findall(r"\r([^\r\n\x1b]+)\x1b\[K", self.shown) if line.startswith("epoch")]


@pytest.fixture
def train(program, tmp_path):
    (tmp_path / "r.toml").write_text(RECIPE)

    def start(columns, *sets):
        words = [word for text in sets for word in ("--set", text)]
        return Terminal(columns, [program, "train", "r.toml", "--out", f"run{columns}", *words], tmp_path)

    return start


LOSS_AND_TIME = [r"loss \d\.\d+", r"run \d+:\d\d"]  # the run's time, not the epoch's
# By the columns of the terminal, what some of the lines show.
SHOWN = {
    24: [],
    200: [*LOSS_AND_TIME, "━", "images/s", r"left: epoch \d+:\d\d, run \d+:\d\d$"],
    40: LOSS_AND_TIME,
    80: [*LOSS_AND_TIME, "━.* images/s"],
}


def test_the_progress_line_fits_the_terminal_of_the_moment(train):
    terminal = train(24, "train.epochs=1000")
    for columns, parts in SHOWN.items():
        terminal.resize(columns)
        before, bars = len(terminal.bars()) + 1, []
        while len(bars) < 4 or not all(any(re.search(part, bar) for bar in bars) for part in parts):
            assert terminal.process.poll() is None, (columns, bars)
            terminal.read_some()
            bars = terminal.bars()[before:]
        assert max(map(len, bars)) < columns, bars
    terminal.process.send_signal(signal.SIGINT)
    terminal.finish()


def test_the_first_of_slow_steps_is_shown(train):
    terminal = train(80, "model.hidden=[2048, 2048]", "data.batch_size=1600", "train.epochs=1", "train.compile=none")
    terminal.finish()
    assert " 50%" in terminal.bars()[0] and "loss" in terminal.bars()[0], terminal.shown
    assert "left" not in terminal.bars()[0], "one step does not tell how long the next takes"


def test_elsewhere_there_are_few_plain_lines(stoker, tmp_path):
    (tmp_path / "r.toml").write_text(RECIPE)
    err = stoker("train", "r.toml", "--out", "run", "--set", "model.hidden=[64]").err
    assert "\r" not in err and "\x1b" not in err and "━" not in err
    assert len(re.findall(r"^epoch \d", err, re.M)) < 8, err


def test_ctrl_c_is_answered_at_once(train, tmp_path):
    # A step takes seconds: the answer comes before it ends.
    terminal = train(80, "model.hidden=[4096, 4096]", "data.batch_size=3200", "train.epochs=100", "train.compile=none")
    assert terminal.read("on cpu")
    time.sleep(0.5)  # into the first step
    terminal.process.send_signal(signal.SIGINT)
    assert terminal.read("stopping after this step; press Ctrl-C again to quit now"), terminal.shown
    assert terminal.process.poll() is None and "stopped by signal" not in terminal.shown
    terminal.process.send_signal(signal.SIGINT)
    assert terminal.process.wait(60) == -signal.SIGINT
    terminal.finish()


@pytest.mark.parametrize(
    "setting, reason",
    [
        ("train.compile=none", "train.compile is none"),
        ("model.name=convnet", "on a CPU only an mlp has a fused step"),
        ("train.clip_norm=1", "the fused step of an mlp does not clip gradients"),
        ("train.accumulate=2", "does not split batches"),
        ("train.precision=bf16", "computes in float32"),
        ("train.mixup=0.2", "takes one class for each image"),
        ("optimizer.no_decay=[\"norms_and_biases\"]", "updates all parameters alike"),
    ],
)
def test_the_reason_for_an_eager_step_is_printed(stoker, tmp_path, setting, reason):
    (tmp_path / "r.toml").write_text(RECIPE)
    sets = [setting, "data.train=synth:digits?count=60", "model.hidden=[64]", "train.epochs=1", "device=cpu",
            "optimizer.weight_decay=0.1"]
    done = stoker("train", "r.toml", "--out", "run", *[word for text in sets for word in ("--set", text)])
    assert f"step: eager: {reason}" in done.err or reason in done.err.split("step: eager: ")[1], done.err
    assert json.loads((tmp_path / "run/account.json").read_text())["compiled"] in done.err


def test_large_losses_keep_the_columns(stoker, tmp_path):
    (tmp_path / "r.toml").write_text(RECIPE)
    large = '[{op = "normalize", mean = 0, std = 1e-18}]'
    sets = [f"data.train_ops={large}", f"data.val_ops={large}", "optimizer.name=sgd", "optimizer.lr=1e-30",
            "data.train=synth:digits?count=640", "model.hidden=[16]"]
    done = stoker("train", "r.toml", "--out", "run", *[word for text in sets for word in ("--set", text)])
    header, *rows = [line for line in done.err.splitlines() if re.match(r"epoch  | +\d/3 ", line)]
    assert "e+1" in rows[0]
    assert len(rows) == 3 and {len(row) for row in rows} == {len(header)}, done.err


def test_times_have_seconds_and_blocked_is_explained(stoker, tmp_path):
    (tmp_path / "r.toml").write_text(RECIPE)
    out = stoker("train", "r.toml", "--out", "run", "--set", "train.epochs=1", "--set", "model.hidden=[64]").out
    for name in ("step", "wait", "read", "blocked"):
        assert re.search(rf"^  {name} +\d+\.\d % +\d+\.\d\d s", out, re.M), out
    assert re.search(r"^where 1 loader worker spent \d+\.\d\d s, for 3,200 samples$", out, re.M), out
    assert "blocked: enough batches are ready, waiting until training takes one" in out


def test_more_epochs_print_what_the_schedule_does(stoker, tmp_path):
    (tmp_path / "r.toml").write_text(RECIPE)
    sets = ["schedule.name=one_cycle", "data.train=synth:digits?count=640", "optimizer.lr=0.01", "model.hidden=[16]"]
    sets = [word for text in sets for word in ("--set", text)]
    stoker("train", "r.toml", "--out", "run", *sets)
    more = stoker("train", "r.toml", "--out", "run", "--resume", "auto", *sets, "--set", "train.epochs=6")
    assert re.search(
        r"one_cycle covers 6 epochs instead of 3: the learning rate of the next step is 0\.00\d+, not \S*e-",
        more.err,
    ), more.err
    constant = stoker("train", "r.toml", "--out", "run", "--resume", "auto", *sets, "--set", "train.epochs=7",
                      "--set", "schedule.name=constant")
    assert "instead of" not in constant.err


def test_a_busy_machine_is_noticed(stoker, drawn):
    burn = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(2 * os.cpu_count())]
    try:
        sizes = ("--batch", "8", "--batches", "100", "--rounds", "1", "--workers", "1")
        done = stoker("bench", "pipeline", "--data", drawn, *sizes)
    finally:
        for process in burn:
            process.kill()
            process.wait()
    assert re.search(r"other processes kept \d+\.\d of \d+ cores? busy .* figures are unreliable", done.err), done.err


STEP = (
    '{"type":"step","schema":1,"step":123456789,"epoch":1,"samples":8,"loss":1.0,"lr":0.1,"batch_hash":"00","us":{"wait":1}}\n'
)


# One function wraps the help of all commands. That of bench storage has the longest word.
@pytest.mark.parametrize("words", [(), ("pack",), ("train",), ("bench", "storage"), ("runs", "list")])
def test_help_fits_the_terminal(program, tmp_path, words):
    shown = on_terminal(80, [program, *words, "--help"], tmp_path)
    to_copy = shown.index("Example:") if "Example:" in shown else len(shown)
    wide = [line for at, line in enumerate(shown) if len(line) > 80 and not (at > to_copy and line.startswith(" "))]
    assert not wide, (words, wide)
    plain = subprocess.run([program, *words, "--help"], cwd=tmp_path, capture_output=True, text=True, check=True).stdout
    assert " ".join(shown).split() == plain.split() and max(map(len, plain.splitlines())) > 80


def test_the_doctor_fits_the_terminal(program, tmp_path):
    shown = on_terminal(80, [program, "doctor"], tmp_path)
    assert len(shown) > 10
    wide = [line for line in shown if len(line) > 80 and not line.lstrip().startswith("fix: ")]
    assert not any(" " in line.strip()[:60] for line in wide), wide  # a path may be longer than a line


def test_the_list_of_runs_fits_the_terminal(program, tmp_path):
    for name, steps in (("first", ""), ("a-run-with-a-long-name-of-nearly-forty", STEP)):
        (tmp_path / "runs" / name).mkdir(parents=True)
        (tmp_path / "runs" / name / "recipe.toml").write_text(RECIPE)
        (tmp_path / "runs" / name / "metrics.jsonl").write_text(steps)
    shown = on_terminal(80, [program, "runs", "list"], tmp_path)
    assert max(map(len, shown)) <= 80, shown
    assert all(title in shown[0] for title in ("run", "epochs", "state")) and "data" not in shown[0]
    assert any("at step 123,456,789" in line for line in shown), shown
    assert "data" in on_terminal(200, [program, "runs", "list"], tmp_path)[0]
