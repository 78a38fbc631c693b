# PyTorch's models train in Stoker: .pt2 training graphs and TorchScript, against the same run in Python. Batches, first
# weights and the last one's batch norm are the same on both sides.
import copy
import json
import os
import zipfile

import numpy as np
import pytest
import stoker
import stoker.export as stoker_export
import torch
from safetensors.torch import load_file, save_file
from stoker.export import export_training
from test_weights import newest
from torch import nn
from torchvision.models import resnet18


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
    """Photos, and a model in both forms: dropout.{pt2,pt}, with its first weights."""
    path = tmp_path_factory.mktemp("import")
    random = np.random.default_rng(5)
    for split, count in (("train", SAMPLES), ("val", 12)):
        labels = random.permutation(np.arange(count) % 3)
        images = random.integers(0, 128, (count, SIZE, SIZE, 3))
        images[np.arange(count), :, :, labels] += np.linspace(0, 127, SIZE).astype(int)  # a ramp in one colour
        np.savez(path / f"{split}.npz", images=images.astype(np.uint8), labels=labels)
    torch.manual_seed(7)
    net = dropout_net()
    export_training(net, nn.CrossEntropyLoss(), EXAMPLE, path / "dropout.pt2")
    torch.jit.script(net).save(path / "dropout.pt")
    torch.save(net.state_dict(), path / "dropout.weights")
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


def key(folder, form):
    return f'export = "{folder}/dropout.pt2"' if form == "export" else f'script = "{folder}/dropout.pt"'


def step_losses(run):
    lines = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    return [line["loss"] for line in lines if line["type"] == "step"]


def images_of(folder, split):
    """What Stoker feeds, to the bit: a network of 18 layers turns another rounding into another run."""
    pytest.importorskip("stoker._stoker", reason="needs the extension module: STOKER_PYTHON=ON")
    ops = [stoker.transforms.Normalize([0.485, 0.456, 0.406], [0.229, 0.224, 0.225])]
    (batch,) = stoker.Loader(folder / f"{split}.npz", SAMPLES, ops=ops, workers=0, shuffle=False)
    return batch["image"], batch["label"]


@pytest.fixture(scope="module")
def photos(folder):
    return images_of(folder, "train")


def train_in_python(net, photos, epochs=EPOCHS, clip_norm=None):
    torch.set_num_threads(1)
    optimizer = torch.optim.SGD(net.parameters(), lr=LR, momentum=MOMENTUM)
    images, labels = photos
    losses = []
    for _ in range(epochs):
        for x, y in zip(images.split(BATCH), labels.split(BATCH), strict=True):
            loss = nn.functional.cross_entropy(net(x), y)
            optimizer.zero_grad()
            loss.backward()
            if clip_norm is not None:
                nn.utils.clip_grad_norm_(net.parameters(), clip_norm)
            optimizer.step()
            losses.append(loss.item())
    return losses


@pytest.fixture(scope="module")
def in_python(folder, photos):
    """A resnet18 before its training, the weights and losses of that, and the loss on the validation data."""
    torch.manual_seed(7)
    first = resnet18(num_classes=3)
    net = copy.deepcopy(first)
    losses = train_in_python(net, photos)
    net.eval()
    with torch.no_grad():
        x, y = images_of(folder, "val")
        return first, net.state_dict(), losses, nn.functional.cross_entropy(net(x), y).item()


# The same kernels on one thread over the same bits: losses were equal when this was written, weights to 5e-10, by the
# fused optimiser's order of operations.
@pytest.mark.parametrize("form", [pytest.param("export", marks=pytest.mark.slow), "script"])
def test_twenty_steps_of_resnet18_are_pytorchs(stoker, tmp_path, folder, in_python, form):
    first, weights, losses, val_loss = in_python
    write_recipe(tmp_path, folder, write_model(tmp_path, first, form))
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


def write_model(tmp_path, net, form):
    """The net as a file in that form; the line of a recipe for it."""
    if form == "export":
        export_training(net, nn.CrossEntropyLoss(), EXAMPLE, tmp_path / "net.pt2")
        return 'export = "net.pt2"'
    torch.jit.script(net).save(tmp_path / "net.pt")
    return 'script = "net.pt"'


def require_same_weights(run, net, names=None):
    state = load_file(newest(run) / "model.safetensors")
    wanted = net.state_dict() if names is None else {name: net.state_dict()[name] for name in names}
    assert state.keys() == wanted.keys()
    for name, value in wanted.items():
        torch.testing.assert_close(state[name], value, rtol=2e-5, atol=2e-6, msg=lambda m, name=name: f"{name}: {m}")


