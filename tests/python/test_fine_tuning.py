# Training from given weights: which tensors are loaded, newly initialised, frozen or refused; a resumed run does not
# need the file of weights.
import argparse
import collections
import re
import shutil

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save, save_file
from test_models_parity import ConvNet, Mlp, cifar_resnet18, make_batch, make_reference, newest, write_recipe
from test_weights import put_file
from torch import nn

FEWER, SIDE = 3, 12


@pytest.fixture
def pretrained(tmp_path):
    """Weights of a ConvNet for seven classes, and pictures of three."""
    images, labels = make_batch((3, SIDE, SIDE), 16)
    np.savez(tmp_path / "d.npz", image=images, label=labels % FEWER)
    save_file(make_reference(lambda: ConvNet(3)).state_dict(), tmp_path / "given.safetensors")
    return load_file(tmp_path / "given.safetensors")


def train(stoker, tmp_path, *sets, run="run", status=0, resume=None, optimizer='name = "adamw"\nweight_decay = 0.5'):
    write_recipe(tmp_path, "convnet", "auto", 'weights = "given.safetensors"', optimizer=optimizer)
    options = [part for each in (f"model.classes={FEWER}", *sets) for part in ("--set", each)]
    return stoker("train", "r.toml", "--out", run, *options, *(("--resume", resume) if resume else ()), status=status)


def weights_of(tmp_path, run="run"):
    return load_file(newest(tmp_path / run) / "model.safetensors")


def test_all_but_the_last_layer_is_loaded(stoker, tmp_path, pretrained):
    done = train(stoker, tmp_path, "optimizer.lr=1e-30", "optimizer.weight_decay=0")
    assert "given.safetensors: initial weights; fc.weight and fc.bias newly initialised" in done.err
    weights = weights_of(tmp_path)
    for name, value in pretrained.items():
        if "running" not in name and "batches" not in name and not name.startswith("fc"):
            assert torch.equal(weights[name], value), name
    assert weights["fc.weight"].shape == (FEWER, 256) and weights["fc.weight"].abs().max() > 0
    # A checkpoint or a run folder works too; with the same number of classes no layer is newly initialised.
    for given in ("run", f"run/checkpoints/{newest(tmp_path / 'run').name}"):
        again = f"model.weights={given}", "optimizer.lr=1e-30", "optimizer.weight_decay=0"
        done = train(stoker, tmp_path, *again, run="again")
        assert f"{given}: initial weights\n" in done.err
        assert torch.equal(weights_of(tmp_path, "again")["fc.weight"], weights["fc.weight"])
        shutil.rmtree(tmp_path / "again")


def test_names_of_pytorchs_wrappers_are_taken_off(stoker, tmp_path, pretrained):
    state = torch.compile(nn.DataParallel(make_reference(lambda: ConvNet(3)))).state_dict()
    assert "_orig_mod.module.conv5.weight" in state
    (tmp_path / "given.safetensors").unlink()  # the file holds the tensors of `pretrained`
    save_file(state, tmp_path / "given.safetensors")
    train(stoker, tmp_path, "optimizer.lr=1e-30", "optimizer.weight_decay=0")
    assert torch.equal(weights_of(tmp_path)["conv5.weight"], pretrained["conv5.weight"])


def test_averages_begin_with_the_weights(stoker, tmp_path, pretrained):
    train(stoker, tmp_path, "train.ema=0.999")
    average = load_file(newest(tmp_path / "run") / "ema.safetensors")["conv1.weight"]
    assert (average - pretrained["conv1.weight"]).abs().max() < 1e-3


def test_frozen_parameters_stay_and_have_no_state(stoker, tmp_path, pretrained):
    done = train(stoker, tmp_path, 'model.freeze=["conv*", "bn1.*"]', "train.gradient_checkpointing=true")
    every, trained = re.search(r"convnet: ([\d,]+) parameters, ([\d,]+) of them trainable", done.err).groups()
    assert every == "1,147,075" and trained == f"{2 * (64 + 128 + 128 + 256 + 256) + FEWER * 257:,}"
    weights = weights_of(tmp_path)
    state = load_file(newest(tmp_path / "run") / "optimizer.safetensors")
    for name, value in pretrained.items():
        if "running" in name:
            assert not torch.equal(weights[name], value), f"{name}: statistics move"
        elif name.startswith(("conv", "bn1.weight", "bn1.bias")):
            assert torch.equal(weights[name], value), name
            assert f"step.{name}" not in state and f"exp_avg.{name}" not in state
        elif not name.startswith("fc") and "batches" not in name:
            assert not torch.equal(weights[name], value), name
            assert f"exp_avg.{name}" in state


