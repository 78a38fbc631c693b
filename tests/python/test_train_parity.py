# A whole run against the same run in PyTorch: from IDX files through normalisation, model, optimiser
# and schedule to the weights in the checkpoint.
import json

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from torch import nn
from torch.nn.functional import cross_entropy
from torch.optim.lr_scheduler import OneCycleLR

SEED = 11
SAMPLES, VALIDATION, BATCH, EPOCHS = 1270, 200, 64, 2  # the last batch of an epoch has 54
MEAN, STD = 0.4, 0.25

OPTIMIZERS = {
    "sgd": ('name = "sgd"\nlr = 0.05', lambda p: torch.optim.SGD(p, lr=0.05)),
    "sgd_nesterov": (
        'name = "sgd"\nlr = 0.02\nmomentum = 0.9\nnesterov = true\nweight_decay = 5e-3',
        lambda p: torch.optim.SGD(p, lr=0.02, momentum=0.9, nesterov=True, weight_decay=5e-3),
    ),
    "adam": (
        'name = "adam"\nlr = 1e-3\nweight_decay = 0.01',
        lambda p: torch.optim.Adam(p, lr=1e-3, weight_decay=0.01),
    ),
    "adamw": (
        'name = "adamw"\nlr = 2e-3\nbeta1 = 0.8\nbeta2 = 0.95\neps = 1e-7\nweight_decay = 0.1',
        lambda p: torch.optim.AdamW(p, lr=2e-3, betas=(0.8, 0.95), eps=1e-7, weight_decay=0.1),
    ),
}