@pytest.mark.parametrize("form", ["export", "script"])
def test_micro_batches_add_up(stoker, tmp_path, folder, form):
    torch.manual_seed(7)
    net = nn.Sequential(nn.Conv2d(3, 8, 3, 2), nn.ReLU(), nn.AdaptiveAvgPool2d(4), nn.Flatten(), nn.Linear(128, 3))
    start = {name: value.clone() for name, value in net.state_dict().items()}
    write_recipe(tmp_path, folder, write_model(tmp_path, net, form), epochs=2)
    states = []
    for parts in (1, 3):  # 7 samples are 2, 2 and 3
        stoker("train", "r.toml", "--out", f"run{parts}", "--set", f"train.accumulate={parts}")
        states.append(load_file(newest(tmp_path / f"run{parts}") / "model.safetensors"))
    for name, value in states[0].items():
        torch.testing.assert_close(states[1][name], value, rtol=1e-5, atol=1e-6)
        assert (value - start[name]).abs().max() > 1e-4


class Layouts(nn.Module):
    """Its gradients lie otherwise in memory than their parameters, are one number many times, or one for two."""

    def __init__(self):
        super().__init__()
        self.stem = nn.Conv2d(3, 8, 4, 4)
        self.norm = nn.LayerNorm(8)
        self.conv = nn.Conv2d(8, 12, 3)  # of channels-last images, and so is its gradient
        self.mix = nn.Parameter(torch.randn(12, 6) / 4)
        self.scale = nn.Parameter(torch.zeros(5))
        self.one = nn.Parameter(torch.randn(3, 6) / 3)
        self.two = nn.Parameter(torch.randn(3, 6) / 3)

    def forward(self, x):
        x = self.norm(self.stem(x).permute(0, 2, 3, 1)).permute(0, 3, 1, 2)
        x = self.conv(x).relu()
        x = torch.einsum("nchw,cd->ndhw", x, self.mix).mean((2, 3)) * (1 + self.scale.sum())
        return nn.functional.linear(x, self.one + self.two)


def test_gradients_of_any_layout_are_pytorchs(stoker, tmp_path, folder, photos):
    torch.manual_seed(7)
    first = Layouts()
    model = write_model(tmp_path, first, "export")
    for i, train in enumerate(["", "clip_norm = 0.3", "accumulate = 2\nclip_norm = 0.3"]):
        net = copy.deepcopy(first)
        write_recipe(tmp_path, folder, model, train=train, epochs=2)
        stoker("train", "r.toml", "--out", f"run{i}")
        losses = train_in_python(net, photos, epochs=2, clip_norm=0.3 if train else None)
        assert step_losses(tmp_path / f"run{i}") == pytest.approx(losses, abs=1e-5), train
        require_same_weights(tmp_path / f"run{i}", net)


class Tied(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = nn.Conv2d(3, 6, 4, 4)
        self.a = nn.Linear(6, 6)
        self.b = nn.Linear(6, 6)
        self.b.weight = self.a.weight
        self.head = nn.Linear(6, 3)

    def forward(self, x):
        return self.head(self.b(self.a(self.stem(x).relu().mean((2, 3))).relu()))


@pytest.mark.parametrize("form", ["export", "script"])
def test_tied_weights_are_one(stoker, tmp_path, folder, photos, form):
    torch.manual_seed(7)
    net = Tied()
    names = [name for name, _ in net.named_parameters()]
    given = {name: value.clone() for name, value in net.state_dict().items() if form == "script" or name in names}
    save_file(given, tmp_path / "given.safetensors")  # for a script the tied one under both of its names
    line = write_model(tmp_path, net, form) + '\nweights = "given.safetensors"'
    write_recipe(tmp_path, folder, line, train="ema = 0.9", epochs=2)
    stoker("train", "r.toml", "--out", "run")
    losses = train_in_python(net, photos, epochs=2)
    assert step_losses(tmp_path / "run") == pytest.approx(losses, abs=1e-6)
    assert "b.weight" not in names
    require_same_weights(tmp_path / "run", net, names)
    stoker("train", "r.toml", "--out", "rest", "--resume", newest(tmp_path / "run"), "--set", "train.epochs=3")
    if form == "script":
        stoker("export", "r.toml", "--checkpoint", "run", "-o", "out.pt")
        out = torch.jit.load(tmp_path / "out.pt")
        assert out.a.weight is out.b.weight and out.state_dict().keys() == net.state_dict().keys()
        averaged = load_file(newest(tmp_path / "run") / "ema.safetensors")
        assert all(torch.equal(out.state_dict()[name], value) for name, value in averaged.items() if name in names)


MODES = {
    "batch_norm": nn.BatchNorm2d(3),
    "dropout": nn.Dropout(),
    "feature_dropout": nn.Dropout2d(),
    "feature_alpha_dropout": nn.FeatureAlphaDropout(),
    "instance_norm": nn.InstanceNorm2d(3, track_running_stats=True),
    "rrelu": nn.RReLU(),
}


def with_head(*layers):
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(3, 3))