def test_an_mlp_freezes_too(stoker, tmp_path):
    images, labels = make_batch((1, SIDE, SIDE), 16)
    np.savez(tmp_path / "d.npz", image=images, label=labels)
    given = make_reference(lambda: Mlp(SIDE * SIDE)).state_dict()
    save_file(given, tmp_path / "given.safetensors")
    write_recipe(tmp_path, "mlp", "auto", 'weights = "given.safetensors"\nfreeze = ["fc1.*", "fc2.bias"]')
    stoker("train", "r.toml", "--out", "run")
    moved = {name for name, value in weights_of(tmp_path).items() if not torch.equal(value, given[name])}
    assert moved == {"fc2.weight", "fc3.weight", "fc3.bias"}


def test_a_resumed_run_reads_its_checkpoint_alone(stoker, tmp_path, pretrained):
    freeze = 'model.freeze=["conv*"]'
    train(stoker, tmp_path, freeze)
    train(stoker, tmp_path, freeze, "train.epochs=2", run="whole")
    (tmp_path / "given.safetensors").unlink()
    done = train(stoker, tmp_path, freeze, "train.epochs=2", resume="auto")
    assert "initial weights" not in done.err
    whole = weights_of(tmp_path, "whole")
    for name, value in weights_of(tmp_path).items():
        assert torch.equal(value, whole[name]), name
    error = train(stoker, tmp_path, "train.epochs=3", resume="auto", status=1).err
    assert error.count("\n") <= 4 and "model.freeze" in error


def old_file(weights, path):
    torch.save(weights, path, _use_new_zipfile_serialization=False)


# Each kind of mistake is tested in C++, for the model and for the file.
@pytest.mark.parametrize(
    ("write", "text"),
    [
        (lambda given, path: save_file({**given, "conv1.weight": torch.zeros(64, 1, 3, 3)}, path), "got shape [64, 1, 3, 3]"),
        (lambda given, path: save_file(make_reference(cifar_resnet18).state_dict(), path), "30 of the model's 38 tensors"),
        (lambda given, path: save_file({**given, "bn1.weight": given["bn1.weight"] / 0}, path), "infinity in bn1.weight"),
        (lambda given, path: path.write_bytes(save(given)[:100]), "got one that ends after 100 of at least "),
        (old_file, "got a file of torch.save"),
        (lambda given, path: None, "does not exist"),
        (lambda given, path: path.mkdir(), "given.safetensors"),
    ],
)
def test_other_weights_are_refused_in_one_line(stoker, tmp_path, pretrained, write, text):
    given = {name: value.clone() for name, value in pretrained.items()}
    (tmp_path / "given.safetensors").unlink()
    write(given, tmp_path / "given.safetensors")
    error = train(stoker, tmp_path, status=1).err
    assert error.startswith("stoker: [model.weights") and error.count("\n") == 1 and text in error, error
    assert not (tmp_path / "run").exists()


def test_a_model_that_diverged_is_not_exported_as_a_program(stoker, tmp_path, pretrained):
    train(stoker, tmp_path, "optimizer.lr=1e-30")
    checkpoint = newest(tmp_path / "run")
    weights = load_file(checkpoint / "model.safetensors")
    weights["fc.weight"][0, 0] = float("nan")
    put_file(checkpoint, weights)
    error = stoker("export", "run", "-o", "out.pt", status=1).err
    assert "[export] expected finite weights, got nan in fc.weight" in error and error.count("\n") == 1, error
    assert not (tmp_path / "out.pt").exists()


def test_the_stem_that_auto_came_to_is_said(stoker, tmp_path):
    np.savez(tmp_path / "d.npz", image=np.zeros((4, 64, 64, 3), np.uint8), label=np.arange(4))
    write_recipe(tmp_path, "resnet18", "auto", "")
    done = stoker("train", "r.toml", "--out", "run", "--set", "train.epochs=1")
    assert "\nresnet18 (cifar stem): 11,1" in done.err, done.err
    assert weights_of(tmp_path)["conv1.weight"].shape == (64, 3, 3, 3)


def test_what_cannot_be_frozen_or_computed_again_is_refused(stoker, tmp_path, pretrained):
    for setting in ('model.freeze=["layer1.*"]', 'model.freeze=["*"]'):
        assert "[model.freeze]" in train(stoker, tmp_path, setting, status=1).err
    error = train(stoker, tmp_path, "model.name=mlp", "model.weights=", "train.gradient_checkpointing=true", status=1).err
    assert "[train.gradient_checkpointing]" in error and error.count("\n") == 1


