# python/stoker/export.py alone: the models that it refuses, and that it does not change the model.
import os
import subprocess
import zipfile
from pathlib import Path

import pytest
import torch
from test_import import EXAMPLE, LABELS, dropout_net, export_training
from torch import nn


IMAGES = torch.zeros(4, 3, 8, 8)
LOSS = nn.CrossEntropyLoss()


def small_net():
    return nn.Sequential(nn.Flatten(), nn.Linear(192, 3), nn.Dropout())


def with_parameter(dtype):
    net = small_net()
    net.count = nn.Parameter(torch.zeros(3, dtype=dtype), requires_grad=False)
    return net


def asleep(part):
    net = small_net()
    part(net).eval()
    return net


def loose(logits, labels):
    return LOSS(logits.detach(), labels)


class Branches(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = small_net()

    def forward(self, x):
        y = self.net(x)
        return y if y.sum() > 0 else -y


MISTAKES = {
    "bytes": ({"example": (IMAGES.byte(), LABELS)}, "example: expected float32 images (N, C, H, W)"),
    "one sample": ({"example": (IMAGES[:1], LABELS[:1])}, "N of at least 2, got torch.float32 (1, 3, 8, 8)"),
    "too few labels": ({"example": (IMAGES, LABELS[:2])}, "example: expected int64 labels (4,)"),
    "a dict": (
        {"example": {"x": IMAGES, "y": LABELS}},
        "example: expected a batch of two tensors, (images, labels), got dict",
    ),
    "labels elsewhere": (
        {"example": (IMAGES, LABELS.to("meta"))},
        "example: expected labels on cpu, as the images, got meta",
    ),
    "another class": ({"example": (IMAGES, LABELS + 1)}, "example: expected labels from 0 to 2, for the 3 outputs"),
    "another name": ({"path": "x.pt"}, "path: expected a name that ends in .pt2, got"),
    "no folder": ({"path": "none/x.pt2"}, "path: expected a file in a folder that exists, got"),
    "no loss": ({"loss": "cross_entropy"}, "loss: expected a function of (logits, labels), got str"),
    "a class of losses": ({"loss": nn.CrossEntropyLoss}, "got a class; write CrossEntropyLoss()"),
    "a loss for each": (
        {"loss": nn.CrossEntropyLoss(reduction="none")},
        "loss: expected a scalar, the mean over the batch, got (4,)",
    ),
    "a number": (
        {"loss": lambda x, y: LOSS(x, y).item()},
        "loss: expected a tensor, the mean over the batch, got float",
    ),
    "no gradient": ({"loss": loose}, "loss: expected one with a gradient, got one without"),
    "one argument": ({"loss": lambda x: x.mean()}, "loss: expected a function of (logits, labels), got TypeError"),
    "no model": ({"model": "resnet18"}, "model: expected a torch.nn.Module, got str"),
    "a script": ({"model": lambda: torch.jit.script(small_net())}, "set model.script in the recipe instead"),
    "evaluation": ({"model": lambda: asleep(lambda net: net)}, "in training mode, got evaluation mode for all of it"),
    "a part of it": (
        {"model": lambda: asleep(lambda net: net[2])},
        "in training mode, got evaluation mode for 2; call model.train()",
    ),
    "another device": (
        {"model": lambda: small_net().to("meta")},
        "on cpu, as the example, got 1.weight of torch.float32 on meta; move",
    ),
    "half": ({"model": lambda: small_net().half()}, "got 1.weight of torch.float16 on cpu; call model.float()"),
    "integers": ({"model": lambda: with_parameter(torch.int64)}, "got count of torch.int64 on cpu; make it a buffer"),
    "other images": (
        {"model": lambda: nn.Sequential(nn.Flatten(), nn.Linear(99, 3))},
        "model: expected one that takes images (4, 3, 8, 8), got RuntimeError: ",
    ),
    "two outputs": (
        {"model": lambda: nn.Sequential(nn.Flatten(), nn.Linear(192, 3), nn.LSTM(3, 3))},
        "model: expected one tensor of logits (4, classes) in evaluation, got tuple",
    ),
    "no vector": (
        {"model": lambda: nn.Conv2d(3, 3, 1)},
        "model: expected one tensor of logits (4, classes) in evaluation, got (4, 3, 8, 8)",
    ),
    "a sum": ({"loss": nn.CrossEntropyLoss(reduction="sum")}, "loss: expected the mean over the batch, got one that is"),
    "a batch written in": (
        {"model": lambda: nn.Sequential(nn.Unflatten(0, (2, 2)), nn.Flatten(0, 1), nn.Flatten(), nn.Linear(192, 3))},
        "model: expected one that takes batches of any size, got RuntimeError",
    ),
    "branches": ({"model": Branches}, "model: expected a step that is the same for all values of its tensors"),
    "compiled": ({"model": lambda: torch.compile(small_net())}, "got OptimizedModule; pass the model without"),
    "in parallel": ({"model": lambda: nn.DataParallel(small_net())}, "got DataParallel; pass model.module"),
    "nothing to train": (
        {"model": lambda: small_net().requires_grad_(False)},
        "model: expected a parameter that requires a gradient, got none",
    ),
}  # fmt: skip


@pytest.mark.parametrize("mistake", MISTAKES)
def test_the_exporter_refuses_what_cannot_be_in_one_line(tmp_path, mistake):
    given, text = MISTAKES[mistake]
    model = given.get("model", small_net)
    path = given.get("path", "x.pt2")
    with pytest.raises((TypeError, ValueError)) as error:
        export_training(
            model() if callable(model) else model, given.get("loss", LOSS), given.get("example", (IMAGES, LABELS)),
            tmp_path / path if isinstance(path, str) else path,
        )  # fmt: skip
    assert text in str(error.value) and "\n" not in str(error.value), error.value
    assert not list(tmp_path.iterdir())


class TwoHeads(nn.Module):
    """As torchvision's GoogLeNet and Inception: more than logits in training, for a loss that knows of it."""

    def __init__(self):
        super().__init__()
        self.one, self.two = nn.Linear(192, 3), nn.Linear(192, 3)

    def forward(self, x):
        x = x.flatten(1)
        return (self.one(x), self.two(x)) if self.training else self.one(x)


def test_a_loss_may_take_whatever_a_model_gives_in_training(tmp_path):
    export_training(TwoHeads(), lambda x, y: LOSS(x[0], y) + LOSS(x[1], y), (IMAGES, LABELS), tmp_path / "net.pt2")
    assert (tmp_path / "net.pt2").stat().st_size > 0


def test_exporting_changes_nothing_in_the_model(tmp_path):
    net = dropout_net()
    before = {name: value.clone() for name, value in net.state_dict().items()}
    torch.manual_seed(5)
    expected = torch.rand(3)
    torch.manual_seed(5)
    export_training(net, nn.CrossEntropyLoss(), EXAMPLE, tmp_path / "net.pt2")
    assert net.training and all(p.grad is None for p in net.parameters())
    assert all(torch.equal(value, before[name]) for name, value in net.state_dict().items())
    assert torch.equal(torch.rand(3), expected)


def test_a_file_keeps_its_content_until_the_new_one_is_complete(tmp_path, monkeypatch):
    def full(*arguments):
        raise OSError(28, "No space left on device")

    (tmp_path / "net.pt2").write_text("before")
    monkeypatch.setattr(zipfile.ZipFile, "writestr", full)
    with pytest.raises(OSError, match="path: expected a file that can be written, got .*No space left"):
        export_training(small_net(), LOSS, (IMAGES, LABELS), tmp_path / "net.pt2")
    assert [path.name for path in tmp_path.iterdir()] == ["net.pt2"]
    assert (tmp_path / "net.pt2").read_text() == "before"


def test_a_step_of_an_imported_model_touches_its_own_memory_alone(tmp_path, program):
    """Recorded as a CUDA graph would be, by a test in C++."""
    net = dropout_net()
    export_training(net, LOSS, EXAMPLE, tmp_path / "net.pt2")
    torch.jit.script(net).save(tmp_path / "net.pt")
    test = "GraphStepModels.OneOfPythonTouchesItsOwnMemoryAlone"
    for name in ("net.pt2", "net.pt"):
        done = subprocess.run(
            [Path(program).parent / "train_test", f"--gtest_filter={test}"],
            capture_output=True,
            text=True,
            env=os.environ | {"STOKER_MODEL_OF_PYTHON": str(tmp_path / name)},
            check=False,
        )
        assert "[  PASSED  ] 1 test." in done.stdout, done.stdout + done.stderr
