# PyTorch's models train in Stoker: .pt2 training graphs and TorchScript, against the same run in Python. Batches, first
# weights and the last one's batch norm are the same on both sides.
import json
import sys

import numpy as np
import pytest
import torch
from conftest import ROOT, run_program
from safetensors.torch import load_file
from test_weights import newest
from torch import nn
from torchvision.models import resnet18

sys.path.insert(0, str(ROOT / "python"))
from stoker.export import export_training  # noqa: E402

SIZE, SAMPLES, BATCH, EPOCHS, LR, MOMENTUM = 40, 27, 7, 5, 0.005, 0.9  # an epoch: three batches of 7 and one of 6
NORMALIZE = '{op = "normalize", preset = "imagenet"}'
LABELS = torch.tensor([0, 1, 2, 0])
EXAMPLE = (torch.randn(4, 3, SIZE, SIZE, generator=torch.Generator().manual_seed(1)), LABELS)


def dropout_net():
    return nn.Sequential(
        nn.Conv2d(3, 8, 3, 2), nn.BatchNorm2d(8), nn.ReLU(), nn.AdaptiveAvgPool2d(4), nn.Flatten(),
        nn.Dropout(0.3), nn.Linear(128, 3),
    )  # fmt: skip


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Photos, and two models in both forms: {resnet,dropout}.{pt2,pt}, with the first weights of each."""
    path = tmp_path_factory.mktemp("import")
    random = np.random.default_rng(5)
    for split, count in (("train", SAMPLES), ("val", 12)):
        labels = random.permutation(np.arange(count) % 3)
        images = random.integers(0, 128, (count, SIZE, SIZE, 3))
        images[np.arange(count), :, :, labels] += np.linspace(0, 127, SIZE).astype(int)  # a ramp in one colour
        np.savez(path / f"{split}.npz", images=images.astype(np.uint8), labels=labels)
    for name, make in (("resnet", lambda: resnet18(num_classes=3)), ("dropout", dropout_net)):
        torch.manual_seed(7)
        net = make()
        export_training(net, nn.CrossEntropyLoss(), EXAMPLE, path / f"{name}.pt2")
        torch.jit.script(net).save(path / f"{name}.pt")
        torch.save(net.state_dict(), path / f"{name}.weights")
    return path


def write_recipe(tmp_path, folder, model, train="", data="", epochs=EPOCHS, top="seed = 3"):
    (tmp_path / "r.toml").write_text(f"""
{top}
device = "cpu"
[data]
train = "{folder}/train.npz"
val = "{folder}/val.npz"
batch_size = {BATCH}
shuffle = false
workers = 1
train_ops = [{NORMALIZE}]
val_ops = [{NORMALIZE}]
{data}
[model]
{model}
[optimizer]
name = "sgd"
lr = {LR}
momentum = {MOMENTUM}
[train]
epochs = {epochs}
threads = 1
{train}
""")


def key(folder, name, form):
    return f'export = "{folder}/{name}.pt2"' if form == "export" else f'script = "{folder}/{name}.pt"'


def step_losses(run):
    lines = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    return [line["loss"] for line in lines if line["type"] == "step"]


def images_of(folder, split):
    """What Stoker feeds, to the bit: a network of 18 layers turns another rounding into another run."""
    write_recipe(folder, folder, "")
    labels = torch.from_numpy(np.load(folder / f"{split}.npz")["labels"])
    images = []
    for i in range(len(labels)):
        run_program("show", f"{split}.npz", "--recipe", "r.toml", "--index", i, "--npy", "one.npy", cwd=folder)
        images.append(torch.from_numpy(np.load(folder / "one.npy")))
    return torch.stack(images), labels


def train_in_python(folder, name, make):
    torch.set_num_threads(1)
    net = make()
    net.load_state_dict(torch.load(folder / f"{name}.weights"))
    optimizer = torch.optim.SGD(net.parameters(), lr=LR, momentum=MOMENTUM)
    images, labels = images_of(folder, "train")
    losses = []
    for _ in range(EPOCHS):
        for x, y in zip(images.split(BATCH), labels.split(BATCH), strict=True):
            loss = nn.functional.cross_entropy(net(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
    net.eval()
    with torch.no_grad():
        x, y = images_of(folder, "val")
        return net.state_dict(), losses, nn.functional.cross_entropy(net(x), y).item()


@pytest.fixture(scope="module")
def in_python(folder):
    return train_in_python(folder, "resnet", lambda: resnet18(num_classes=3))


# The same kernels on one thread over the same bits: losses were equal when this was written, weights to 5e-10, by the
# fused optimiser's order of operations.
@pytest.mark.parametrize("form", ["export", "script"])
def test_twenty_steps_of_resnet18_are_pytorchs(stoker, tmp_path, folder, in_python, form):
    weights, losses, val_loss = in_python
    write_recipe(tmp_path, folder, key(folder, "resnet", form))
    report = stoker("train", "r.toml", "--out", "run", "--json").json()
    ours = step_losses(tmp_path / "run")
    assert len(ours) == len(losses) == 20 and losses[-1] < losses[0] / 10
    assert ours == pytest.approx(losses, abs=1e-6)
    assert report["epochs"][-1]["val_loss"] == pytest.approx(val_loss, rel=1e-5)
    state = load_file(newest(tmp_path / "run") / "model.safetensors")
    assert state.keys() == weights.keys()
    for name, value in weights.items():
        if "num_batches" in name:
            assert state[name] == value == 20
        else:
            assert (state[name] - value).abs().max() <= 1e-6 * max(1, value.abs().max()), name


@pytest.mark.parametrize("form", ["export", "script"])
def test_micro_batches_add_up(stoker, tmp_path, folder, form):
    write_recipe(tmp_path, folder, key(folder, "dropout", form), train="accumulate = 3", epochs=1)
    stoker("train", "r.toml", "--out", "run")
    state = load_file(newest(tmp_path / "run") / "model.safetensors")
    assert state["1.num_batches_tracked"] == 12


@pytest.mark.parametrize("form", ["export", "script"])
def test_dropout_follows_the_seed_and_a_resumed_run_draws_the_same(stoker, tmp_path, folder, form):
    def run(out, *more):
        stoker("train", "r.toml", "--out", out, "--set", "train.deterministic=true", *more)
        return step_losses(tmp_path / out)

    write_recipe(tmp_path, folder, key(folder, "dropout", form), train='checkpoint_every = "3 steps"', epochs=3)
    whole = run("whole")
    assert whole == run("again")
    assert whole != run("other", "--set", "seed=4")
    run("part", "--set", "train.epochs=1")
    (tmp_path / "part/account.json").unlink()
    stoker("train", "r.toml", "--out", "rest", "--resume", newest(tmp_path / "part"), "--set",
           "train.deterministic=true")
    assert step_losses(tmp_path / "rest") == whole[4:]
    one = load_file(newest(tmp_path / "whole") / "model.safetensors")
    two = load_file(newest(tmp_path / "rest") / "model.safetensors")
    assert all(torch.equal(one[name], two[name]) for name in one)


def test_dropout_differs_from_step_to_step(stoker, tmp_path, folder):
    write_recipe(tmp_path, folder, key(folder, "dropout", "export"), epochs=6)
    stoker("train", "r.toml", "--out", "run", "--set", "optimizer.lr=1e-30", "--set", f"data.batch_size={SAMPLES}")
    assert len(set(step_losses(tmp_path / "run"))) == 6  # the same batch and weights, and other units each time


def test_frozen_parameters_stay(stoker, tmp_path, folder):
    net = dropout_net()
    net[0].weight.requires_grad_(False)
    start = {name: value.clone() for name, value in net.state_dict().items()}
    export_training(net, nn.CrossEntropyLoss(), EXAMPLE, tmp_path / "net.pt2")
    torch.jit.script(net).save(tmp_path / "net.pt")
    for model in ('export = "net.pt2"', 'script = "net.pt"'):
        write_recipe(tmp_path, folder, model, epochs=1)
        out = model.split()[0]
        stoker("train", "r.toml", "--out", out)
        state = load_file(newest(tmp_path / out) / "model.safetensors")
        assert torch.equal(state["0.weight"], start["0.weight"])
        assert not torch.equal(state["6.weight"], start["6.weight"])


def test_bf16_trains_a_scripted_model(stoker, tmp_path, folder):
    write_recipe(tmp_path, folder, key(folder, "resnet", "script"), train='precision = "bf16"', epochs=2)
    report = stoker("train", "r.toml", "--out", "run", "--json").json()
    assert report["epochs"][1]["train_loss"] < report["epochs"][0]["train_loss"]


REFUSED = {
    "both": (
        'script = "{0}/dropout.pt"\nexport = "{0}/dropout.pt2"', "", "model.export] expected model.script or", "both",
    ),
    "smoothing": ('export = "{0}/dropout.pt2"', "label_smoothing = 0.1", "train.label_smoothing] expected 0", ""),
    "precision": ('export = "{0}/dropout.pt2"', 'precision = "bf16"', "train.precision] expected auto, fp32", ""),
    "no export": ('export = "none.pt2"', "", "none.pt2", "No such file"),
    "no script": ('script = "none.pt"', "", "none.pt", "No such file"),
    "a state dict": ('script = "{0}/resnet.weights"', "", "resnet.weights", "a TorchScript module"),
    "not ours": ('export = "{0}/dropout.pt"', "", "dropout.pt", "export_training"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_cannot_be_is_refused_in_one_line(stoker, tmp_path, folder, case):
    model, train, *texts = REFUSED[case]
    write_recipe(tmp_path, folder, model.format(folder), train=train)
    done = stoker("train", "r.toml", "--out", "run", status=1)
    assert done.err.startswith("stoker: ") and done.err.count("\n") == 1, done.err
    assert all(text in done.err for text in texts), done.err
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("form", ["export", "script"])
@pytest.mark.parametrize("damage", ["cut", "empty", "flipped", "text"])
def test_damaged_files_are_refused_in_one_line(stoker, tmp_path, folder, form, damage):
    name = "net.pt2" if form == "export" else "net.pt"
    whole = (folder / f"dropout.pt{'2' if form == 'export' else ''}").read_bytes()
    middle = len(whole) // 3
    (tmp_path / name).write_bytes({
        "cut": whole[: len(whole) // 2],
        "empty": b"",
        "flipped": whole[:middle] + bytes(b ^ 255 for b in whole[middle:middle + 400]) + whole[middle + 400:],
        "text": b"not a model\n" * 50,
    }[damage])  # fmt: skip
    write_recipe(tmp_path, folder, f'{form} = "{name}"')
    done = stoker("train", "r.toml", "--out", "run", status=1)
    assert done.err.startswith("stoker: ") and done.err.count("\n") == 1, done.err
    assert name in done.err, done.err


@pytest.mark.parametrize("form", ["export", "script"])
def test_a_model_of_other_images_or_classes_is_found_before_the_first_step(stoker, tmp_path, folder, form):
    where = f"model.{form}"
    resize = '{op = "resize", size = [30, 20]}, {op = "normalize", preset = "imagenet"}'
    net = nn.Sequential(nn.Flatten(), nn.Linear(3 * SIZE * SIZE, 5))
    export_training(net, nn.CrossEntropyLoss(), EXAMPLE, tmp_path / "net.pt2")
    torch.jit.script(net).save(tmp_path / "net.pt")
    write_recipe(tmp_path, folder, 'export = "net.pt2"' if form == "export" else 'script = "net.pt"')
    error = stoker("train", "r.toml", "--out", "run", status=1).err
    assert where in error and "[1, 3]" in error and "[1, 5]" in error and error.count("\n") == 1, error
    error = stoker("train", "r.toml", "--out", "run", "--set", "model.classes=5", "--set",
                   f"data.train_ops=[{resize}]", "--set", f"data.val_ops=[{resize}]", status=1).err
    assert where in error and "(3, 30, 20)" in error and error.count("\n") == 1, error
    assert not (tmp_path / "run").exists()


def test_one_sample_is_too_few_for_a_batch_norm_of_one_pixel(stoker, tmp_path, folder):
    write_recipe(tmp_path, folder, key(folder, "resnet", "export"))
    net = nn.Sequential(
        nn.Conv2d(3, 4, 3), nn.AdaptiveAvgPool2d(1), nn.BatchNorm2d(4), nn.Flatten(), nn.Linear(4, 3)
    )  # fmt: skip
    export_training(net, nn.CrossEntropyLoss(), EXAMPLE, tmp_path / "net.pt2")
    error = stoker("train", "r.toml", "--set", "model.export=net.pt2", "--set", "data.batch_size=13", status=1).err
    assert "at least 2 samples" in error and "data.drop_last" in error, error


@pytest.mark.parametrize(
    ("example", "path", "text"),
    [
        ((torch.zeros(4, 3, 8), LABELS), "x.pt2", "expected float32 images"),
        ((torch.zeros(4, 3, 8, 8), LABELS[:2]), "x.pt2", "expected int64 labels (4,)"),
        (EXAMPLE, "x.pt", "expected a name that ends in .pt2"),
    ],
)
def test_the_exporter_refuses_what_cannot_be(tmp_path, example, path, text):
    with pytest.raises(ValueError) as error:
        export_training(dropout_net(), nn.CrossEntropyLoss(), example, tmp_path / path)
    assert text in str(error.value)


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
