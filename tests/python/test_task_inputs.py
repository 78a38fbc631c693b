# Models of several inputs: pairs of images, an image with numbers, and the two views of self-supervised learning. Their
# inputs are fields of the data by name, in TorchScript and in .pt2 files, and they train as in PyTorch.
import csv
import io
import json
import zipfile

import numpy as np
import pytest
import torch
from PIL import Image
from safetensors.torch import load_file, save_file
from test_import import export_training
from test_weights import newest
from torch import nn
from torch.nn import functional as F

SAMPLES, VAL, BATCH, EPOCHS, LR, SIDE = 160, 48, 16, 2, 0.05, 8  # 20 steps


class Siamese(nn.Module):
    """Do two images show the same?"""

    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Conv2d(1, 4, 3, 2, 1), nn.ReLU(), nn.Flatten(), nn.Linear(64, 8))
        self.head = nn.Linear(8, 2)

    def forward(self, image, other):
        return self.head((self.body(image) - self.body(other)).abs())


class WithNumbers(nn.Module):
    """Two numbers from an image and three others. The image's argument has an unusual name."""

    def __init__(self):
        super().__init__()
        self.pixels = nn.Linear(SIDE * SIDE, 6)
        self.head = nn.Linear(9, 2)

    def forward(self, x, sizes):
        return self.head(torch.cat([torch.relu(self.pixels(x.flatten(1))), sizes], 1))


class TwoViews(nn.Module):
    """Representations of both views, (N, 12)."""

    def __init__(self):
        super().__init__()
        self.body = nn.Linear(SIDE * SIDE, 6)

    def forward(self, image, image_2):
        return torch.cat([self.body(image.flatten(1)), self.body(image_2.flatten(1))], 1)


def alike(outputs, labels):
    """Pulls the views of a sample together, and those of different samples apart. No label is read."""
    a, b = (F.normalize(view, dim=1) for view in outputs.chunk(2, dim=1))
    return (1 - (a * b).sum(1)).mean() + (a @ b.T).square().mean()


def draw(seed, count):
    random = np.random.default_rng(seed)
    images = random.integers(0, 200, (count, SIDE, SIDE), dtype=np.uint8)
    same = random.integers(0, 2, count)
    others = random.integers(0, 200, images.shape, dtype=np.uint8)
    others[same == 1] = images[same == 1] + 20
    sizes = random.random((count, 3)).astype(np.float32)
    target = np.stack([sizes.sum(1), images[:, 0, 0] / 255], 1).astype(np.float32)
    return {"images": images[..., None], "other": others[..., None], "labels": same, "sizes": sizes, "target": target}


def pixels(images):
    return torch.from_numpy(images).permute(0, 3, 1, 2).float() / 255


def pairs(split):
    return (pixels(split["images"]), pixels(split["other"])), torch.from_numpy(split["labels"])


def numbers(split):
    return (pixels(split["images"]), torch.from_numpy(split["sizes"])), torch.from_numpy(split["target"])


def views(split):
    return (pixels(split["images"]), pixels(split["images"])), torch.from_numpy(split["labels"])


# network, batches, loss, and the recipe: task, data, model
CASES = {
    "pairs": (Siamese, pairs, F.cross_entropy, "classification", '[data.fields.other]\nis = "image"', "classes = 2"),
    "numbers": (
        WithNumbers, numbers, F.mse_loss, "regression",
        '[data.fields.target]\nis = "value"\n[data.fields.sizes]\nis = "value"', "",
    ),
}  # fmt: skip


def example_of(case):
    make, batches, *_ = CASES[case]
    inputs, targets = batches(draw(3, 4))
    names = ("image", "other") if make is Siamese else ("x", "sizes")
    return dict(zip(names, inputs, strict=True)), targets


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("inputs")
    for split, seed, count in (("train", 1, SAMPLES), ("val", 2, VAL)):
        np.savez(path / f"{split}.npz", **draw(seed, count))
    for name, (make, _, loss_of, *_) in CASES.items():
        torch.manual_seed(7)
        net = make()
        torch.jit.script(net).save(path / f"{name}.pt")
        export_training(net, loss_of, example_of(name), path / f"{name}.pt2")
        save_file(net.state_dict(), path / f"{name}.weights")
    torch.manual_seed(7)
    net = TwoViews()
    images, labels = views(draw(3, 4))
    export_training(net, alike, ({"image": images[0], "image_2": images[1]}, labels), path / "views.pt2")
    save_file(net.state_dict(), path / "views.weights")
    return path


