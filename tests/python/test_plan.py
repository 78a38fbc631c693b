# `stoker plan`: the document, the tables and their limits. tests/dist/cost_model_test.cpp has the formulas.
import json

import pytest
from conftest import PROGRAM

RECIPE = """
seed = 1
device = "cpu"
[data]
train = "synth:digits?count=400"
batch_size = 32
workers = 1
train_ops = [{op = "normalize", preset = "mnist"}]
[model]
hidden = [512, 512]
[train]
threads = 1
"""
TCP = 1448 / (1514 + 33)  # of a link's bits: the payload of packets and acknowledgements
PARAMETERS = 784 * 512 + 512 + 512 * 512 + 512 + 512 * 10 + 10


@pytest.fixture
def plan(stoker, tmp_path):
    (tmp_path / "r.toml").write_text(RECIPE)
    return lambda *arguments, **options: stoker("plan", "r.toml", *arguments, **options)


def test_the_document_has_each_way_for_all_ranks(plan, tmp_path):
    found = plan("--ranks", 4, "--link", "100Mb", "--latency", 50, "--json").json()
    assert [path.name for path in tmp_path.iterdir()] == ["r.toml"]
    assert (found["parameters"], found["samples_per_rank"]) == (PARAMETERS, 8)
    assert found["link"] == {
        "bytes_per_second": 12.5e6,
        "payload_share": pytest.approx(TCP),
        "latency_seconds": 50e-6,
        "host_seconds_per_byte": 0,
    }
    rows = [(row["ranks"], row["shard"]) for row in found["plans"]]
    assert rows == [(ranks, shard) for ranks in (4, 8, 64, 512, 4096) for shard in ("none", "optimizer", "full")]
    whole, sharded, full = found["plans"][:3]
    # Two rings of three quarters of the bytes: 4.3 MB at 12.5 MB/s.
    wire = 2 * 0.75 * 4 * PARAMETERS / 12.5e6 / TCP
    assert whole["communication_seconds"] == pytest.approx(wire, rel=0.01)
    assert sharded["communication_seconds"] == pytest.approx(1.5 * wire, rel=0.01)
    # Two all-gathers of the weights, but one of the last layer's, and a reduce-scatter of the gradients.
    last = 4 * (512 * 10 + 10)
    assert full["sent_bytes"] == 0.75 * (3 * 4 * PARAMETERS - last)
    assert full["communication_seconds"] == pytest.approx(full["sent_bytes"] / 12.5e6 / TCP, rel=0.01)
    assert whole["sent_bytes"] == 1.5 * 4 * PARAMETERS and sharded["sent_bytes"] == 2.25 * 4 * PARAMETERS
    # The second layer's weights and gradients, the first's weights that are gathered, with Gloo's copy, and the last's
    # gradients that are reduced.
    first, second = 4 * (784 * 512 + 512), 4 * (512 * 512 + 512)
    assert full["memory"]["buffers"] == 2 * (first + second) + last
    for row in found["plans"]:
        compute = row["step_seconds"] - row["exposed_seconds"]
        assert compute <= found["one_process"]["step_seconds"] * (1 + 1e-9)
        assert row["efficiency"] == pytest.approx(found["one_process"]["step_seconds"] / row["step_seconds"])
        memory = row["memory"]
        assert memory["bytes"] == sum(value for part, value in memory.items() if part != "bytes")
        whole_share = row["ranks"] if row["shard"] == "full" else 1
        assert memory["parameters"] == memory["gradients"] == -(-4 * PARAMETERS // whole_share)
        share = row["ranks"] if row["shard"] != "none" else 1
        assert memory["optimizer"] == pytest.approx(8 * PARAMETERS / share, rel=1e-3, abs=64)
    activations = whole["memory"]["activations"]
    assert 8 * 784 * 4 < activations < 8 * 784 * 4 + 4 * 4 * PARAMETERS


def test_keys_of_the_recipe_change_the_plan(plan):
    def first(*sets):
        return plan("--ranks", 2, "--link", "10Mb", "--json", *(word for key in sets for word in ("--set", key))).json()["plans"][0]

    plain = first()
    half = first('train.compress_gradients="bf16"')
    assert half["communication_seconds"] == pytest.approx(plain["communication_seconds"] / 2, rel=0.01)
    assert first('data.val="synth:digits?count=60"', "train.early_stop=3")["ranks"] == 2
    assert first("train.ema=0.9")["memory"]["average"] == 4 * PARAMETERS
    assert plain["memory"]["average"] == 0
    assert first('optimizer.name="sgd"')["memory"]["optimizer"] < 64


def test_times_are_stretched_to_another_device(plan):
    found = plan("--ranks", 2, "--step-ms", 500, "--json").json()
    assert found["one_process"]["step_seconds"] == pytest.approx(0.5)
    assert found["plans"][0]["efficiency"] > 0.99


@pytest.mark.slow
def test_processes_measure_at_once(stoker, plan):
    def launched(*words, **options):
        return stoker("launch", "--nproc-per-node", 2, "--", PROGRAM, "plan", "r.toml", *words, **options)

    found = launched("--ranks", 4, "--link", "10Mb", "--json").json()
    assert (found["processes"], found["samples_per_rank"], found["plans"][0]["ranks"]) == (2, 8, 4)
    row, alone = found["plans"][0], found["one_process"]["step_seconds"]
    assert row["step_seconds"] == pytest.approx(alone + row["host_seconds"] + row["exposed_seconds"])
    assert found["link"]["host_seconds_per_byte"] >= 0
    out = launched().out
    assert "the slowest of 2 processes at once" in out and "for each MiB sent" in out and "16 of 32 samples" in out
    assert "expected at least the 2 processes that measure at once, got 1" in launched("--ranks", 1, status=1).err


def test_the_tables_name_every_part(plan):
    out = plan("--ranks", 2).out
    for text in ("efficiency", "exposed ms", "sent MiB", "MiB a rank", "activations", "4096", "16 of 32 samples"):
        assert text in out, out
    # A line of titles, and one of each of five numbers of ranks with each train.shard that pays.
    tables = [part.splitlines() for part in out.split("\n\n") if "ranks" in part.split("\n")[0] and "shard" in part]
    (times, memory) = (len(table) for table in tables)
    left_out = "neither memory nor time" in out
    assert times == memory and (11 <= times < 16 if left_out else times == 16)
    assert ("above 100 %" in out) == any(float(row.split()[3]) > 100 for row in tables[0][1:])
    assert "\\x0a" not in out, out


def test_a_mesh_gives_the_number_of_ranks(plan):
    mesh = ("--set", "train.mesh.dp=2", "--set", "train.mesh.tp=2")
    assert [row["ranks"] for row in plan("--json", *mesh).json()["plans"]] == [4, 4]
    assert "`stoker plan --ranks 4` gives as many" in plan("--ranks", 8, *mesh, status=1).err


@pytest.mark.slow
def test_only_the_samples_of_a_rank_are_held(plan):
    ops = 'data.train_ops=[{op = "resize", size = [448, 448]}, {op = "normalize", preset = "mnist"}]'  # 50 GB a batch
    sets = ("--set", "data.batch_size=65536", "--set", "data.train=synth:digits?count=65536", "--set", ops)
    assert plan("--ranks", 4096, "--json", *sets).json()["samples_per_rank"] == 16


@pytest.mark.parametrize(
    "arguments, status, message",
    [
        (("--link", "fast"), 2, "[--link] expected a speed such as 400Gb or 100Mb"),
        (("--link", "0Gb"), 2, "[--link] expected a speed"),
        (("--ranks", 0), 2, "--ranks"),
        (("--ranks", 5), 1, "[data.batch_size] expected a multiple of the 5 ranks, got 32"),
    ],
)
def test_bad_arguments_are_refused(plan, arguments, status, message):
    done = plan(*arguments, status=status)
    assert message in done.err and json.dumps(done.err).count("\\n") <= 3


def test_stages_have_rows(plan):
    sets = ("--set", "train.accumulate=4", "--set", "model.hidden=[512,512,512]")
    found = plan("--ranks", 4, "--link", "1TB", "--latency", 0, "--json", *sets).json()
    rows = found["pipelines"]
    assert [(row["pp"], row["dp"], row["micro_batches"]) for row in rows] == [(2, 2, 4), (4, 1, 4)]
    for row in rows:
        p, m = row["pp"], row["micro_batches"]
        assert row["bubble"] == pytest.approx((p - 1) / (m + p - 1)) and len(row["stages"]) == p
        assert row["efficiency"] <= 1 - row["bubble"] + 1e-6, "stages that are not equal are slower"
        assert row["activations"]["gpipe"] >= row["activations"]["1f1b"] > 0
    two, four = rows
    # A stage of four sends one activation of 8 x 512 floats forward and one gradient back, for each of 4 micro-batches.
    assert four["message_bytes"] == 4 * 2 * 4 * 8 * 512
    parameters = found["parameters"]
    assert 4 * parameters / 4 <= four["parameters"] <= two["parameters"] < 4 * parameters
    out = plan("--ranks", 4, *sets).out
    assert "4 stages: fc1 | fc2 | fc3 | fc4" in out and "bubble" in out
    few = plan("--ranks", 4).out
    assert "the bubble is large: with train.accumulate = 8 it is 11 %" in few
    assert plan("--ranks", 4, "--json", "--set", "model.hidden=[]").json()["pipelines"] == []
    mesh = ("--set", "train.mesh.pp=3", "--ranks", 6, "--set", "data.batch_size=48")
    found = plan("--json", *mesh).json()
    assert [row["pp"] for row in found["pipelines"]] == [2, 3]
    assert found["samples_per_rank"] == 24, "two copies of the model"
    assert {row["ranks"] for row in found["plans"]} == {6}, "3 divides no power of two"
    out = plan(*mesh).out
    assert "24 of 48 samples" in out and "a copy of the model has 3 stages" in out


def test_stages_are_cut_as_in_training(plan):
    sets = ("--set", "model.hidden=[16,512,512,512]", "--set", 'model.freeze=["fc2.*","fc3.*","fc4.*"]')
    found = plan("--ranks", 2, "--json", *sets).json()
    assert [row["stages"] for row in found["pipelines"]] == [["fc1", "fc2 to fc5"]], "each has a trained block"
