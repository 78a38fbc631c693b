# Runs of imported models: the file of model.script or model.export belongs to the run and is recognised by its hash;
# other files are refused with what they are.
import json

import pytest
import torch
from conftest import run_program
from test_import import export_training
from test_weights import newest
from torch import nn

SETS = {"script": "model.script=own.pt", "export": "model.export=own.pt2"}


def save(path, activation, form="script"):
    torch.manual_seed(1)
    net = nn.Sequential(nn.Flatten(), nn.Linear(28 * 28, 8), activation(), nn.Linear(8, 10))
    if form == "script":
        torch.jit.script(net).save(path / "own.pt")
    else:
        example = (torch.randn(4, 1, 28, 28), torch.tensor([0, 1, 2, 0]))
        export_training(net, nn.CrossEntropyLoss(), example, path / "own.pt2")


@pytest.fixture
def recipe(tmp_path):
    (tmp_path / "r.toml").write_text("""
device = "cpu"
[data]
train = "synth:digits?count=300"
val = "synth:digits?count=60&seed=2"
[train]
epochs = 1
threads = 1
""")


COMMANDS = {
    "train": ["train", "r.toml", "--out", "run", "--resume", "auto", "--set", "train.epochs=2"],
    "eval": ["eval", "run"],
    "predict": ["predict", "run", "synth:digits?count=3"],
    "export": ["export", "run", "-o", "x.safetensors"],
}


@pytest.mark.parametrize("form", SETS)
def test_another_network_of_the_same_tensors_is_refused(stoker, tmp_path, recipe, form):
    save(tmp_path, nn.ReLU, form)
    stoker("train", "r.toml", "--out", "run", "--set", SETS[form])
    before = stoker("eval", "run", "--json").json()
    file = tmp_path / SETS[form].split("=")[1]
    first = file.read_bytes()
    save(tmp_path, nn.Tanh, form)
    for name, command in COMMANDS.items():
        more = ["--set", SETS[form]] if name == "train" else []
        done = stoker(*command, *more, status=1)
        line = done.err.splitlines()[-1]
        expected = f"stoker: [model.{form}] expected the file that the run began with, got {file.name}"
        assert line.startswith(expected), line
        assert f"set model.{form} to it" in line and done.out == "", line
    (tmp_path / "moved").write_bytes(first)  # a name is nothing
    again = stoker("eval", "run", "--json", "--set", f"model.{form}=moved").json()
    assert again["val_loss"] == before["val_loss"]


def test_a_checkpoint_that_does_not_tell_its_file_is_read(stoker, tmp_path, recipe):
    save(tmp_path, nn.ReLU)
    stoker("train", "r.toml", "--out", "run", "--set", SETS["script"])
    file = newest(tmp_path / "run") / "state.json"
    state = json.loads(file.read_text())
    assert len(state.pop("model_file")["hash"]) == 16 and len(state.pop("self_hash")) == 16
    file.write_text(json.dumps(state))
    save(tmp_path, nn.Tanh)
    stoker("eval", "run")
    assert "resuming after step" in stoker(*COMMANDS["train"], "--set", SETS["script"]).err
    assert "model_file" in json.loads((newest(tmp_path / "run") / "state.json").read_text())


def test_a_run_from_another_folder_says_what_it_misses(stoker, tmp_path, recipe):
    save(tmp_path, nn.ReLU)
    stoker("train", "r.toml", "--out", "run", "--set", SETS["script"])
    (tmp_path / "below").mkdir()
    export, train = ["export", "../run", "-o", "x.safetensors"], ["train", "../r.toml", "--set", SETS["script"]]
    for command in (["eval", "../run"], export, train):
        done = run_program(*command, cwd=tmp_path / "below", status=1)
        assert done.err.startswith("stoker: [model.script] expected ") and done.err.count("\n") == 1, done.err
        assert "got own.pt, which does not exist" in done.err and "--set model.script=FILE" in done.err, done.err
    run_program("eval", "../run", "--set", "model.script=../own.pt", cwd=tmp_path / "below")


def other_file(kind, path):
    torch.manual_seed(1)
    net = nn.Sequential(nn.Flatten(), nn.Linear(28 * 28, 10))
    match kind:
        case "weights":
            torch.save(net.state_dict(), path)
        case "old":
            torch.save(net.state_dict(), path, _use_new_zipfile_serialization=False)
        case "exported":
            torch.export.save(torch.export.export(net, (torch.zeros(2, 1, 28, 28),)), path)


SAVED = "got a file that torch.save wrote; write it with torch.jit.script(net).save(path)"


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        ("weights", SAVED),
        ("old", SAVED),
        ("exported", "got a .pt2 file of torch.export; model.export needs a file that export_training wrote"),
        ("training", "got a .pt2 file of export_training; set model.export instead of model.script"),
    ],
)
def test_what_is_no_torchscript_is_told_what_it_is(stoker, tmp_path, recipe, kind, text):
    if kind == "training":
        save(tmp_path, nn.ReLU, "export")
        (tmp_path / "own.pt2").rename(tmp_path / "own.pt")
    else:
        other_file(kind, str(tmp_path / "own.pt2" if kind == "exported" else tmp_path / "own.pt"))
    name = "own.pt2" if kind == "exported" else "own.pt"
    error = stoker("train", "r.toml", "--set", f"model.script={name}", status=1).err
    assert error.startswith(f"stoker: [model.script: {name}] expected ") and error.count("\n") == 1, error
    assert text in error, error
