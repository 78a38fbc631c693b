# Tasks other than classification, from recipes with further fields: each trains as the same loop in PyTorch does, its
# metrics are those of plain definitions, and a trained model's predictions are in the task's form.
import csv
import io
import json
import math
import shutil

import numpy as np
import pytest
import torch
from conftest import run_program
from PIL import Image
from ranks import run_ranks
from safetensors import safe_open
from safetensors.torch import load_file, save_file
from test_import import export_training
from test_weights import newest
from torch import nn
from torch.nn import functional as F

SAMPLES, VAL, BATCH, EPOCHS, LR = 160, 48, 16, 2, 0.05  # 20 steps
SIDE, LABELS, NUMBERS, CLASSES, VOCABULARY, LENGTH = 8, 4, 3, 3, 11, 9
IGNORED = 255


class Pixels(nn.Module):
    """Classes for each pixel, at half the resolution and back."""

    def __init__(self):
        super().__init__()
        self.down = nn.Conv2d(1, 6, 3, 2, 1)
        self.up = nn.ConvTranspose2d(6, CLASSES, 2, 2)

    def forward(self, x):
        return self.up(torch.relu(self.down(x)))


class TinyGpt(nn.Module):
    """One block of causal attention."""

    def __init__(self):
        super().__init__()
        self.tokens = nn.Embedding(VOCABULARY, 16)
        self.places = nn.Parameter(0.1 * torch.randn(LENGTH - 1, 16))
        self.first = nn.LayerNorm(16)
        self.qkv = nn.Linear(16, 48)
        self.out = nn.Linear(16, 16)
        self.second = nn.LayerNorm(16)
        self.mlp = nn.Sequential(nn.Linear(16, 32), nn.GELU(), nn.Linear(32, 16))
        self.head = nn.Linear(16, VOCABULARY)

    def forward(self, tokens):
        x = self.tokens(tokens) + self.places
        q, k, v = self.qkv(self.first(x)).chunk(3, dim=-1)
        mixed = F.scaled_dot_product_attention(q.unsqueeze(1), k.unsqueeze(1), v.unsqueeze(1), is_causal=True)
        x = x + self.out(mixed.squeeze(1))
        return self.head(x + self.mlp(self.second(x)))


def mlp(outputs):
    """The built-in mlp with hidden = [8]."""

    class Mlp(nn.Module):
        def __init__(self):
            super().__init__()
            self.fc1 = nn.Linear(SIDE * SIDE, 8)
            self.fc2 = nn.Linear(8, outputs)

        def forward(self, x):
            return self.fc2(torch.relu(self.fc1(x.flatten(1))))

    return Mlp()


