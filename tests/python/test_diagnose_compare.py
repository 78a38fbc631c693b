# `stoker diagnose A B`: two recorded runs are compared. The folders are written here as docs/records.md describes them,
# and one pair is recorded by torch.profiler.
import json
import random

import pytest

FACTS = {
    "type": "facts",
    "schema": 1,
    "step": 0,
    "writer": "torch",
    "program": "train.py",
    "rank": 0,
    "world_size": 1,
    "software": {"torch": "2.11.0", "stoker": "0.1.0"},
    "host": {"cores": 8, "affinity": 8, "ranks": 1, "memory_bytes": 2**35, "processor": "Xeon"},
    "device": {"type": "cpu", "fp32_flops": 1.1e11},
    "data": {"format": "image folder", "codec": "jpeg", "workers": 4, "prefetch": 8, "loader": "DataLoader"},
    "train": {"model": "ResNet", "batch_size": 64, "precision": "bf16", "optimizer": "SGD", "threads": 4},
}
PHASES = {"wait": 800, "copy": 200, "forward": 7000, "backward": 13000, "optimizer": 900, "unmeasured": 300}
STAGES = {"read": 60, "entropy": 0, "pixels": 300, "augment": 150}


def merged(base, changes):
    return {
        key: merged(value, changes[key]) if isinstance(value, dict) and isinstance(changes.get(key), dict) else value
        for key, value in (base | {k: v for k, v in changes.items() if not isinstance(v, dict)}).items()
    } | {key: value for key, value in changes.items() if key not in base}


def lines_of(seed, facts, phases, stages, steps=400, samples=64, busy=0.4, cores=3.0, syncs=(), lasting=0.8):
    """Steps whose noise of 6 % lasts over its neighbours, in intervals of 50."""
    rng = random.Random(seed)
    yield merged(FACTS, facts)
    state, own = 0.0, 1 + rng.gauss(0, 0.004)
    sums, us = {}, 0
    for step in range(1, steps + 1):
        state = lasting * state + (1 - lasting**2) ** 0.5 * rng.gauss(0, 1)
        times = {name: int(value * own * (1 + 0.06 * state)) for name, value in (PHASES | phases).items()}
        sums = {name: sums.get(name, 0) + value for name, value in times.items()}
        us += sum(times.values())
        yield {"type": "step", "schema": 1, "step": step, "epoch": 1, "rank": 0, "samples": samples, "us": times}
        if step % 50 == 0:
            work = {name: value * samples * 50 for name, value in (STAGES | stages).items()}
            workers = merged(FACTS, facts)["data"]["workers"]
            work |= {"blocked": max(0, workers * us - sum(work.values())), "cpu": 0.9 * sum(work.values())}
            yield {
                "type": "interval", "schema": 1, "step": step, "rank": 0, "first_step": step - 49, "last_step": step,
                "seconds": us / 1e6, "us": sums, "workers_us": work | {"samples": 50 * samples}, "syncs": list(syncs),
                "user_seconds": cores * us / 1e6, "system_seconds": 0, "busy_share": busy,
            }  # fmt: skip
            sums, us = {}, 0