def test_weights_without_the_last_layer_are_loaded(stoker, tmp_path, pretrained):
    backbone = {name: value for name, value in pretrained.items() if not name.startswith("fc.")}
    save_file(backbone, tmp_path / "backbone.safetensors")
    still = ("model.weights=backbone.safetensors", "optimizer.lr=1e-30", "optimizer.weight_decay=0")
    done = train(stoker, tmp_path, *still)
    assert "backbone.safetensors: initial weights; fc.weight and fc.bias newly initialised" in done.err
    weights = weights_of(tmp_path)
    assert torch.equal(weights["conv5.weight"], pretrained["conv5.weight"])
    assert weights["fc.weight"].shape == (FEWER, 256) and weights["fc.weight"].abs().max() > 0
    # Half of the layer, or another layer, is not a removed classifier.
    for missing in ("fc.bias", "bn6.weight"):
        save_file({name: value for name, value in pretrained.items() if name != missing}, tmp_path / "x.safetensors")
        error = train(stoker, tmp_path, "model.weights=x.safetensors", "model.classes=7", run="x", status=1).err
        assert f"expected {missing} of shape" in error and error.count("\n") == 1, error


SAVED = {
    "pth": lambda state: state,
    "bfloat16": lambda state: {name: v.bfloat16() if v.is_floating_point() else v for name, v in state.items()},
    "parameters": lambda state: {name: nn.Parameter(v, False) if "fc" in name else v for name, v in state.items()},
    "strides": lambda state: {name: v.contiguous(memory_format=torch.channels_last) if v.dim() == 4 else v
                              for name, v in state.items()},
    "checkpoint": lambda state: {"model_state_dict": state, "epoch": 3, "lr": 0.1},
    "no counts": lambda state: {name: v for name, v in state.items() if not name.endswith("num_batches_tracked")},
    "beside": lambda state: {**state, "x": Harmful(), "optimizer": {"state": {0: {"step": torch.zeros(1)}}},
                             "args": argparse.Namespace(lr=1), "counts": collections.Counter("ab"),
                             "scheduler": torch.optim.lr_scheduler.StepLR(torch.optim.SGD([torch.zeros(1)], 1), 9)},
    "wrapped": lambda state: {"model": {f"module._orig_mod.{name}": v for name, v in state.items()}},
}  # fmt: skip


class Harmful:
    def __reduce__(self):
        return print, ("run",)


@pytest.mark.parametrize("form", SAVED)
def test_weights_of_torch_save_are_read(stoker, tmp_path, pretrained, form):
    net = make_reference(lambda: ConvNet(3))
    assert all(torch.equal(value, pretrained[name]) for name, value in net.state_dict().items())
    torch.save(SAVED[form](net.state_dict()), tmp_path / "given.pth")
    done = train(stoker, tmp_path, "model.weights=given.pth", "optimizer.lr=1e-30", "optimizer.weight_decay=0")
    assert "given.pth: initial weights; fc.weight and fc.bias newly initialised" in done.err
    expected = pretrained["conv5.weight"]
    assert torch.equal(weights_of(tmp_path)["conv5.weight"], expected.bfloat16().float() if form == "bfloat16" else expected)


@pytest.mark.parametrize(
    ("saved", "text"),
    [
        (lambda net: net, "object of test_models_parity.ConvNet; save model.state_dict() alone"),
        (lambda net: {"net": net}, 'object of test_models_parity.ConvNet under "net"; save model.state_dict() alone'),
        (lambda net: {"weights": net.state_dict()}, "save model.state_dict() alone"),
        (lambda net: {**net.state_dict(), "fc.bias": torch.zeros(3, dtype=torch.bool)}, "expected fc.bias of shape"),
        (lambda net: [torch.zeros(3)], "expected a state_dict, got list of 1"),
        (lambda net: net.state_dict()["fc.bias"], "expected a state_dict, got"),
    ],
)
def test_what_is_no_state_dict_is_refused(stoker, tmp_path, pretrained, saved, text):
    torch.save(saved(make_reference(lambda: ConvNet(3))), tmp_path / "given.pt")
    done = train(stoker, tmp_path, "model.weights=given.pt", status=1)
    assert "[model.weights: given.pt" in done.err and text in done.err and done.err.count("\n") == 1, done.err
    assert not (tmp_path / "run").exists()