def draw(seed, count):
    """Images and everything that the tasks predict from them."""
    random = np.random.default_rng(seed)
    images = random.integers(0, 256, (count, SIDE, SIDE), dtype=np.uint8)
    left = images[:, :, : SIDE // 2].mean((1, 2)) / 255
    present = (images[:, :LABELS, 0] > 150).astype(np.uint8)
    numbers = np.stack([left, 2 * left - 1, images[:, 0, 0] / 255], 1).astype(np.float32)
    masks = (images // 90).astype(np.uint8)  # 0 to 2
    masks[random.random(masks.shape) < 0.1] = IGNORED
    text = np.empty((count, LENGTH), np.int64)
    text[:, 0] = random.integers(0, VOCABULARY, count)
    for at in range(1, LENGTH):
        text[:, at] = (2 * text[:, at - 1] + random.integers(0, 2, count)) % VOCABULARY
    return {"images": images[..., None], "present": present, "numbers": numbers, "masks": masks, "text": text}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("tasks")
    for split, seed, count in (("train", 1, SAMPLES), ("val", 2, VAL)):
        np.savez(path / f"{split}.npz", **draw(seed, count))
    for name, make in (("pixels", Pixels), ("gpt", TinyGpt)):
        torch.manual_seed(7)
        net = make()
        torch.jit.script(net).save(path / f"{name}.pt")
        save_file(net.state_dict(), path / f"{name}.weights")
    tokens = torch.arange(4 * LENGTH).reshape(4, LENGTH) % VOCABULARY
    torch.manual_seed(7)
    export_training(TinyGpt(), loss_of_tokens, (tokens[:, :-1].contiguous(), tokens[:, 1:].contiguous()), path / "gpt.pt2")
    for name, outputs in (("present", LABELS), ("numbers", NUMBERS)):
        torch.manual_seed(7)
        save_file(mlp(outputs).state_dict(), path / f"{name}.safetensors")
    return path


def loss_of_tokens(logits, tokens):
    return F.cross_entropy(logits.flatten(0, 1), tokens.flatten())


FIELDS = {"multilabel": ("present", "label"), "regression": ("numbers", "value"), "segmentation": ("masks", "mask")}
FIELDS["language"] = ("text", "tokens")


def write_recipe(tmp_path, folder, task, model="", train="", epochs=EPOCHS):
    name, kind = FIELDS[task]
    (tmp_path / "r.toml").write_text(f"""
seed = 3
device = "cpu"
task = "{task}"
[data]
train = "{folder}/train.npz"
val = "{folder}/val.npz"
batch_size = {BATCH}
shuffle = false
workers = 2
[data.fields.{name}]
is = "{kind}"
[model]
{model}
[optimizer]
name = "sgd"
lr = {LR}
momentum = 0.9
[train]
epochs = {epochs}
threads = 1
{train}
""")


def built_in(folder, task):
    name = FIELDS[task][0]
    net = mlp(LABELS if task == "multilabel" else NUMBERS)
    net.load_state_dict(load_file(folder / f"{name}.safetensors"))
    return net, f'hidden = [8]\nweights = "{folder}/{name}.safetensors"'


def scripted(folder, name, make):
    net = make()
    net.load_state_dict(load_file(folder / f"{name}.weights"))
    return net, f'script = "{folder}/{name}.pt"'


def batches_of(split, task):
    """(input, target) of the whole split as PyTorch has them."""
    images = torch.from_numpy(split["images"]).permute(0, 3, 1, 2).float() / 255
    target = torch.from_numpy(split[FIELDS[task][0]])
    if task == "language":
        return target[:, :-1], target[:, 1:]
    return images, target.float() if task in ("multilabel", "regression") else target.long()


def train_in_python(net, task, loss_of, epochs=EPOCHS):
    inputs, targets = batches_of(draw(1, SAMPLES), task)
    optimizer = torch.optim.SGD(net.parameters(), lr=LR, momentum=0.9)
    losses = []
    for _ in range(epochs):
        for x, y in zip(inputs.split(BATCH), targets.split(BATCH), strict=True):
            loss = loss_of(net(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
    return losses


def lines_of(tmp_path, kind):
    lines = [json.loads(line) for line in (tmp_path / "run/metrics.jsonl").read_text().splitlines()]
    return [line for line in lines if line["type"] == kind]


WEIGHTS = [0.5, 2.0, 1.0, 3.0]


def pixel_loss(weights=None):
    weight = None if weights is None else torch.tensor(weights)
    return lambda out, y: F.cross_entropy(out, y, weight=weight, ignore_index=IGNORED)


def focal(out, y):
    entropy = F.binary_cross_entropy_with_logits(out, y, reduction="none")
    right = torch.sigmoid(out) * y + (1 - torch.sigmoid(out)) * (1 - y)
    return ((1 - right) ** 2 * entropy).mean()


CASES = {
    "multilabel": ("multilabel", None, "", F.binary_cross_entropy_with_logits),
    "multilabel, weighted": (
        "multilabel", None, f"class_weights = {WEIGHTS}",
        lambda out, y: F.binary_cross_entropy_with_logits(out, y, pos_weight=torch.tensor(WEIGHTS)),
    ),
    "multilabel, focal": ("multilabel", None, "focal_gamma = 2", focal),
    "regression": ("regression", None, "", F.mse_loss),
    "regression, l1": ("regression", None, 'loss = "l1"', F.l1_loss),
    "regression, huber": ("regression", None, 'loss = "huber"', F.huber_loss),
    "segmentation": ("segmentation", ("pixels", Pixels), "", pixel_loss()),
    "segmentation, weighted": (
        "segmentation", ("pixels", Pixels), f"class_weights = {WEIGHTS[:3]}", pixel_loss(WEIGHTS[:3]),
    ),
    "language": ("language", ("gpt", TinyGpt), "", loss_of_tokens),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_training_is_pytorchs(stoker, tmp_path, folder, case):
    task, own, train, loss_of = CASES[case]
    net, model = scripted(folder, *own) if own else built_in(folder, task)
    expected = train_in_python(net, task, loss_of)
    write_recipe(tmp_path, folder, task, model, train)
    stoker("train", "r.toml", "--out", "run")
    assert [line["loss"] for line in lines_of(tmp_path, "step")] == pytest.approx(expected, abs=1e-5)
    weights = load_file(newest(tmp_path / "run") / "model.safetensors")
    for name, value in net.state_dict().items():
        assert (weights[name] - value).abs().max() <= 1e-5, name
    inputs, targets = batches_of(draw(2, VAL), task)
    with torch.no_grad():
        outputs = net.eval()(inputs)
    (_, last) = lines_of(tmp_path, "epoch")
    assert last["val_accuracy"] is None
    assert last["val_metrics"] == pytest.approx(METRICS[task](outputs, targets), abs=1e-5)


def average_precision(scores, present):
    order = np.argsort(-scores, kind="stable")
    hits = np.cumsum(present[order])
    precision = hits / np.arange(1, len(hits) + 1)
    return (precision * present[order]).sum() / present.sum()


def of_labels(outputs, targets):
    scores, present = outputs.numpy(), targets.numpy().astype(int)
    predicted = (scores > 0).astype(int)

    def f1(a, b):
        return 2 * (a * b).sum() / max((a + b).sum(), 1)

    return {
        "map": np.mean([average_precision(scores[:, i], present[:, i]) for i in range(LABELS)]),
        "f1_micro": f1(predicted, present),
        "f1_macro": np.mean([f1(predicted[:, i], present[:, i]) for i in range(LABELS)]),
    }


def of_numbers(outputs, targets):
    error = (outputs - targets).double()
    spread = (targets.double() - targets.double().mean(0)).square().sum(0)
    return {
        "mae": error.abs().mean().item(),
        "rmse": error.square().mean(0).sqrt().mean().item(),
        "r2": (1 - error.square().sum(0) / spread).mean().item(),
    }


def of_masks(outputs, targets):
    predicted, counted = outputs.argmax(1), targets != IGNORED
    shares = []
    for c in range(CLASSES):
        a, b = (predicted == c) & counted, targets == c
        if (a | b).any():
            shares.append(((a & b).sum() / (a | b).sum()).item())
    return {"mean_iou": np.mean(shares), "pixel_accuracy": (predicted == targets)[counted].double().mean().item()}


def of_tokens(outputs, targets):
    loss = loss_of_tokens(outputs, targets).item()
    return {"perplexity": math.exp(loss), "token_accuracy": (outputs.argmax(2) == targets).double().mean().item()}


METRICS = {"multilabel": of_labels, "regression": of_numbers, "segmentation": of_masks, "language": of_tokens}


# The validation data in one process and in two. The rate is so small that the weights stay: over ignored pixels the
# loss of two processes is another mean.
@pytest.mark.parametrize("task", ["multilabel", "regression", "segmentation"])
def test_metrics_are_exact_over_processes(stoker, tmp_path, folder, task):
    model = scripted(folder, "pixels", Pixels)[1] if task == "segmentation" else built_in(folder, task)[1]
    write_recipe(tmp_path, folder, task, model, epochs=1)
    command = ["train", "r.toml", "--out", "run", "--set", "optimizer.lr=1e-12"]
    stoker(*command)
    alone = lines_of(tmp_path, "epoch")[-1]["val_metrics"]
    (tmp_path / "run").rename(tmp_path / "alone")
    run_ranks(2, *command, cwd=tmp_path)
    assert lines_of(tmp_path, "epoch")[-1]["val_metrics"] == pytest.approx(alone, abs=1e-5)


def test_a_gpt_from_a_pt2_file_has_pythons_losses(stoker, tmp_path, folder):
    net, _ = scripted(folder, "gpt", TinyGpt)
    expected = train_in_python(net, "language", loss_of_tokens)
    write_recipe(tmp_path, folder, "language", f'export = "{folder}/gpt.pt2"')
    stoker("train", "r.toml", "--out", "run")
    assert [line["loss"] for line in lines_of(tmp_path, "step")] == pytest.approx(expected, abs=1e-5)
    inputs, targets = batches_of(draw(2, VAL), "language")
    with torch.no_grad():
        expected = of_tokens(net.eval()(inputs), targets)
    assert lines_of(tmp_path, "epoch")[-1]["val_metrics"] == pytest.approx(expected, abs=1e-4)


# Table, document, list and curves name the metric of the task.
def test_the_metric_is_named(stoker, tmp_path, folder):
    write_recipe(tmp_path, folder, "regression", built_in(folder, "regression")[1], 'keep_best = "val_mae"')
    done = stoker("train", "r.toml", "--out", "runs/numbers", "--json").json()
    best = min(epoch["val_metrics"]["mae"] for epoch in done["epochs"])
    last = done["epochs"][-1]["val_metrics"]["mae"]
    assert done["metric"] == {"name": "mae", "value": last, "higher_is_better": False}
    svg = (tmp_path / "runs/numbers/curves.svg").read_text()
    assert "Validation mae" in svg and f"best mae {best:.4g} in epoch" in svg and "accuracy" not in svg
    (listed,) = stoker("runs", "list", "--json").json()["runs"]
    assert listed["val_metric"] == {"name": "mae", "value": last} and listed["val_accuracy"] is None
    assert "val mae" in stoker("runs", "list").out.splitlines()[0]
    write_recipe(tmp_path, folder, "multilabel", built_in(folder, "multilabel")[1])
    done = stoker("train", "r.toml", "--out", "runs/labels").out
    assert "\nmap " in done and " % after 2 epochs" in done
    out = stoker("runs", "list").out
    assert "val metric" in out.splitlines()[0] and "mae 0." in out and "map " in out and " %" in out
    compared = stoker("runs", "compare", "runs/numbers", "runs/numbers").out
    assert "val mae" in compared and "accuracy" not in compared


@pytest.fixture
def photos(tmp_path):
    """Images of the validation data as files."""
    (tmp_path / "photos").mkdir()
    images = draw(2, VAL)["images"]
    for i in range(5):
        Image.fromarray(images[i, :, :, 0]).save(tmp_path / f"photos/{i}.png")
    return batches_of(draw(2, VAL), "regression")[0][:5]


def rows(text):
    return list(csv.DictReader(io.StringIO(text)))


@pytest.mark.parametrize("task", ["multilabel", "regression"])
def test_predictions_have_the_tasks_columns(stoker, tmp_path, folder, photos, task):
    net, model = built_in(folder, task)
    train_in_python(net, task, F.binary_cross_entropy_with_logits if task == "multilabel" else F.mse_loss, epochs=1)
    write_recipe(tmp_path, folder, task, model, epochs=1)
    stoker("train", "r.toml", "--out", "run")
    found = rows(stoker("predict", "run", "photos", "--set", "data.channels=1").out)
    with torch.no_grad():
        expected = net(photos).sigmoid() if task == "multilabel" else net(photos)
    names = ["0", "1", "2", "3"] if task == "multilabel" else ["numbers_0", "numbers_1", "numbers_2"]
    assert list(found[0]) == ["key", *names, "error"]
    for row, values in zip(found, expected, strict=True):
        assert [float(row[name]) for name in names] == pytest.approx(values.tolist(), abs=1e-4)
    stoker("predict", "run", "photos", "--set", "data.channels=1", "-o", "out.json")
    first = json.loads((tmp_path / "out.json").read_text())[0]
    assert list(first["probabilities" if task == "multilabel" else "values"]) == names
    assert "--top" in stoker("predict", "run", "photos", "--top", 2, status=2).err
    evaluated = stoker("eval", "run", "--json").json()
    assert evaluated["val_metrics"] == pytest.approx(lines_of(tmp_path, "epoch")[-1]["val_metrics"], abs=1e-9)
    assert " loss " in stoker("eval", "run").out


def write_flags(folder):
    """A table of 12 images with a text column, then two flags."""
    random = np.random.default_rng(0)
    lines = ["path,breed,red,blue"]
    for i in range(12):
        Image.fromarray(random.integers(0, 256, (8, 8, 3), dtype=np.uint8)).save(folder / f"{i}.png")
        lines.append(f"{i}.png,{('pug', 'boxer', 'collie')[i % 3]},{i % 2},{i // 6}")
    (folder / "table.csv").write_text("\n".join(lines) + "\n")


@pytest.mark.parametrize("task, kind", [("multilabel", "label"), ("regression", "value")])
def test_columns_of_a_table_keep_their_names(stoker, tmp_path, task, kind):
    write_flags(tmp_path)
    (tmp_path / "r.toml").write_text(
        f'device = "cpu"\ntask = "{task}"\n[data]\ntrain = "table.csv"\nbatch_size = 4\n'
        f'[data.fields.both]\nfrom = "red, blue"\nis = "{kind}"\n[model]\nhidden = [4]\n[train]\nepochs = 1\nthreads = 1\n'
    )
    stoker("train", "r.toml", "--out", "run")
    done = stoker("predict", "run", "table.csv", "-o", "out.csv")
    assert done.err.endswith("table.csv: 12 images; written to out.csv\n")
    assert (tmp_path / "out.csv").read_text().splitlines()[0] == "key,red,blue,error"


def test_a_column_of_classes_is_no_multilabel_target(stoker, tmp_path):
    write_flags(tmp_path)
    recipe = (
        'device = "cpu"\ntask = "multilabel"\n[data]\ntrain = "table.csv"\nbatch_size = 4\n[data.fields.breed]\n'
        'is = "label"\nFLAGS[model]\nhidden = [4]\n[train]\nepochs = 1\nthreads = 1\n'
    )
    (tmp_path / "r.toml").write_text(recipe.replace("FLAGS", '[data.fields.flags]\nfrom = "red, blue"\nis = "label"\n'))
    said = stoker("train", "r.toml", "--out", "run").err
    assert "12 samples, target flags (2 values)," in said and "data.fields.breed: not learned" in said
    stoker("predict", "run", "table.csv", "-o", "out.csv")
    assert (tmp_path / "out.csv").read_text().splitlines()[0] == "key,red,blue,error"
    (tmp_path / "r.toml").write_text(recipe.replace("FLAGS", ""))
    assert "[task]" in stoker("train", "r.toml", status=1).err


def test_a_table_without_labels_names_the_column_that_may_hold_them(stoker, tmp_path):
    write_flags(tmp_path)
    (tmp_path / "r.toml").write_text(
        'device = "cpu"\n[data]\ntrain = "table.csv"\nbatch_size = 4\n[model]\nhidden = [4]\n[train]\nepochs = 1\n'
    )
    assert 'data.fields.label = "breed"' in stoker("train", "r.toml", status=1).err
    stoker("train", "r.toml", "--set", "data.fields.label=breed", "--out", "run")


def test_masks_are_written_as_images(stoker, tmp_path, folder, photos):
    net, model = scripted(folder, "pixels", Pixels)
    train_in_python(net, "segmentation", pixel_loss(), epochs=1)
    write_recipe(tmp_path, folder, "segmentation", model, 'keep_best = "val_mean_iou"', epochs=1)
    stoker("train", "r.toml", "--out", "run")
    assert "-o" in stoker("predict", "run", "photos", status=2).err
    done = stoker("predict", "run/best", "photos", "--set", "data.channels=1", "-o", "masks_v1.2")
    assert "photos: 5 images; masks in masks_v1.2/, of the size of the image\n" in done.err
    with torch.no_grad():
        expected = net(photos).argmax(1).numpy()
    files = sorted((tmp_path / "masks_v1.2").rglob("*.png"))
    assert [file.name for file in files] == [f"{i}.png" for i in range(5)]
    for file, mask in zip(files, expected, strict=True):
        assert (np.array(Image.open(file)) == mask).mean() > 0.98  # rounding may change a class


@torch.no_grad()
def test_the_exported_model_needs_no_data(stoker, tmp_path, folder, photos):
    own = tmp_path / "own"
    own.mkdir()
    for name in ("train.npz", "val.npz"):
        shutil.copy(folder / name, own)
    write_recipe(tmp_path, own, "multilabel", "hidden = [8]", epochs=1)
    stoker("train", "r.toml", "--out", "run")
    stoker("export", "run", "-o", "before.pt")
    shutil.rmtree(own)
    stoker("export", "run", "-o", "after.pt")
    net = mlp(LABELS)
    net.load_state_dict(load_file(newest(tmp_path / "run") / "model.safetensors"))
    for name in ("before.pt", "after.pt"):
        assert (torch.jit.load(tmp_path / name)(photos) - net(photos)).abs().max() <= 1e-5


def test_the_models_own_file_is_not_replaced(stoker, tmp_path, folder):
    for name in ("pixels.pt", "numbers.safetensors"):
        shutil.copy(folder / name, tmp_path)
    cases = (
        ("segmentation", 'script = "pixels.pt"', "pixels.pt", "model.script"),
        ("regression", 'hidden = [8]\nweights = "numbers.safetensors"', "numbers.safetensors", "model.weights"),
    )
    for task, model, file, key in cases:
        write_recipe(tmp_path, folder, task, model, epochs=1)
        stoker("train", "r.toml", "--out", task)
        before = (tmp_path / file).read_bytes()
        (tmp_path / f"link-{file}").symlink_to(file)
        for out in (f"./{file}", f"link-{file}"):
            error = stoker("export", task, "-o", out, status=1).err
            assert error.startswith(f"stoker: [{out}] expected another file than {key} of the recipe"), error
            assert error.count("\n") == 1
        assert (tmp_path / file).read_bytes() == before
        stoker("export", task, "-o", f"other-{file}")


def test_no_mask_takes_the_place_of_another(stoker, tmp_path, folder, photos):
    write_recipe(tmp_path, folder, "segmentation", scripted(folder, "pixels", Pixels)[1], epochs=1)
    stoker("train", "r.toml", "--out", "run")
    here = tmp_path / "here"
    shutil.copytree(tmp_path / "photos", here / "photos")
    Image.new("L", (SIDE, SIDE), 255).save(here / "photos/0.png")
    own = ["--set", "data.channels=1", "-o"]
    run_program("predict", "../run", "../photos", *own, "first", cwd=here)
    run_program("predict", "../run", "photos", *own, "second", cwd=here)
    done = run_program("predict", "../run", "../photos", "photos", *own, "both", cwd=here)
    assert "masks in both/, of the size of the image; 5 numbered, as the name was taken\n" in done.err
    assert len(list((here / "both").rglob("*.png"))) == 10
    first = here / "first" / "0.png"
    second = here / "second" / "0.png"
    assert (here / "both/photos/0.png").read_bytes() == first.read_bytes()
    assert (here / "both/photos/0-2.png").read_bytes() == second.read_bytes()


def test_language_has_no_predictions(stoker, tmp_path, folder):
    write_recipe(tmp_path, folder, "language", scripted(folder, "gpt", TinyGpt)[1], epochs=1)
    done = stoker("train", "r.toml", "--out", "run")
    assert "val perplexity" in done.err and "perplexity " in done.out
    assert "one prediction for a sample, got language" in stoker("predict", "run", f"{folder}/val.npz", status=1).err


@pytest.mark.parametrize(
    ("task", "lines", "where"),
    [
        ("regression", "mixup = 0.2", "train.mixup"),
        ("multilabel", "label_smoothing = 0.1", "train.label_smoothing"),
        ("multilabel", 'class_weights = "balanced"', "train.class_weights"),
        ("regression", "class_weights = [1, 2]", "train.class_weights"),
        ("multilabel", 'loss = "l1"', "train.loss"),
        ("multilabel", "ignore_index = 3", "train.ignore_index"),
        ("segmentation", "", "model.name"),
    ],
)
def test_what_does_not_fit_the_task_is_refused(stoker, tmp_path, folder, task, lines, where):
    write_recipe(tmp_path, folder, task, train=lines)
    assert f"{where}] expected " in stoker("train", "r.toml", "--out", "run", status=1).err
    assert not (tmp_path / "run").exists()


def test_outputs_of_another_shape_are_refused(stoker, tmp_path, folder):
    write_recipe(tmp_path, folder, "language", scripted(folder, "pixels", Pixels)[1])
    assert "model.script] expected a model that takes tokens (8)" in stoker("train", "r.toml", status=1).err
    write_recipe(tmp_path, folder, "multilabel", scripted(folder, "pixels", Pixels)[1])
    assert "expected float outputs [1, 4] for one sample" in stoker("train", "r.toml", status=1).err


@pytest.fixture
def flagged(tmp_path):
    """Photos of a table with a class of each and, in two columns, flags."""
    random = np.random.default_rng(3)
    (tmp_path / "images").mkdir()
    lines = ["file,label,reddish,blueish"]
    for i in range(24):
        pixels = random.integers(0, 256, (SIDE, SIDE, 3), dtype=np.uint8)
        Image.fromarray(pixels).save(tmp_path / f"images/{i:02d}.png")
        red, _, blue = pixels.mean((0, 1)) > 127
        lines.append(f"images/{i:02d}.png,{['cat', 'dog', 'eel'][i % 3]},{int(red)},{int(blue)}")
    (tmp_path / "table.csv").write_text("\n".join(lines) + "\n")
    (tmp_path / "r.toml").write_text("""
        device = "cpu"
        task = "multilabel"
        [data]
        train = "table.csv"
        val = "25%"
        batch_size = 8
        [data.fields.flags]
        is = "label"
        from = "reddish, blueish"
        [model]
        hidden = [8]
        [train]
        epochs = 1
        """)
    return tmp_path


def test_outputs_have_the_names_of_the_field_that_is_learned(flagged, stoker):
    names = ["reddish", "blueish"]
    stoker("train", "r.toml", "--out", "run")
    stoker("predict", "run", "images", "-o", "out.csv")
    assert (flagged / "out.csv").read_text().splitlines()[0] == "key,reddish,blueish,error"
    stoker("export", "run", "-o", "m.safetensors")
    with safe_open(flagged / "m.safetensors", "np") as file:
        assert json.loads(file.metadata()["classes"]) == names
    state = json.loads((newest(flagged / "run") / "state.json").read_text())
    assert state["classes"] == names
    stoker("train", "r.toml", "--out", "run", "--resume", "auto", "--set", "train.epochs=2")
    assert stoker("eval", "run", "--json").json()["val_metrics"]


def test_a_single_flag_has_the_name_of_its_field(flagged, stoker):
    recipe = (flagged / "r.toml").read_text().replace("fields.flags", "fields.reddish")
    (flagged / "r.toml").write_text(recipe.replace('from = "reddish, blueish"', ""))
    stoker("train", "r.toml", "--out", "run")
    stoker("predict", "run", "images", "-o", "out.csv")
    assert (flagged / "out.csv").read_text().splitlines()[0] == "key,reddish,error"
