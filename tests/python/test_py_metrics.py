# stoker.read_metrics: the lines of a run as columns.
import json

import pytest
import stoker
from conftest import run_program, small_recipe


@pytest.fixture(scope="module")
def run(program, tmp_path_factory):
    folder = tmp_path_factory.mktemp("run")
    (folder / "r.toml").write_text(small_recipe("synth:digits?count=40", "synth:digits?count=20&seed=3"))
    run_program("train", "r.toml", "--out", "run", "--set", "train.epochs=2", cwd=folder)
    return folder / "run"


def test_steps_and_epochs_are_columns(run):
    lines = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    steps = stoker.read_metrics(run)
    assert steps["step"] == list(range(1, 11)) and steps["epoch"] == [1] * 5 + [2] * 5
    wanted = [line for line in lines if line["type"] == "step"]
    assert steps["loss"] == [line["loss"] for line in wanted]
    assert steps["us.step"] == [line["us"].get("step") for line in wanted]
    epochs = stoker.read_metrics(run / "metrics.jsonl", "epoch")
    assert len(epochs["val_accuracy"]) == 2 and "type" not in epochs
    assert stoker.read_metrics(run, "facts")["train.model"][-1] == "mlp"


def test_missing_values_are_none_and_a_cut_line_is_left_out(tmp_path):
    lines = ['{"type":"step","step":1,"us":{"wait":3}}', '{"type":"step","step":2,"loss":null}', '{"type":"step","st']
    (tmp_path / "metrics.jsonl").write_text("\n".join(lines))
    assert stoker.read_metrics(tmp_path) == {"step": [1, 2], "us.wait": [3, None], "loss": [None, None]}


def test_mistakes_are_named(run, tmp_path):
    with pytest.raises(stoker.InvalidArgument, match="epoch, .*step, got 'steps'"):
        stoker.read_metrics(run, "steps")
    with pytest.raises(FileNotFoundError):
        stoker.read_metrics(tmp_path)
    (tmp_path / "metrics.jsonl").write_text('{"type":"step"}\nno json\n')
    with pytest.raises(stoker.DataError, match="line 2"):
        stoker.read_metrics(tmp_path)
    (tmp_path / "metrics.jsonl").write_text("[1]\n")
    with pytest.raises(stoker.DataError, match="line 1.*object"):
        stoker.read_metrics(tmp_path)
