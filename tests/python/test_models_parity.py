# The built-in models against torchvision's, or a plain nn.Module, from the same weights and batches in float32: logits,
# every gradient, running statistics, and the losses of ten steps. `model_pass` (tests/models) runs one pass of ours.
import copy
import json
import subprocess
from functools import partial

import numpy as np
import pytest
import torch
from conftest import PROGRAM
from safetensors.torch import load_file, save_file
from test_train_parity import one_thread  # noqa: F401
from torch import nn
from torch.nn.functional import cross_entropy
from torchvision.models import VisionTransformer, resnet18, resnet34, resnet50
from torchvision.models.segmentation import FCN, fcn_resnet50

CLASSES = 7


class Mlp(nn.Module):
    def __init__(self, inputs):
        super().__init__()
        self.fc1, self.fc2, self.fc3 = nn.Linear(inputs, 128), nn.Linear(128, 64), nn.Linear(64, CLASSES)

    def forward(self, x):
        return self.fc3(torch.relu(self.fc2(torch.relu(self.fc1(x.flatten(1))))))


class ConvNet(nn.Module):
    def __init__(self, channels):
        super().__init__()
        widths = [channels, 64, 64, 128, 128, 256, 256]
        for i in range(1, 7):
            setattr(self, f"conv{i}", nn.Conv2d(widths[i - 1], widths[i], 3, padding=1, bias=False))
            setattr(self, f"bn{i}", nn.BatchNorm2d(widths[i]))
        self.fc = nn.Linear(256, CLASSES)

    def forward(self, x):
        for i in range(1, 7):
            x = torch.relu(getattr(self, f"bn{i}")(getattr(self, f"conv{i}")(x)))
            if i in (2, 4):
                x = nn.functional.max_pool2d(x, 2)
        return self.fc(x.mean((2, 3)))


def cifar_resnet18():
    model = resnet18(num_classes=CLASSES)
    model.conv1 = nn.Conv2d(3, 64, 3, stride=1, padding=1, bias=False)
    model.maxpool = nn.Identity()
    return model


class Fcn(FCN):
    def forward(self, x):
        return super().forward(x)["out"]


def fcn():
    model = fcn_resnet50(weights=None, weights_backbone=None, num_classes=CLASSES, aux_loss=False)
    return Fcn(model.backbone, model.classifier)


vit = partial(VisionTransformer, 32, 16, 12, 6, 384, 1536, num_classes=CLASSES)
REFERENCES = {  # the recipe's name and stem, the reference, images
    "mlp": ("mlp", "auto", lambda: Mlp(144), (1, 12, 12)),
    "convnet": ("convnet", "auto", lambda: ConvNet(3), (3, 20, 20)),
    "convnet grey": ("convnet", "auto", lambda: ConvNet(1), (1, 15, 15)),
    "resnet18": ("resnet18", "imagenet", partial(resnet18, num_classes=CLASSES), (3, 40, 40)),
    "resnet18 cifar": ("resnet18", "cifar", cifar_resnet18, (3, 12, 12)),
    "resnet34": ("resnet34", "imagenet", partial(resnet34, num_classes=CLASSES), (3, 40, 40)),
    "resnet50": ("resnet50", "imagenet", partial(resnet50, num_classes=CLASSES), (3, 40, 40)),
    "vit_s_16": ("vit_s_16", "auto", vit, (3, 32, 32)),
    "fcn_resnet50": ("fcn_resnet50", "auto", fcn, (3, 40, 36)),
}
LARGE = ["resnet34", "resnet50", "fcn_resnet50"]  # one layout is enough
PIXELS = ["fcn_resnet50"]
SLOW = [*LARGE, "resnet18 cifar"]  # what ten steps add to gradients, resnet18 shows


def make_reference(make):
    """With weights that a mix-up would show: norms that are not the identity, a last layer that is not zero."""
    torch.manual_seed(8)
    model = make()
    with torch.no_grad():
        for name, value in model.state_dict().items():
            if name.startswith("heads.") or name == "class_token":
                value.normal_(0, 0.05)
            elif name.endswith("running_mean") or (value.dim() == 1 and name.endswith("bias")):
                value.normal_(0, 0.1)
            elif value.dim() == 1:  # weights of norms and running variances
                value.uniform_(0.5, 1.5)
    return model


def make_batch(shape, count=4, pixels=False):
    random = np.random.default_rng(3)
    images = random.integers(0, 256, (count, *shape), dtype=np.uint8)
    return images, random.integers(0, CLASSES, (count, *shape[1:]) if pixels else count)


def to_input(images):
    """To the last bit what comes out of Stoker's loader."""
    return torch.from_numpy(images).float() * torch.tensor(1 / 255)