def write_idx(path, array):
    sizes = b"".join(size.to_bytes(4, "big") for size in array.shape)
    path.write_bytes(bytes([0, 0, 8, array.ndim]) + sizes + array.astype(np.uint8).tobytes())


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """IDX files of noisy prototypes, and their contents: {split: (images, labels)}."""
    folder = tmp_path_factory.mktemp("idx")
    random = np.random.default_rng(5)
    prototypes = random.integers(0, 256, (10, 28, 28))
    splits = {}
    for split, prefix, count in (("train", "train", SAMPLES), ("test", "t10k", VALIDATION)):
        labels = random.integers(0, 10, count)
        noise = random.integers(0, 256, (count, 28, 28))
        images = ((prototypes[labels] + 2 * noise) // 3).astype(np.uint8)
        write_idx(folder / f"{prefix}-images-idx3-ubyte", images)
        write_idx(folder / f"{prefix}-labels-idx1-ubyte", labels)
        splits[split] = (torch.from_numpy(images), torch.from_numpy(labels))
    return folder, splits


@pytest.fixture(autouse=True)
def one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def make_model():
    torch.manual_seed(SEED)
    layers = {"fc1": nn.Linear(784, 128), "fc2": nn.Linear(128, 64), "fc3": nn.Linear(64, 10)}
    return nn.ModuleDict(layers)


def forward(model, images):
    x = ((images.float() / 255 - MEAN) / STD).flatten(1)
    return model["fc3"](torch.relu(model["fc2"](torch.relu(model["fc1"](x)))))


def train_in_python(data, make_optimizer, one_cycle):
    images, labels = data["train"]
    model = make_model()
    optimizer = make_optimizer(model.parameters())
    lr = optimizer.param_groups[0]["lr"]
    steps = EPOCHS * -(-SAMPLES // BATCH)
    schedule = OneCycleLR(optimizer, max_lr=lr, total_steps=steps, cycle_momentum=False) if one_cycle else None
    epochs = []
    for _ in range(EPOCHS):
        loss_sum = 0.0
        for x, y in zip(images.split(BATCH), labels.split(BATCH), strict=True):
            loss = cross_entropy(forward(model, x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            if schedule and schedule.last_epoch < steps - 1:
                schedule.step()
            loss_sum += loss.item() * len(y)
        epochs.append({"train_loss": loss_sum / SAMPLES, **evaluate(model, data)})
    return model, epochs


@torch.no_grad()
def evaluate(model, data):
    images, labels = data["test"]
    logits = forward(model, images)
    return {
        "val_loss": cross_entropy(logits, labels).item(),
        "val_accuracy": (logits.argmax(1) == labels).double().mean().item(),
    }


def train_with_stoker(stoker, tmp_path, folder, optimizer, top="", train="", epochs=EPOCHS):
    (tmp_path / "r.toml").write_text(f"""
seed = {SEED}
device = "cpu"
[data]
train = "{folder}"
batch_size = {BATCH}
shuffle = false
workers = 2
train_ops = [{{op = "normalize", mean = [{MEAN}], std = [{STD}]}}]
val_ops = [{{op = "normalize", mean = [{MEAN}], std = [{STD}]}}]
[model]
name = "mlp"
hidden = [128, 64]
[optimizer]
{optimizer}
{top}
[train]
epochs = {epochs}
threads = 1
{train}
""")
    report = stoker("train", "r.toml", "--out", "run", "--json").json()
    checkpoint = max((tmp_path / "run/checkpoints").iterdir(), key=lambda path: int(path.name))
    return report, load_file(checkpoint / "model.safetensors")


@pytest.mark.parametrize("compiled", ["auto", "none"])
@pytest.mark.parametrize("name, schedule", [*zip(OPTIMIZERS, ["constant", "one_cycle"] * 2, strict=True)])
def test_two_epochs_are_pytorchs(stoker, tmp_path, data, name, schedule, compiled):
    folder, splits = data
    toml, make_optimizer = OPTIMIZERS[name]
    top = f'[schedule]\nname = "{schedule}"'
    report, weights = train_with_stoker(stoker, tmp_path, folder, toml, top, train=f'compile = "{compiled}"')
    model, epochs = train_in_python(splits, make_optimizer, schedule == "one_cycle")

    start = make_model().state_dict()
    assert weights.keys() == start.keys()
    assert all((weights[key] - start[key]).abs().max() > 1e-3 for key in weights), "nothing was learned"
    for key, value in model.state_dict().items():
        assert (weights[key] - value).abs().max() <= 1e-5, key
    for ours, theirs in zip(report["epochs"], epochs, strict=True):
        assert ours["train_loss"] == pytest.approx(theirs["train_loss"], abs=1e-5)
        assert ours["val_loss"] == pytest.approx(theirs["val_loss"], abs=1e-5)
        assert ours["val_accuracy"] == pytest.approx(theirs["val_accuracy"], abs=1e-12)
    assert epochs[1]["train_loss"] < epochs[0]["train_loss"]


def test_the_first_weights_are_pytorchs_exactly(stoker, tmp_path, data):
    folder, _ = data
    _, weights = train_with_stoker(stoker, tmp_path, folder, 'name = "sgd"\nlr = 1e-30')
    for key, value in make_model().state_dict().items():
        assert torch.equal(weights[key], value), key


def test_the_learning_rates_are_pytorchs(stoker, tmp_path, data):
    folder, _ = data
    train_with_stoker(stoker, tmp_path, folder, OPTIMIZERS["sgd"][0], '[schedule]\nname = "one_cycle"\npct_start = 0.4')
    lines = [json.loads(line) for line in (tmp_path / "run/metrics.jsonl").read_text().splitlines()]
    rates = [line["lr"] for line in lines if line["type"] == "step"]
    optimizer = OPTIMIZERS["sgd"][1]([nn.Parameter(torch.zeros(1))])
    schedule = OneCycleLR(optimizer, max_lr=0.05, total_steps=len(rates), pct_start=0.4, cycle_momentum=False)
    expected = [schedule.get_last_lr()[0]]
    for _ in rates[1:]:
        optimizer.step()
        schedule.step()
        expected.append(schedule.get_last_lr()[0])
    assert rates == pytest.approx(expected, rel=1e-12)


def test_what_eval_counts_is_pytorchs(stoker, tmp_path, data):
    folder, splits = data
    _, weights = train_with_stoker(stoker, tmp_path, folder, 'name = "sgd"\nlr = 0.001', epochs=1)
    found = stoker("eval", "r.toml", "--checkpoint", "run", "--json").json()
    images, labels = splits["test"]
    model = make_model()
    model.load_state_dict(weights)
    with torch.no_grad():
        logits = forward(model, images)
    top5 = (logits.topk(5, 1).indices == labels[:, None]).any(1).double().mean().item()
    pairs = torch.bincount(labels * 10 + logits.argmax(1), minlength=100).reshape(10, 10)
    assert found["val_top5_accuracy"] == pytest.approx(top5, abs=1e-12) and top5 < 1
    assert found["confusion"] == pairs.tolist() and pairs.diagonal().sum() < len(labels)
    worst = max((pairs[i, j].item(), i, j) for i in range(10) for j in range(10) if i != j)
    report = stoker("eval", "r.toml", "--checkpoint", "run").out
    assert f"top 5 {100 * top5:.2f} %" in report
    assert f"({worst[0]} of " in report.split("most confused: ")[1].split(",")[0]