@pytest.fixture
def record(tmp_path):
    """Writes a folder of records, and returns its name."""

    def write(name, seed=1, facts=(), phases=(), stages=(), **options):
        folder = tmp_path / name
        folder.mkdir()
        rows = lines_of(seed, dict(facts), dict(phases), dict(stages), **options)
        (folder / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
        return name

    return write


def compared(stoker, a, b, *options, status=0):
    return stoker("diagnose", a, b, *options, "--json", status=status).json()


PLANTED = {
    "data.workers": {"facts": {"data": {"workers": 1}}, "phases": {"wait": 12000}},
    "data.prefetch": {"facts": {"data": {"prefetch": 1}}, "phases": {"wait": 9000}},
    "workers.read": {"phases": {"wait": 15000}, "stages": {"read": 2100}},
    "workers.augment": {"phases": {"wait": 11000}, "stages": {"augment": 1900}},
    "train.precision": {"facts": {"train": {"precision": "fp32"}}, "phases": {"forward": 12000, "backward": 24000}},
    "software.torch": {"facts": {"software": {"torch": "2.12.0"}}, "phases": {"forward": 8200, "backward": 15100}},
    "train.threads": {"facts": {"train": {"threads": 1}}, "phases": {"forward": 15000, "backward": 30000}},
    "train.optimizer": {"facts": {"train": {"optimizer": "AdamW"}}, "phases": {"optimizer": 3600}},
    "syncs.train.py:41": {
        "phases": {"sync": 4000},
        "syncs": [{"place": "train.py:41", "count": 50, "us": 200000}],
    },
    "train.batch_size": {
        "facts": {"train": {"batch_size": 16}},
        "samples": 16,
        "phases": {"forward": 2600, "backward": 5100, "wait": 200, "copy": 90},
    },
    "host.cores": {
        "facts": {"host": {"cores": 2, "affinity": 2}},
        "phases": {"wait": 9000, "forward": 11000, "backward": 21000, "optimizer": 1400, "unmeasured": 500},
        "stages": {"read": 90, "pixels": 480, "augment": 240},
        "cores": 1.9,
        "busy": 0.95,
    },
    "load.other_processes": {
        "phases": {"wait": 2000, "forward": 12000, "backward": 22000, "optimizer": 1500, "unmeasured": 600},
        "busy": 0.98,
        "cores": 3.0,
    },
}


@pytest.mark.parametrize("cause", PLANTED)
def test_a_planted_cause_is_named(stoker, record, cause):
    options = PLANTED[cause]
    found = compared(stoker, record("a"), record("b", seed=2, **options))
    assert found["causes"][:1] == [cause], found["verdict"]["text"]
    assert found["differences"][0]["name"] + " " in found["verdict"]["text"]
    load = cause.startswith("load.")  # others may be all of it
    assert found["verdict"]["outcome"] == ("unclear" if load else "slower")
    assert found["ratio"]["low"] < found["ratio"]["expected"] < found["ratio"]["high"]


@pytest.mark.parametrize("seed", range(10))
def test_equal_runs_raise_no_alarm(stoker, record, seed):
    noise = {"lasting": [0, 0.8, 0.95][seed % 3], "steps": [400, 150][seed % 2]}
    a, b = record("a", seed=100 + 2 * seed, **noise), record("b", seed=101 + 2 * seed, **noise)
    found = compared(stoker, a, b, "--fail-above", "0")
    assert found["verdict"]["outcome"] == "same" and found["causes"] == [], found["verdict"]["text"]
    assert found["failed"] is False


def test_the_exit_status_says_whether_it_became_slower(stoker, record):
    a, b = record("a"), record("b", seed=2, phases={"forward": 10000})
    done = stoker("diagnose", a, b, "--fail-above", "5%", status=3)
    assert "B is slower than A by more than 5%" in done.err
    assert done.out.startswith("B takes 1.1") and "forward grew by" in done.out
    assert compared(stoker, a, b, "--fail-above", "0.05", status=3)["failed"] is True
    assert compared(stoker, a, b, "--fail-above", "40%")["failed"] is False
    assert compared(stoker, b, a, "--fail-above", "5%")["verdict"]["outcome"] == "faster"


def test_the_text_names_all_that_differs(stoker, record):
    changes = {"data": {"workers": 1}, "software": {"torch": "2.12.0"}, "device": {"fp32_flops": 1.2e11}}
    a, b = record("a"), record("b", seed=2, facts=changes, phases={"wait": 12000}, cores=1.5)
    text = stoker("diagnose", a, b).out
    assert "* data.workers" in text and "software.torch" in text
    assert "fp32_flops" not in text, "a measurement that varies"
    assert "rules that fire in B alone" in text and "few-workers" in text


def test_against_names_the_base(stoker, record):
    a, b = record("a"), record("b", seed=2, phases={"wait": 12000})
    two = compared(stoker, a, b)
    assert stoker("diagnose", b, "--against", a, "--json").json() == two


def test_arguments_that_are_no_pair_are_refused(stoker, record):
    a, b = record("a"), record("b", seed=2)
    assert "--fail-above" in stoker("diagnose", a, "--fail-above", "5%", status=1).err
    assert "--fail-above" in stoker("diagnose", a, b, "--fail-above", "much", status=1).err
    assert "--html" in stoker("diagnose", a, b, "--html", "page.html", status=1).err
    assert "--against" in stoker("diagnose", a, b, record("c"), status=1).err
    stoker("diagnose", "--against", a, status=2)
    assert stoker("diagnose", a, "--json").json()["kind"] == "run", "one folder is diagnosed as ever"


def test_runs_compare_says_the_same(stoker, record, tmp_path):
    a, b = record("a"), record("b", seed=2, facts={"data": {"workers": 1}}, phases={"wait": 12000})
    for run in (a, b):
        (tmp_path / run / "recipe.toml").write_text('[data]\ntrain = "synth:digits"\n')
    verdict = compared(stoker, a, b)["verdict"]["text"]
    assert verdict in stoker("runs", "compare", a, b).out
    first, second = stoker("runs", "compare", a, b, "--json").json()["speed"]
    assert first is None and second["verdict"]["text"] == verdict


def test_traces_are_compared(stoker, tmp_path):
    torch = pytest.importorskip("torch")
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    weights = torch.randn(256, 256)

    def trace(name, passes):
        schedule = torch.profiler.schedule(wait=1, warmup=1, active=20)
        path = str(tmp_path / name)
        with torch.profiler.profile(
            activities=[torch.profiler.ProfilerActivity.CPU],
            schedule=schedule,
            on_trace_ready=lambda prof: prof.export_chrome_trace(path),
        ) as prof:
            for _ in range(22):
                for _ in range(passes):
                    weights @ weights
                prof.step()
        return name

    a, b = trace("a.json", 10), trace("b.json", 60)
    torch.set_num_threads(threads)
    assert stoker("diagnose", a, b, "--json").json()["kind"] == "trace", "two traces are ranks"
    found = stoker("diagnose", b, "--against", a, "--json").json()
    assert found["verdict"]["outcome"] == "slower" and found["ratio"]["expected"] > 2
    assert max(found["phases"], key=lambda phase: phase["change"]["expected"])["phase"] == "forward"