def run_ours(tmp_path, reference, name, stem, image, label, *options):
    save_file({**reference.state_dict(), "image": image.contiguous(), "label": label}, tmp_path / "in.safetensors")
    command = [PROGRAM.parent / "model_pass", tmp_path / "in.safetensors", tmp_path / "out.safetensors", name, stem]
    subprocess.run([*map(str, command), *options], check=True, timeout=120)
    return load_file(tmp_path / "out.safetensors")


def run_reference(reference, image, label, channels_last=False, bf16=False):
    layout = torch.channels_last if channels_last else torch.contiguous_format
    reference = reference.to(memory_format=layout)
    image = image.to(memory_format=layout)
    with torch.no_grad():
        found = {"logits": reference.eval()(image)}
    torch.manual_seed(5)  # of dropout, as in model_pass
    with torch.autocast("cpu", torch.bfloat16, enabled=bf16):
        loss = cross_entropy(reference.train()(image), label)
    loss.backward()
    found["loss"] = loss.detach()
    found |= {f"grad.{name}": parameter.grad for name, parameter in reference.named_parameters()}
    return found | {f"state.{name}": buffer for name, buffer in reference.named_buffers()}


def difference(ours, theirs):
    """The largest difference by the largest magnitude."""
    ours, theirs = ours.double(), theirs.double()
    return ((ours - theirs).abs().max() / theirs.abs().max().clamp(min=1e-30)).item()


@pytest.mark.parametrize(
    ("name", "layout"),
    [(name, "contiguous") for name in REFERENCES if name not in LARGE]
    + [(name, "channels_last") for name in REFERENCES if name != "mlp"],
)
def test_logits_and_gradients(tmp_path, name, layout):
    recipe_name, stem, make, shape = REFERENCES[name]
    reference = make_reference(make)
    images, labels = make_batch(shape, pixels=name in PIXELS)
    image, label = to_input(images), torch.from_numpy(labels)
    options = ["channels_last"] if layout == "channels_last" else []
    ours = run_ours(tmp_path, reference, recipe_name, stem, image, label, *options)
    theirs = run_reference(reference, image, label, layout == "channels_last")
    assert ours.keys() == theirs.keys()
    assert theirs["logits"].abs().max() > 0.1
    assert (ours["logits"] - theirs["logits"]).abs().max() <= 1e-4
    for key, value in theirs.items():
        assert value.abs().max() > 0, key
        assert difference(ours[key], value) <= 1e-5, key


STEPS, BATCH, LR = 10, 4, 0.02


def newest(run):
    return max((run / "checkpoints").iterdir(), key=lambda path: int(path.name))


def write_recipe(tmp_path, name, stem, model="", train="", optimizer=f'name = "sgd"\nlr = {LR}'):
    (tmp_path / "r.toml").write_text(f"""
device = "cpu"
[data]
train = "d.npz"
batch_size = {BATCH}
shuffle = false
workers = 1
[model]
name = "{name}"
stem = "{stem}"
classes = {CLASSES}
{model}
[optimizer]
{optimizer}
[train]
epochs = 1
threads = 1
{train}
""")


def step_losses(run):
    lines = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    return [line["loss"] for line in lines if line["type"] == "step"]


def train_reference(reference, images, labels, channels_last):
    layout = torch.channels_last if channels_last else torch.contiguous_format
    reference = reference.to(memory_format=layout).train()
    optimizer = torch.optim.SGD(reference.parameters(), lr=LR)
    losses = []
    for image, label in zip(to_input(images).split(BATCH), torch.from_numpy(labels).split(BATCH), strict=True):
        loss = cross_entropy(reference(image.to(memory_format=layout)), label)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


@pytest.mark.parametrize("name", [
    pytest.param(name, marks=[pytest.mark.slow] * (name in SLOW)) for name in REFERENCES if name not in PIXELS
])
def test_ten_steps_and_weights_both_ways(stoker, tmp_path, name):
    recipe_name, stem, make, shape = REFERENCES[name]
    images, labels = make_batch(shape, STEPS * BATCH)
    np.savez(tmp_path / "d.npz", image=images, label=labels)
    start = make_reference(make)
    save_file(start.state_dict(), tmp_path / "reference.safetensors")
    write_recipe(tmp_path, recipe_name, stem, model='weights = "reference.safetensors"')
    stoker("train", "r.toml", "--out", "run")
    reference = copy.deepcopy(start)
    theirs = train_reference(reference, images, labels, channels_last=name != "mlp")
    # Same inputs, kernels and layout: the same bits, or nearly so. Nets with batch norm would differ at once: where
    # roundings differ, as between Python's own two layouts, ReLUs switch and the tenth losses are several percent apart.
    assert step_losses(tmp_path / "run") == pytest.approx(theirs, rel=1e-5)
    weights = load_file(newest(tmp_path / "run") / "model.safetensors")
    before = start.state_dict()
    for key, value in reference.state_dict().items():
        assert difference(weights[key], value) <= 1e-5, key
        assert not torch.equal(weights[key], before[key]), key
    start.load_state_dict(weights, strict=True)
