# Weights travel both ways: checkpoints are read by the safetensors package and fit PyTorch's models by
# name, and files that the package writes are read by Stoker.
import json
import shutil

import numpy as np
import pytest
import torch
from conftest import run_program
from PIL import Image
from safetensors import safe_open
from safetensors.torch import load_file, save_file
from torch import nn
from torch.nn.functional import cross_entropy
from torchvision.datasets import ImageFolder
from torchvision.models import resnet18
from torchvision.transforms.v2.functional import normalize, pil_to_tensor

IMAGENET = {"mean": [0.485, 0.456, 0.406], "std": [0.229, 0.224, 0.225]}


def newest(run):
    return max((run / "checkpoints").iterdir(), key=lambda path: int(path.name))


def put_file(checkpoint, weights, **options):
    """Gives a checkpoint other weights: one without hashes, as they were written before, takes them."""
    state = json.loads((checkpoint / "state.json").read_text())
    state.pop("files", None)
    state.pop("self_hash", None)
    for file, write in (("state.json", lambda path: path.write_text(json.dumps(state))),
                        ("model.safetensors", lambda path: save_file(weights, path, **options))):  # fmt: skip
        (checkpoint / file).unlink()  # it may be linked elsewhere, and its tensors be in `weights`
        write(checkpoint / file)


def draw_photos(folder, count, size):
    """Three classes told apart by the direction and colour of a gradient."""
    random = np.random.default_rng(count + size)
    ramp = np.linspace(0, 160, size)
    for label, name in enumerate(("ash", "beech", "cedar")):
        (folder / name).mkdir(parents=True)
        for i in range(count):
            pixels = random.integers(0, 96, (size, size, 3)).astype(float)
            pixels[:, :, label] += ramp if i % 2 else ramp[:, None]
            Image.fromarray(pixels.astype(np.uint8)).save(folder / name / f"{i:03}.png")


def train_resnet(stoker, tmp_path, size, stem):
    draw_photos(tmp_path / "train", 12, size)
    draw_photos(tmp_path / "val", 7, size)
    (tmp_path / "r.toml").write_text(f"""
seed = 4
device = "cpu"
[data]
train = "train"
val = "val"
batch_size = 9
workers = 1
train_ops = [{{op = "horizontal_flip"}}, {{op = "normalize", preset = "imagenet"}}]
val_ops = [{{op = "normalize", preset = "imagenet"}}]
[model]
name = "resnet18"
stem = "{stem}"
[optimizer]
name = "sgd"
lr = 0.02
momentum = 0.9
[train]
epochs = 2
threads = 1
""")
    report = stoker("train", "r.toml", "--out", "run", "--json").json()
    figures = stoker("eval", "r.toml", "--checkpoint", "run", "--json").json()
    assert figures["val_loss"] == pytest.approx(report["epochs"][-1]["val_loss"], abs=1e-6)
    assert figures["val_accuracy"] == report["epochs"][-1]["val_accuracy"]
    return figures, load_file(newest(tmp_path / "run") / "model.safetensors")


@torch.no_grad()
def evaluate(model, folder):
    model.eval()
    photos = ImageFolder(folder)
    images = torch.stack([normalize(pil_to_tensor(image).float() / 255, **IMAGENET) for image, _ in photos])
    labels = torch.tensor(photos.targets)
    logits = model(images)
    return cross_entropy(logits, labels).item(), (logits.argmax(1) == labels).double().mean().item()


@pytest.mark.parametrize("stem", ["imagenet", pytest.param("cifar", marks=pytest.mark.slow)])
def test_resnet18_is_torchvisions(stoker, tmp_path, stem):
    figures, weights = train_resnet(stoker, tmp_path, 64 if stem == "imagenet" else 24, stem)
    model = resnet18(num_classes=3)
    if stem == "cifar":
        model.conv1 = nn.Conv2d(3, 64, 3, stride=1, padding=1, bias=False)
        model.maxpool = nn.Identity()
    assert weights.keys() == model.state_dict().keys()
    start = model.state_dict()["fc.weight"].clone()
    model.load_state_dict(weights, strict=True)
    assert not torch.equal(model.fc.weight, start)
    assert model.bn1.num_batches_tracked == 8  # two epochs of four steps
    loss, accuracy = evaluate(model, tmp_path / "val")
    assert figures["val_loss"] == pytest.approx(loss, abs=1e-4)
    assert figures["val_accuracy"] == pytest.approx(accuracy, abs=1e-12)
    assert figures["samples"] == 21