def write_recipe(tmp_path, folder, task, fields, model, data="", val=True):
    (tmp_path / "r.toml").write_text(f"""
seed = 3
device = "cpu"
task = "{task}"
[data]
train = "{folder}/train.npz"
{f'val = "{folder}/val.npz"' if val else ""}
batch_size = {BATCH}
shuffle = false
workers = 2
{data}
{fields}
[model]
{model}
[optimizer]
name = "sgd"
lr = {LR}
momentum = 0.9
[train]
epochs = {EPOCHS}
threads = 1
""")


def train_in_python(net, batches, loss_of):
    inputs, targets = batches(draw(1, SAMPLES))
    optimizer = torch.optim.SGD(net.parameters(), lr=LR, momentum=0.9)
    losses = []
    for _ in range(EPOCHS):
        for begin in range(0, SAMPLES, BATCH):
            part = slice(begin, begin + BATCH)
            loss = loss_of(net(*(one[part] for one in inputs)), targets[part])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
    return losses


def lines_of(tmp_path, kind, run="run"):
    lines = [json.loads(line) for line in (tmp_path / run / "metrics.jsonl").read_text().splitlines()]
    return [line for line in lines if line["type"] == kind]


def trained(folder, name, make, batches, loss_of):
    """The network and the losses of its training in Python."""
    net = make()
    net.load_state_dict(load_file(folder / f"{name}.weights"))
    return net, train_in_python(net, batches, loss_of)


def require_same(tmp_path, net, losses):
    assert [line["loss"] for line in lines_of(tmp_path, "step")] == pytest.approx(losses, abs=1e-5)
    weights = load_file(newest(tmp_path / "run") / "model.safetensors")
    for name, value in net.state_dict().items():
        assert (weights[name] - value).abs().max() <= 1e-5, name


@pytest.mark.parametrize("kind", ["script", "export"])
@pytest.mark.parametrize("case", CASES)
def test_training_and_predictions_are_pytorchs(stoker, tmp_path, folder, case, kind):
    make, batches, loss_of, task, fields, more = CASES[case]
    net, losses = trained(folder, case, make, batches, loss_of)
    file = folder / f"{case}.{'pt' if kind == 'script' else 'pt2'}"
    write_recipe(tmp_path, folder, task, fields, f'{kind} = "{file}"\n{more}')
    stoker("train", "r.toml", "--out", "run")
    require_same(tmp_path, net, losses)
    inputs, targets = batches(draw(2, VAL))
    with torch.no_grad():
        outputs = net.eval()(*inputs)
    last = lines_of(tmp_path, "epoch")[-1]
    assert last["val_loss"] == pytest.approx(loss_of(outputs, targets).item(), abs=1e-5)
    evaluated = stoker("eval", "run", "--json").json()
    assert evaluated["val_loss"] == pytest.approx(last["val_loss"], abs=1e-9)
    # Predictions are of data with the fields that the model takes. Its target is not asked for.
    bare = {name: array for name, array in draw(2, VAL).items() if name != "target"}
    np.savez(tmp_path / "bare.npz", **bare)
    rows = list(csv.DictReader(io.StringIO(stoker("predict", "run", "bare.npz").out)))
    names = ["0", "1"] if task == "classification" else ["target_0", "target_1"]
    expected = outputs.softmax(1) if task == "classification" else outputs
    found = torch.tensor([[float(row[name]) for name in names] for row in rows])
    assert (found - expected).abs().max() < 1e-4
    if kind == "script":
        error = stoker("export", "run", "-o", "net.pt", status=1).err
        assert "only the weights of a model of several inputs" in error and error.count("\n") == 1
    Image.fromarray(draw(2, 1)["images"][0, :, :, 0]).save(tmp_path / "a.png")
    error = stoker("predict", "run", "a.png", status=1).err
    assert "expected a data set with the field " in error and error.count("\n") == 1


# The loss of contrastive learning is in the file, and no label is read.
def test_two_views_train_from_a_file_with_its_loss(stoker, tmp_path, folder):
    net, losses = trained(folder, "views", TwoViews, views, alike)
    model = f'export = "{folder}/views.pt2"'
    write_recipe(tmp_path, folder, "custom", "", model, "views = 2", val=False)
    stoker("train", "r.toml", "--out", "run")
    require_same(tmp_path, net, losses)  # without random ops both views are the image
    assert losses[-1] < losses[0]
    flipped = 'views = 2\ntrain_ops = [{op = "horizontal_flip"}]'
    write_recipe(tmp_path, folder, "custom", "", model, flipped, val=False)
    stoker("train", "r.toml", "--out", "flipped")
    first = lines_of(tmp_path, "step", "flipped")[0]
    assert first["loss"] > losses[0] + 0.01  # each view has its own draws
    write_recipe(tmp_path, folder, "custom", "", model, "views = 2")
    assert "data.val] expected none" in stoker("train", "r.toml", "--out", "other", status=1).err
    write_recipe(tmp_path, folder, "custom", "", model, val=False)
    error = stoker("train", "r.toml", "--out", "other", status=1).err
    assert 'a field "image_2" of the data, as the model takes image, image_2' in error and error.count("\n") == 1


