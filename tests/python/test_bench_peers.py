# The script of `stoker bench pipeline --peers` with fake peers of known speed: its times and counts, and that a peer
# that cannot be measured is skipped with a reason.
import json
import subprocess
import sys
import textwrap
import time
import xml.etree.ElementTree as xml
from dataclasses import dataclass

import pytest

from conftest import ROOT

FOLDER = ROOT / "bench/peers/pipeline"
sys.path.insert(0, str(FOLDER))

import compare  # noqa: E402
import entries  # noqa: E402
import environments  # noqa: E402
from environments import Skipped  # noqa: E402
from report import plot, table  # noqa: E402
from session import Session  # noqa: E402

# A peer that takes 20 ms per batch. With `busy` a child process uses the CPU meanwhile.
FAKE = """
import subprocess, sys, time
sys.path.insert(0, {folder!r})
import numpy as np
import protocol
protocol.SETTLE = 1

def batches(task, data):
    print("libraries may print what they like")
    while True:
        begin = time.perf_counter()
        if {busy}:
            subprocess.run([sys.executable, "-c", "sum(range(3_000_000))"], check=True)
        time.sleep(max(0, 0.02 - (time.perf_counter() - begin)))
        yield {batch}

protocol.serve(lambda task: protocol.Opened(task.data, None), batches)
"""
GOOD = "np.clip(np.random.default_rng().normal(size=(task.batch, 3, task.size, task.size)), -2.1, 2.6).astype(np.float32)"


@pytest.fixture
def fake(tmp_path):
    def command(batch=GOOD, busy=False):
        script = tmp_path / f"fake{len(list(tmp_path.iterdir()))}.py"
        script.write_text(textwrap.dedent(FAKE).format(folder=str(FOLDER), batch=batch, busy=busy))
        (tmp_path / "data").mkdir(exist_ok=True)
        (tmp_path / "data/a.jpg").write_bytes(b"12345")
        place = ["--data", str(tmp_path / "data"), "--work", str(tmp_path), "--size", "16", "--batch", "8"]
        return [sys.executable, str(script), *place]

    return command


@pytest.fixture
def session(fake):
    opened = []

    def start(*given, **options):
        opened.append(Session(fake(*given, **options)))
        return opened[-1]

    yield start
    for one in opened:
        one.close()


def test_a_round_is_timed_from_outside(session):
    one = session()
    assert one.bytes_on_disk == 5 and one.first_seconds >= 0.02
    assert 0.2 <= one.round(10).seconds < 2


def test_processor_time_counts_children(session):
    quiet, busy = session(), session(busy=True)
    assert busy.round(10).cpu_seconds > 0.1 + quiet.round(10).cpu_seconds


def test_memory_is_that_of_all_processes(session):
    held = "globals().setdefault('held', np.ones(64 << 20, np.uint8))"
    assert session(f"[{held}, {GOOD}][1]").peak_mb(10) > 64


def test_between_rounds_it_is_stopped(session):
    one = session()
    time.sleep(0.1)
    assert [fields[0] for _, fields in one.pids()] == ["T"]


@pytest.mark.parametrize("batch", [f"{GOOD}[:, :, ::2]", f"{GOOD} * 0"])
def test_wrong_work_is_no_result(session, batch):
    with pytest.raises(Skipped, match="Error"):
        session(batch).round(1)


def test_a_peer_that_hangs_is_skipped(fake):
    with pytest.raises(Skipped):
        Session(fake("time.sleep(100)"), patience=1.5)


@pytest.mark.slow
def test_a_failed_install_is_a_reason(tmp_path, monkeypatch):
    (tmp_path / "requirements").mkdir()
    (tmp_path / "requirements/none.txt").write_text("./not-there\n")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(environments, "HERE", tmp_path)
    with pytest.raises(Skipped, match="none.txt.*not-there"):
        environments.interpreter("none")
    assert not list(tmp_path.glob("cache/stoker/peers/*/complete"))


def test_every_peer_has_its_files():
    for entry in entries.ENTRIES:
        if isinstance(entry, entries.Peer):
            assert (FOLDER / entry.script).is_file()
            assert (FOLDER / "requirements" / f"{entry.environment}.txt").is_file()
    names = [entry.name for entry in entries.ENTRIES]
    assert len(set(names)) == len(names)


@dataclass
class Fake:
    words: list
    name: str = "fake"
    setting: str = "20 ms a batch"

    def command(self, work, workers):
        return self.words


def test_a_whole_comparison(program, drawn, fake, tmp_path, monkeypatch, capfd):
    broken = Fake(fake("1 / 0"), name="broken")
    monkeypatch.setattr(compare, "ENTRIES", [Fake(fake()), broken, entries.Stoker("Stoker, folder", "", "as it is")])
    monkeypatch.setattr(compare, "ENOUGH", 30)
    options = ["--rounds", "2", "--batches", "5", "--batch", "8", "--size", "16", "--workers", "1"]
    place = ["--stoker", str(program), "--data", str(drawn), "--plot", str(tmp_path / "plot.svg")]
    monkeypatch.setattr(sys, "argv", ["compare.py", *place, *options, "--json"])
    compare.main()
    document = json.loads(capfd.readouterr().out)
    assert document["copies"] == 2 and [entry["name"] for entry in document["skipped"]] == ["broken"]
    assert "ZeroDivisionError" in document["skipped"][0]["reason"]
    peer, ours = document["results"]
    assert (peer["name"], ours["name"]) == ("fake", "Stoker, folder")
    assert all(len(result["rounds"]) == 2 and result["peak_mb"] > 1 for result in document["results"])
    # The clock of a round starts in another process, so most of the five batches may have begun before it on a busy
    # machine.
    assert 20 < peer["images_per_second"] <= 5 * 8 / 0.02
    assert ours["bytes_on_disk"] == 2 * sum(path.stat().st_size for path in drawn.rglob("*.jpg"))
    xml.parse(tmp_path / "plot.svg")
    rows = [line for line in table(document["results"]).splitlines() if line.startswith("| ")]
    assert len(rows) == 3 and len({row.count("|") for row in rows}) == 1
    picture = plot(document["results"])
    assert "Stoker, folder" in picture and ">other systems</text>" in picture


def test_an_unknown_peer_is_named(drawn):
    command = [sys.executable, FOLDER / "compare.py", "--data", drawn, "--peer", "nonsense"]
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True)
    assert done.returncode == 1 and '"nonsense"' in done.stderr and '"tf.data"' in done.stderr


def test_a_folder_without_photographs_is_refused(tmp_path):
    command = [sys.executable, FOLDER / "compare.py", "--data", tmp_path]
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True)
    assert done.returncode == 1 and str(tmp_path) in done.stderr and done.stdout == ""