def test_first_resnet_weights_are_torchvisions_in_distribution(stoker, tmp_path):
    draw_photos(tmp_path / "train", 2, 33)
    (tmp_path / "r.toml").write_text("""
[data]
train = "train"
batch_size = 6
[model]
name = "resnet18"
classes = 1000
[optimizer]
name = "sgd"
lr = 1e-30
[train]
epochs = 1
threads = 1
""")
    stoker("train", "r.toml", "--out", "run", "--set", "model.stem=imagenet")
    weights = load_file(newest(tmp_path / "run") / "model.safetensors")
    for name, value in resnet18().state_dict().items():
        if value.dtype == torch.float32 and value.numel() > 1000:
            assert weights[name].std() == pytest.approx(value.std().item(), rel=0.1), name
            assert abs(weights[name].mean() - value.mean()) < 0.2 * value.std(), name
        elif "running" not in name and "num_batches" not in name and not name.startswith("fc"):
            assert (weights[name] - value).abs().max() < 1e-20, name  # ones and zeros of batch norm


@pytest.fixture(scope="module")
def trained(program, tmp_path_factory):
    folder = tmp_path_factory.mktemp("trained")
    (folder / "r.toml").write_text("""
[data]
train = "synth:digits?count=300"
train_ops = [{op = "normalize", preset = "mnist"}]
val_ops = [{op = "normalize", preset = "mnist"}]
[train]
epochs = 1
threads = 1
""")
    run_program("train", "r.toml", "--out", "run", cwd=folder)
    return folder


@pytest.fixture
def digits(trained, tmp_path):
    """A checkpoint in a copy of the module's folder."""
    return newest(shutil.copytree(trained, tmp_path, dirs_exist_ok=True) / "run")


def test_safetensors_reads_a_checkpoint(digits):
    with safe_open(digits / "model.safetensors", "pt") as file:
        assert sorted(file.keys()) == ["fc1.bias", "fc1.weight", "fc2.bias", "fc2.weight", "fc3.bias", "fc3.weight"]
        assert file.get_slice("fc1.weight").get_shape() == [128, 784]
        assert file.get_tensor("fc1.weight").dtype == torch.float32
    state = load_file(digits / "optimizer.safetensors")
    assert state["step.fc1.weight"].shape == () and state["step.fc1.weight"] == 5
    assert state["exp_avg.fc2.weight"].shape == state["exp_avg_sq.fc2.weight"].shape == (64, 128)
    assert (state["exp_avg_sq.fc2.weight"] >= 0).all()


def evaluation(stoker, checkpoint, status=0):
    return stoker("eval", "r.toml", "--checkpoint", checkpoint, "--json", status=status)


def test_stoker_reads_what_safetensors_writes(stoker, tmp_path, digits):
    before = evaluation(stoker, digits).json()
    weights = load_file(digits / "model.safetensors")
    other = tmp_path / "other"
    shutil.copytree(digits, other)
    put_file(other, weights, metadata={"format": "pt"})
    assert evaluation(stoker, other).json()["val_loss"] == before["val_loss"]
    # A model that always says "3": its figures are known.
    weights = {name: torch.zeros_like(value) for name, value in weights.items()}
    weights["fc3.bias"][3] = 50
    put_file(other, weights)
    after = evaluation(stoker, other).json()
    share = after["val_accuracy"]
    assert 0.02 < share < 0.3
    assert after["val_loss"] == pytest.approx(50 * (1 - share), rel=1e-5)


@pytest.mark.parametrize("damage", ["cut", "shape", "dtype"])
def test_weights_that_do_not_fit_are_refused_in_one_line(stoker, tmp_path, digits, damage):
    other = tmp_path / "other"
    shutil.copytree(digits, other)
    file = other / "model.safetensors"
    weights = load_file(file)
    if damage == "cut":
        file.write_bytes(file.read_bytes()[:-100])
    elif damage == "shape":
        put_file(other, {**weights, "fc3.bias": torch.zeros(11)})
    else:
        put_file(other, {**weights, "fc3.bias": torch.zeros(10, dtype=torch.complex64)})
    done = evaluation(stoker, other, status=1)
    assert done.out == ""
    assert done.err.startswith("stoker: ") and done.err.count("\n") == 1, done.err


def test_half_precision_weights_are_widened(stoker, tmp_path, digits):
    other = tmp_path / "other"
    shutil.copytree(digits, other)
    weights = load_file(digits / "model.safetensors")
    put_file(other, {name: value.to(torch.bfloat16) for name, value in weights.items()})
    ours = evaluation(stoker, other).json()
    assert ours["val_loss"] == pytest.approx(evaluation(stoker, digits).json()["val_loss"], rel=0.05)