def test_what_does_not_fit_is_refused_in_one_line(stoker, tmp_path, folder):
    fields = CASES["pairs"][4]
    model = f'script = "{folder}/pairs.pt"\nclasses = 2'

    def refusal(*arguments):
        done = stoker("train", "r.toml", "--out", "run", *arguments, status=1)
        assert done.err.count("\n") == 1 and not (tmp_path / "run").exists()
        return done.err

    write_recipe(tmp_path, folder, "classification", "", model)
    assert 'a field "other" of the data, as the model takes image, other' in refusal()
    write_recipe(tmp_path, folder, "classification", fields, model)
    assert "train.mixup] expected 0 for a model of several inputs" in refusal("--set", "train.mixup=0.2")
    write_recipe(tmp_path, folder, "classification", fields.replace("image", "value"), f'export = "{folder}/pairs.pt2"')
    assert "expected other of Float (1, 8, 8) a sample" in refusal("--set", "model.classes=2")


# A graph would broadcast them: a loss over (N, N) pairs instead of N samples.
def test_targets_of_another_shape_than_the_exported_ones_are_refused(stoker, tmp_path, folder):
    make, _, loss_of, task, fields, _ = CASES["numbers"]
    inputs, targets = example_of("numbers")
    with pytest.warns(UserWarning, match="target size"):
        export_training(make(), loss_of, (inputs, targets[:, :1]), tmp_path / "one.pt2")
    write_recipe(tmp_path, folder, task, fields, f'export = "{tmp_path}/one.pt2"')
    error = stoker("train", "r.toml", "--out", "run", status=1).err.splitlines()[-1]
    assert "expected targets of Float (1) a sample" in error and "got Float [16, 2] on cpu" in error


def test_an_export_names_its_mistakes(tmp_path, folder):
    example, targets = example_of("pairs")
    with pytest.raises(ValueError, match="at least two fields by name"):
        export_training(Siamese(), F.cross_entropy, ({"image": example["image"]}, targets), tmp_path / "a.pt2")
    with pytest.raises(ValueError, match="N of at least 2 for other, got list"):
        wrong = {**example, "other": example["other"].tolist()}
        export_training(Siamese(), F.cross_entropy, (wrong, targets), tmp_path / "a.pt2")
    with pytest.raises(ValueError, match="as image, another, got TypeError"):
        wrong = {"image": example["image"], "another": example["other"]}
        export_training(Siamese(), F.cross_entropy, (wrong, targets), tmp_path / "a.pt2")
    with zipfile.ZipFile(folder / "pairs.pt2") as file:
        (name,) = [name for name in file.namelist() if name.endswith("extra/stoker.json")]
        assert json.loads(file.read(name))["version"] == 2


class WithDepth(nn.Module):
    def __init__(self):
        super().__init__()
        self.color, self.depth, self.head = nn.Conv2d(3, 2, 3), nn.Conv2d(1, 2, 3), nn.Linear(4, 2)

    def forward(self, image, depth):
        return self.head(torch.cat([self.color(image).mean((2, 3)), self.depth(depth).mean((2, 3))], 1))


def test_a_further_grey_image_stays_grey(stoker, tmp_path):
    """Also in evaluation and prediction, which give the main image the channels that the model was trained with."""
    random = np.random.default_rng(2)
    pixels = {name: random.integers(0, 255, (16, SIDE, SIDE, count), np.uint8) for name, count in (("images", 3), ("depth", 1))}
    np.savez(tmp_path / "d.npz", **pixels, labels=np.arange(16) % 2)
    torch.jit.script(WithDepth()).save(tmp_path / "net.pt")
    (tmp_path / "r.toml").write_text("""
device = "cpu"
[data]
train = "d.npz"
val = "d.npz"
batch_size = 8
[data.fields.depth]
is = "image"
[model]
script = "net.pt"
[train]
epochs = 1
""")
    stoker("train", "r.toml", "--out", "run")
    stoker("eval", "run")
    assert len(stoker("predict", "run", "d.npz").out.splitlines()) == 17
