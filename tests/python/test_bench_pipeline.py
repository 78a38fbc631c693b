# `stoker bench pipeline`: its batches equal those of `show`, its rates those of an external clock.
import re
import signal
import statistics
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

OPS = '{op = "random_resized_crop", size = 32}, {op = "horizontal_flip"}, {op = "normalize", preset = "imagenet"}'
SMALL = {"--size": 32, "--batch": 8, "--workers": 2}


@pytest.fixture
def pipeline(stoker, drawn):
    """Runs it on small data; options in the dict `small` override SMALL."""

    def run(*options, small=None, **more):
        given = [word for pair in (SMALL | (small or {})).items() for word in pair]
        return stoker("bench", "pipeline", "--data", drawn, *given, *options, **more)

    return run


def test_the_document(pipeline, drawn):
    found = pipeline("--rounds", 3, "--batches", 4, "--json").json()
    assert (found["data"], found["format"], found["samples"]) == (str(drawn), "image_folder", 24)
    assert (found["size"], found["batch"], found["batches"], found["workers"]) == (32, 8, 4, 2)
    assert len(found["rounds"]) == 3 and found["images_per_second"] == statistics.median(found["rounds"]) > 0
    assert found["cpu_seconds_per_1000"] == statistics.median(found["cpu_rounds"]) > 0
    assert found["first_batch_ms"] > 0 and 1 < found["peak_rss_mb"] < 200
    assert found["bytes_on_disk"] == sum(path.stat().st_size for path in drawn.rglob("*.jpg"))


def test_its_batches_are_those_of_show(pipeline, stoker, drawn, recipe, tmp_path):
    found = pipeline("--rounds", 1, "--batches", 1, "--json", "--npy", "first.npy").json()
    first = np.load(tmp_path / "first.npy")
    assert first.shape == (8, 3, 32, 32) and first.dtype == np.float32
    assert sorted(found["first_batch"]) != found["first_batch"], "expected a shuffled order"
    rules = recipe(ops=OPS, train=str(drawn), data="batch_size = 8")
    for place, index in enumerate(found["first_batch"]):
        stoker("show", drawn, "--recipe", rules, "--index", index, "--npy", "one.npy")
        assert np.array_equal(np.load(tmp_path / "one.npy"), first[place]), index


def test_a_clock_outside_sees_the_same(pipeline):
    def run(batches):
        begin = time.monotonic()
        found = pipeline("--rounds", 1, "--batches", batches, "--json", small={"--size": 160}).json()
        return time.monotonic() - begin, found

    few, _ = run(10)
    many, found = run(310)
    outside = 300 * 8 / (many - few)
    assert 0.5 < found["images_per_second"] / outside < 2


def test_data_smaller_than_a_batch(pipeline):
    found = pipeline("--rounds", 1, "--batches", 3, "--json", small={"--batch": 64}).json()
    assert sorted(found["first_batch"]) == list(range(24)) and found["images_per_second"] > 0


def test_the_table(pipeline):
    lines = pipeline("--rounds", 2, "--batches", 2).out.splitlines()
    assert re.fullmatch(r".+: 24 samples \(image_folder\), batch 8, 2 workers", lines[0])
    assert [line.split()[0] for line in lines[3:]] == ["round", "round", "median"]
    assert re.fullmatch(r"median +[\d,]+ +\d+\.\d{3} +[\d.]+ ms +\d+ MB +[\d.]+ \w+", lines[-1]), lines[-1]


def test_measured_from_outside(program, drawn, tmp_path):
    command = [program, "bench", "pipeline", "--serve", "--data", drawn, *[word for pair in SMALL.items() for word in pair]]
    done = subprocess.run([str(word) for word in command], cwd=tmp_path, input="2\n1\n", capture_output=True, text=True)
    size = sum(path.stat().st_size for path in drawn.rglob("*.jpg"))
    assert done.stdout.splitlines() == [f"open {size}", "first", "begin", "end", "begin", "end"], done.stderr


@pytest.mark.parametrize(
    "options, words",
    [(["--batches", "0"], "--batches"), (["--serve", "--json"], "--serve"),
     (["--plot", "x.svg"], "--peers")],
)
def test_wrong_usage(pipeline, options, words):
    done = pipeline(*options, status=2)
    assert words in done.err and "`stoker bench pipeline --help`" in done.err


def test_data_that_is_not_there(stoker):
    assert "no/where" in stoker("bench", "pipeline", "--data", "no/where", status=1).err


def catches(pid, number):
    status = Path(f"/proc/{pid}/status").read_text()
    return int(re.search(r"SigCgt:\s*(\w+)", status)[1], 16) >> (number - 1) & 1


def test_a_signal_ends_it(program, drawn):
    number = signal.SIGINT
    command = [program, "bench", "pipeline", "--data", drawn, "--batches", "100000000", "--rounds", "1"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    deadline = time.monotonic() + 60
    while not catches(process.pid, number):
        assert process.poll() is None and time.monotonic() < deadline
        time.sleep(0.02)
    process.send_signal(number)
    out, err = process.communicate(timeout=30)
    assert (process.returncode, out) == (128 + number, "")
    assert "stopped by signal 2" in err.splitlines()[-1]


@pytest.mark.parametrize("option, name", [("--python", "no/python"), ("--peers-script", "no.py")])
def test_peers_that_cannot_be_started(pipeline, tmp_path, option, name):
    (tmp_path / "script.py").write_text("raise SystemExit(3)")
    given = {"--python": sys.executable, "--peers-script": "script.py"} | {option: name}
    done = pipeline("--peers", *[word for pair in given.items() for word in pair], status=1)
    assert done.err.count("\n") == 1 and done.err.startswith(f"stoker: [{name}] ") and option in done.err


def test_the_peers_script_gets_the_settings(pipeline, program, drawn, tmp_path):
    (tmp_path / "script.py").write_text("import sys; print(*sys.argv[1:]); sys.exit(3)")
    peers = ["--peers", "--python", sys.executable, "--peers-script", "script.py", "--peer", "tf.data", "--json"]
    words = pipeline(*peers, "--rounds", 2, "--batches", 9, "--plot", "a b.svg", status=3).out
    expected = f"--stoker {program} --data {drawn} --size 32 --batch 8 --rounds 2 --batches 9 --workers 2 --peer tf.data"
    assert words == f"{expected} --plot a b.svg --json\n"