def test_a_file_that_is_not_the_one_written_is_refused(stoker, tmp_path, digits):
    """Same names, same shapes: without its hash it would be taken."""
    weights = load_file(digits / "model.safetensors")
    (digits / "model.safetensors").unlink()
    save_file({name: value + 1 for name, value in weights.items()}, digits / "model.safetensors")
    for command in (["eval", "run"], ["predict", "run", "synth:digits?count=3"], ["export", "run", "-o", "x.pt"],
                    ["train", "r.toml", "--out", "run", "--resume", "auto", "--set", "train.epochs=2"],
                    ["train", "r.toml", "--out", "other", "--set", "model.weights=run"]):  # fmt: skip
        done = stoker(*command, status=1)
        line = done.err.splitlines()[-1]
        assert "run/checkpoints/5/model.safetensors" in line and "expected the file as it was written" in line, line
        assert "model.weights takes weights of your own" in line and done.out == "", line
    stoker("train", "r.toml", "--out", "other", "--set", f"model.weights={digits}/model.safetensors")


def test_averages_that_are_gone_are_missed(stoker, digits):
    stoker("train", "r.toml", "--out", "average", "--set", "train.ema=0.9")
    (newest(digits.parents[2] / "average") / "ema.safetensors").unlink()
    error = stoker("eval", "average", status=1).err
    assert "ema.safetensors" in error and error.count("\n") == 1, error


@pytest.mark.parametrize(
    ("old", "new", "text"),
    [
        ('"version"', "version", "got text that is not JSON"),
        ('"step": 5,', '"step": "5",', "got a step of string"),  # not the nanoseconds of the account
    ],
)
def test_a_state_json_that_is_none_is_refused_in_the_same_words(stoker, digits, old, new, text):
    state = (digits / "state.json").read_text()
    assert old in state
    unhashed = state.replace('"self_hash"', '"no_hash"')  # as written before there was a hash
    (digits / "state.json").write_text(unhashed.replace(old, new))
    for command in (["eval", "run"], ["train", "r.toml", "--out", "run", "--resume", "auto", "--set", "train.epochs=2"]):
        line = stoker(*command, status=1).err.splitlines()[-1]
        assert "a state.json that Stoker wrote" in line and text in line and "json.exception" not in line, line
        assert len(line) < 250, line


def test_another_activation_is_refused(stoker, digits):
    done = stoker("eval", "r.toml", "--checkpoint", digits, "--set", "model.activation=gelu", status=1)
    assert '[model.activation] expected "relu", as the checkpoint was trained with, got "gelu"' in done.err


def test_only_training_needs_the_training_data(stoker, tmp_path):
    draw_photos(tmp_path / "train", 4, 24)
    draw_photos(tmp_path / "other", 3, 24)
    (tmp_path / "r.toml").write_text("""
device = "cpu"
[data]
train = "train"
val = "25%"
batch_size = 6
val_ops = [{op = "center_crop", size = 20}, {op = "normalize", preset = "imagenet"}]
train_ops = [{op = "center_crop", size = 20}, {op = "normalize", preset = "imagenet"}]
[train]
epochs = 1
threads = 1
""")
    stoker("train", "r.toml", "--out", "run")
    stoker("export", "run", "-o", "before.pt")
    figures = stoker("eval", "run", "other", "--json").json()
    assert figures["samples"] == 9
    shutil.rmtree(tmp_path / "train")
    stoker("export", "run", "-o", "after.pt")
    images = torch.randn(2, 3, 20, 20)
    before, after = (torch.jit.load(tmp_path / f"{name}.pt") for name in ("before", "after"))
    assert torch.equal(before(images), after(images))
    assert stoker("eval", "run", "other", "--json").json() == figures
    error = stoker("eval", "run", status=1).err  # on a share of the deleted data
    assert "train" in error and error.count("\n") == 1, error


def test_other_ops_change_the_shape_of_an_export(stoker, tmp_path, digits):
    sets = ("--set", 'data.val_ops=[{op = "resize", size = [14, 14]}]')
    error = stoker("export", "run", "-o", "x.pt", *sets, status=1).err
    assert "shape [128, 196]" in error and error.count("\n") == 1, error


def test_onnx_is_named_as_pythons(stoker):
    error = stoker("export", "run", "-o", "x.onnx", status=1).err
    assert 'stoker.export_onnx("run", "x.onnx")' in error and error.count("\n") == 1