@pytest.mark.parametrize(("name", "training"), [("batch_norm", True), ("instance_norm", True), ("dropout", False)])
def test_a_trace_bound_to_one_mode_is_refused(stoker, tmp_path, folder, name, training):
    net = with_head(MODES[name]).train(training)
    torch.jit.trace(net, EXAMPLE[0], check_trace=False).save(tmp_path / "net.pt")
    write_recipe(tmp_path, folder, 'script = "net.pt"')
    error = stoker("train", "r.toml", "--out", "run", status=1).err
    assert "[model.script: net.pt]" in error and f"aten::{name}" in error and error.count("\n") == 1, error


def test_a_trace_of_what_has_one_mode_and_a_script_of_the_rest_train(stoker, tmp_path, folder):
    plain = with_head(nn.Conv2d(3, 3, 3), nn.InstanceNorm2d(3), nn.ReLU())
    torch.jit.trace(plain, EXAMPLE[0]).save(tmp_path / "trace.pt")
    torch.jit.script(with_head(*MODES.values())).save(tmp_path / "script.pt")
    for name in ("trace", "script"):
        write_recipe(tmp_path, folder, f'script = "{name}.pt"', epochs=1)
        stoker("train", "r.toml", "--out", name)
        assert len(step_losses(tmp_path / name)) == 4


@pytest.mark.parametrize("line", ["", 'freeze = ["x"]'])
def test_a_model_with_nothing_to_train_is_refused(stoker, tmp_path, folder, line):
    class Mean(nn.Module):
        def forward(self, x):
            return x.mean((2, 3))

    torch.jit.script(Mean()).save(tmp_path / "net.pt")
    write_recipe(tmp_path, folder, f'script = "net.pt"\n{line}')
    error = stoker("train", "r.toml", "--out", "run", status=1).err
    assert "at least one parameter that trains" in error and error.count("\n") == 1, error


# The graph of training gives, in this order: the loss, gradients of weight and bias, new buffers.
@pytest.mark.parametrize(
    ("output", "change", "text"),
    [
        (0, lambda x: x.expand(2), "a scalar loss, got Float [2]"),
        (2, lambda x: x.double(), "a gradient Float [3] on cpu, got Double [3]"),
        (-1, lambda x: x.expand(5), "a buffer Long [] on cpu, got Long [5]"),
    ],
)
def test_a_graph_with_other_outputs_is_refused(stoker, tmp_path, folder, monkeypatch, output, change, text):
    def doctored(function, batch, *rest):
        def train(*tensors):
            outputs = list(function(*tensors))
            outputs[output] = change(outputs[output])
            return tuple(outputs)

        return real(train if len(batch) == 2 else function, batch, *rest)

    real = stoker_export._export
    monkeypatch.setattr(stoker_export, "_export", doctored)
    monkeypatch.setattr(stoker_export, "_compare", lambda *_: None)
    net = nn.Sequential(nn.AdaptiveAvgPool2d(4), nn.Flatten(), nn.Linear(48, 3), nn.BatchNorm1d(3, affine=False))
    write_recipe(tmp_path, folder, write_model(tmp_path, net, "export"))
    error = stoker("train", "r.toml", "--out", "run", status=1).err
    last = error.splitlines()[-1]  # the lines before it report the start of the run
    assert last.startswith("stoker: [net.pt2") and text in last, error


def rewrite(source, target, **changes):
    """A .pt2 file with other words in its stoker.json."""
    with zipfile.ZipFile(source) as old, zipfile.ZipFile(target, "w") as new:
        for entry in old.infolist():
            data = old.read(entry)
            if entry.filename.endswith("stoker.json"):
                data = json.dumps({**json.loads(data), **changes}).encode()
            new.writestr(entry, data)


def test_other_devices_and_native_code_are_refused(stoker, tmp_path, folder):
    write_recipe(tmp_path, folder, 'export = "net.pt2"')
    for changes, text in (
        ({"device": "abacus"}, 'expected graphs for cpu or cuda, got "abacus"'),
        ({"compiled": True}, "native code; set STOKER_TRUST_NATIVE=1"),
    ):
        rewrite(folder / "dropout.pt2", tmp_path / "net.pt2", **changes)
        error = stoker("train", "r.toml", "--out", "run", status=1).err
        assert "net.pt2" in error and text in error and error.count("\n") == 1, error


@pytest.mark.skipif("STOKER_SLOW_TESTS" not in os.environ, reason="compiles for a minute: set STOKER_SLOW_TESTS")
def test_compiled_graphs_train_as_the_others(stoker, tmp_path, folder):
    torch.manual_seed(7)
    net = Layouts()
    export_training(net, nn.CrossEntropyLoss(), EXAMPLE, tmp_path / "net.pt2")
    export_training(net, nn.CrossEntropyLoss(), EXAMPLE, tmp_path / "compiled.pt2", compiled=True)
    losses = []
    for name in ("net", "compiled"):
        write_recipe(tmp_path, folder, f'export = "{name}.pt2"', epochs=2)
        stoker("train", "r.toml", "--out", name, env={"STOKER_TRUST_NATIVE": "1"})
        losses.append(step_losses(tmp_path / name))
    assert losses[1] == pytest.approx(losses[0], abs=1e-5)


def test_an_exported_model_leaves_as_weights_alone(stoker, tmp_path, folder):
    write_recipe(tmp_path, folder, 'export = "net.pt2"')
    error = stoker("export", "r.toml", "--checkpoint", "none", "-o", "x.pt", status=1).err
    assert "-o OUT.safetensors" in error and error.count("\n") == 1, error


def test_an_export_that_fails_leaves_the_file_before(stoker, tmp_path, folder):
    write_recipe(tmp_path, folder, key(folder, "script"), epochs=1)
    stoker("train", "r.toml", "--out", "run")
    (tmp_path / "x.pt").write_text("before")
    files = set(tmp_path.iterdir())
    small = ("bash", "-c", 'trap "" XFSZ; ulimit -f 4; exec "$@"', "_")  # files of 4 KiB at most
    error = stoker("export", "r.toml", "--checkpoint", "run", "-o", "x.pt", status=1, prefix=small).err
    assert "x.pt" in error and "limit on file sizes" in error and error.count("\n") == 1, error
    assert (tmp_path / "x.pt").read_text() == "before" and set(tmp_path.iterdir()) == files


@pytest.mark.parametrize("form", ["export", "script"])
def test_dropout_follows_the_seed_and_a_resumed_run_draws_the_same(stoker, tmp_path, folder, form):
    def run(out, *more):
        stoker("train", "r.toml", "--out", out, "--set", "train.deterministic=true", *more)
        return step_losses(tmp_path / out)

    write_recipe(tmp_path, folder, key(folder, form), train='checkpoint_every = "3 steps"', epochs=3)
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
    write_recipe(tmp_path, folder, key(folder, "export"), epochs=6)
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


@pytest.mark.parametrize(("form", "train"), [("export", "ema = 0.9\nclip_norm = 0.5\naccumulate = 2"), ("script", "")])
def test_a_recipe_freezes_parameters_of_an_imported_model(stoker, tmp_path, folder, form, train):
    line = f'{key(folder, form)}\nfreeze = ["0.*", "1.bias"]'
    write_recipe(tmp_path, folder, line, train=train, epochs=2)
    decay = ("--set", "optimizer.name=adamw", "--set", "optimizer.weight_decay=0.5")
    done = stoker("train", "r.toml", "--out", "run", *decay)
    frozen = {"0.weight", "0.bias", "1.bias"}
    assert f"{3 * 8 * 9 + 8 + 16 + 387} parameters, {8 + 387} of them trainable" in done.err, done.err
    start = torch.load(folder / "dropout.weights")
    checkpoint = newest(tmp_path / "run")
    for file in ("model", "ema") if train else ("model",):
        state = load_file(checkpoint / f"{file}.safetensors")
        assert {name for name, value in state.items() if torch.equal(value, start[name])} == frozen
    micro_batches = 16 if train else 8
    assert load_file(checkpoint / "model.safetensors")["1.num_batches_tracked"] == micro_batches
    optimizer = load_file(checkpoint / "optimizer.safetensors")
    assert {name.removeprefix("exp_avg.") for name in optimizer if name.startswith("exp_avg.")} == (
        {"1.weight", "6.weight", "6.bias"}
    )
    resume = ("--resume", "auto", "--set", "train.epochs=3")
    stoker("train", "r.toml", "--out", "run", *decay, *resume)
    state = load_file(newest(tmp_path / "run") / "model.safetensors")
    assert all(torch.equal(state[name], start[name]) for name in frozen)
    error = stoker("train", "r.toml", "--out", "no", "--set", 'model.freeze=["fc.*"]', status=1).err
    assert "[model.freeze]" in error and "its first parameter is 0.weight" in error and error.count("\n") == 1, error


def test_bf16_trains_a_scripted_model(stoker, tmp_path, folder):
    write_recipe(tmp_path, folder, key(folder, "script"), train='precision = "bf16"', epochs=2)
    report = stoker("train", "r.toml", "--out", "run", "--json").json()
    assert report["epochs"][1]["train_loss"] < report["epochs"][0]["train_loss"]
