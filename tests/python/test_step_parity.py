# A step's options beyond forward, backward and update, against the same in PyTorch: micro-batches, clipping, smoothed
# labels, weight decay for some, averaged weights, schedules, mixed precision with loss scaling.
import json
from contextlib import nullcontext

import pytest
import torch
from safetensors.torch import load_file
from test_train_parity import BATCH, EPOCHS, SAMPLES, data, forward, make_model, one_thread, train_with_stoker  # noqa: F401
from torch.nn.functional import cross_entropy
from torch.optim import lr_scheduler as torch_schedules

STEPS_AN_EPOCH = -(-SAMPLES // BATCH)


def train_in_python(splits, optimizer_of, after_backward=None, after_step=None, smoothing=0.0, context=nullcontext):
    images, labels = splits["train"]
    model = make_model()
    optimizer = optimizer_of(model)
    losses = []
    for _ in range(EPOCHS):
        for x, y in zip(images.split(BATCH), labels.split(BATCH), strict=True):
            with context():
                loss = cross_entropy(forward(model, x), y, label_smoothing=smoothing)
            optimizer.zero_grad()
            loss.backward()
            if after_backward:
                after_backward(model)
            optimizer.step()
            if after_step:
                after_step(model)
            losses.append(loss.item())
    return model.state_dict(), losses


def adam(model):
    return torch.optim.Adam(model.parameters(), lr=1e-3)


def sgd(model):  # no division by small moments, which would amplify rounding differences
    return torch.optim.SGD(model.parameters(), lr=0.05)


def step_lines(tmp_path):
    lines = [json.loads(line) for line in (tmp_path / "run/metrics.jsonl").read_text().splitlines()]
    return [line for line in lines if line["type"] == "step"]


def assert_alike(tmp_path, weights, expected, losses, tolerance=1e-5):
    for key, value in expected.items():
        assert (weights[key] - value).abs().max() <= tolerance, key
    assert [line["loss"] for line in step_lines(tmp_path)] == pytest.approx(losses, abs=tolerance)


ADAM = 'name = "adam"\nlr = 1e-3'
SGD = 'name = "sgd"\nlr = 0.05'


@pytest.mark.parametrize("parts", [1, 5, 1000])
def test_micro_batches_learn_the_same(stoker, tmp_path, data, parts):
    folder, splits = data
    _, weights = train_with_stoker(stoker, tmp_path, folder, SGD, train=f"accumulate = {parts}")
    assert_alike(tmp_path, weights, *train_in_python(splits, sgd))


@pytest.mark.parametrize(
    ("key", "clip"),
    [
        ("clip_norm = 0.7", lambda model: torch.nn.utils.clip_grad_norm_(model.parameters(), 0.7)),
        ("clip_value = 0.002", lambda model: torch.nn.utils.clip_grad_value_(model.parameters(), 0.002)),
    ],
)
def test_clipping(stoker, tmp_path, data, key, clip):
    folder, splits = data
    _, weights = train_with_stoker(stoker, tmp_path, folder, SGD, train=key)
    assert_alike(tmp_path, weights, *train_in_python(splits, sgd, after_backward=clip))
    free, _ = train_in_python(splits, sgd)
    assert any((weights[key] - value).abs().max() > 1e-3 for key, value in free.items()), "nothing was clipped"


@pytest.mark.parametrize("parts", [1, 3])
def test_label_smoothing(stoker, tmp_path, data, parts):
    folder, splits = data
    _, weights = train_with_stoker(stoker, tmp_path, folder, SGD, train=f"label_smoothing = 0.1\naccumulate = {parts}")
    assert_alike(tmp_path, weights, *train_in_python(splits, sgd, smoothing=0.1))


@pytest.mark.parametrize(
    ("patterns", "without"),
    [
        ('["norms_and_biases"]', lambda name: name.endswith("bias")),
        ('["fc1.*", "*2.weight"]', lambda name: name in ("fc1.weight", "fc1.bias", "fc2.weight")),
    ],
)
def test_parameters_without_weight_decay(stoker, tmp_path, data, patterns, without):
    folder, splits = data
    toml = f'name = "adamw"\nlr = 1e-3\nweight_decay = 0.5\nno_decay = {patterns}'
    _, weights = train_with_stoker(stoker, tmp_path, folder, toml)

    def optimizer(model):
        named = list(model.named_parameters())
        return torch.optim.AdamW(
            [
                {"params": [p for name, p in named if not without(name)]},
                {"params": [p for name, p in named if without(name)], "weight_decay": 0},
            ],
            lr=1e-3,
            weight_decay=0.5,
        )

    assert_alike(tmp_path, weights, *train_in_python(splits, optimizer))


@pytest.mark.parametrize("kind", ["sgd", "adamw"])
def test_parameters_with_rates_of_their_own(stoker, tmp_path, data, kind):
    folder, splits = data
    settings = {"sgd": "momentum = 0.9\n", "adamw": "weight_decay = 0.5\n"}[kind]
    scales = 'lr_scales = ["fc1.bias=3", "fc1.*=0.1"]\n'
    _, weights = train_with_stoker(stoker, tmp_path, folder, f'name = "{kind}"\nlr = 1e-3\n{settings}{scales}')

    def optimizer(model):
        named = dict(model.named_parameters())
        lr = {"fc1.bias": 3e-3, "fc1.weight": 1e-4}
        groups = [{"params": [parameter], "lr": lr.get(name, 1e-3)} for name, parameter in named.items()]
        if kind == "sgd":
            return torch.optim.SGD(groups, lr=1e-3, momentum=0.9)
        return torch.optim.AdamW(groups, lr=1e-3, weight_decay=0.5)

    assert_alike(tmp_path, weights, *train_in_python(splits, optimizer))


@pytest.mark.parametrize("key, text", [("lr_scales", "bn*=0.1"), ("lr_scales", "fc1.*=0"), ("no_decay", "bn*")])
def test_a_pattern_that_cannot_be_is_refused(stoker, tmp_path, data, key, text):
    folder, _ = data
    (tmp_path / "r.toml").write_text(f'[data]\ntrain = "{folder}"\n[optimizer]\n{key} = ["{text}"]\n')
    assert f"optimizer.{key}] expected" in stoker("train", "r.toml", status=1).err


def test_averaged_weights_are_what_is_evaluated(stoker, tmp_path, data):
    folder, splits = data
    report, weights = train_with_stoker(stoker, tmp_path, folder, ADAM, train="ema = 0.95")
    average = {key: value.clone() for key, value in make_model().state_dict().items()}

    def update(model):
        for key, value in model.state_dict().items():
            average[key].lerp_(value, 0.05)

    assert_alike(tmp_path, weights, *train_in_python(splits, adam, after_step=update))
    checkpoint = max((tmp_path / "run/checkpoints").iterdir(), key=lambda path: int(path.name))
    averaged = load_file(checkpoint / "ema.safetensors")
    for key, value in average.items():
        assert (averaged[key] - value).abs().max() <= 1e-5, key
    model = make_model()
    model.load_state_dict(average)
    images, labels = splits["test"]
    with torch.no_grad():
        loss = cross_entropy(forward(model, images), labels).item()
    assert report["epochs"][-1]["val_loss"] == pytest.approx(loss, abs=1e-5)
    again = stoker("eval", "r.toml", "--checkpoint", "run", "--json").json()
    assert again["val_loss"] == pytest.approx(loss, abs=1e-5)


def by_epochs(schedule, optimizer):
    """A schedule of epochs, asked once a step."""

    class Steps:
        count = 0

        def step(self):
            self.count += 1
            if self.count % STEPS_AN_EPOCH == 0:
                schedule(optimizer).step() if callable(schedule) else schedule.step()

    return Steps()


TOTAL = EPOCHS * STEPS_AN_EPOCH
SCHEDULES = {
    "linear": (
        'name = "linear"\nend_factor = 0.1',
        lambda o: torch_schedules.LinearLR(o, start_factor=1, end_factor=0.1, total_iters=TOTAL),
    ),
    "cosine": ('name = "cosine"', lambda o: torch_schedules.CosineAnnealingLR(o, T_max=TOTAL)),
    "cosine to a tenth": (
        'name = "cosine"\nend_factor = 0.1',
        lambda o: torch_schedules.CosineAnnealingLR(o, T_max=TOTAL, eta_min=0.1 * 0.05),
    ),
    "warm-up and cosine": (
        'name = "cosine"\nwarmup = "7 steps"\nwarmup_factor = 0.2',
        lambda o: torch_schedules.SequentialLR(
            o,
            [
                torch_schedules.LinearLR(o, start_factor=0.2, total_iters=7),
                torch_schedules.CosineAnnealingLR(o, T_max=TOTAL - 7),
            ],
            milestones=[7],
        ),
    ),
    "step": ('name = "step"\nstep_size = 1\ngamma = 0.3', lambda o: by_epochs(torch_schedules.StepLR(o, 1, 0.3), o)),
    "multi_step": (
        'name = "multi_step"\nmilestones = [1, 5]\ngamma = 0.5',
        lambda o: by_epochs(torch_schedules.MultiStepLR(o, [1, 5], 0.5), o),
    ),
}


@pytest.mark.parametrize("name", SCHEDULES)
def test_schedules(stoker, tmp_path, data, name):
    folder, _ = data
    toml, make_schedule = SCHEDULES[name]
    train_with_stoker(stoker, tmp_path, folder, 'name = "sgd"\nlr = 0.05', top=f"[schedule]\n{toml}")
    optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=0.05)
    schedule = make_schedule(optimizer)
    expected = []
    for _ in range(TOTAL):
        expected.append(optimizer.param_groups[0]["lr"])
        optimizer.step()
        schedule.step()
    assert [line["lr"] for line in step_lines(tmp_path)] == pytest.approx(expected, rel=1e-9, abs=1e-12)


def test_bf16_is_autocasts(stoker, tmp_path, data):
    folder, splits = data
    _, weights = train_with_stoker(stoker, tmp_path, folder, SGD, train='precision = "bf16"')
    expected, losses = train_in_python(splits, sgd, context=lambda: torch.autocast("cpu", torch.bfloat16))
    # A difference in the last bit of a pixel may be one in the last of bf16's eight.
    assert_alike(tmp_path, weights, expected, losses, tolerance=2e-3)
    _, exact = train_in_python(splits, sgd)
    ours = [line["loss"] for line in step_lines(tmp_path)]
    away = sum(abs(a - b) for a, b in zip(losses, exact, strict=True))
    assert sum(abs(a - b) for a, b in zip(ours, losses, strict=True)) < away / 3
    assert away > 1e-3, "bf16 changed nothing"
    first = json.loads((tmp_path / "run/metrics.jsonl").read_text().splitlines()[0])
    assert first["device"]["half_speedup"] > 0  # measured, so that the diagnosis knows whether this CPU emulates bf16


def test_fp16_with_overflows_is_gradscalers(stoker, tmp_path, data):
    """200 steps in fp16 from a scale so large, and growing so often, that a good part of them overflows."""
    folder, splits = data
    images, labels = splits["train"]
    epochs = 200 // STEPS_AN_EPOCH
    toml = 'precision = "fp16"\nloss_scale = 4194304.0\nloss_scale_interval = 5'
    _, weights = train_with_stoker(stoker, tmp_path, folder, SGD, train=toml, epochs=epochs)
    model = make_model()
    optimizer = sgd(model)
    scaler = torch.amp.GradScaler("cpu", init_scale=4194304.0, growth_interval=5)
    losses, skipped = [], 0
    for _ in range(epochs):
        for x, y in zip(images.split(BATCH), labels.split(BATCH), strict=True):
            with torch.autocast("cpu", torch.float16):
                loss = cross_entropy(forward(model, x), y)
            optimizer.zero_grad()
            before = scaler.get_scale()
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()
            skipped += scaler.get_scale() < before
            losses.append(loss.item())
    assert epochs * STEPS_AN_EPOCH == 200 and 20 < skipped < 100
    checkpoint = max((tmp_path / "run/checkpoints").iterdir(), key=lambda path: int(path.name))
    state = load_file(checkpoint / "optimizer.safetensors")
    assert state["scaler.scale"].item() == scaler.get_scale()
    assert state["scaler.growth_tracker"].item() == scaler.state_dict()["_growth_tracker"]
    assert state["step.fc1.weight"].item() == 200 - skipped
    # fp16 rounds to 5e-4 of a value, and matrix products sum in another order on some processors: 1.3e-3 on AMD.
    assert_alike(tmp_path, weights, model.state_dict(), losses, tolerance=4e-3)


def test_mixed_batches_train(stoker, tmp_path, data):
    folder, _ = data
    report, _ = train_with_stoker(stoker, tmp_path, folder, ADAM, train="mixup = 1.0\ncutmix = 1.0")
    assert report["epochs"][-1]["val_accuracy"] > 0.8


def test_a_loss_that_is_not_finite_names_its_samples(stoker, tmp_path, data):
    folder, _ = data
    recipe = f"""
device = "cpu"
[data]
train = "{folder}"
shuffle = false
[optimizer]
name = "sgd"
lr = 1e30
"""
    (tmp_path / "r.toml").write_text(recipe)
    error = stoker("train", "r.toml", "--out", "run", status=1).err
    assert "expected a finite loss, got nan in step 2, of the samples train/64, train/65" in error
    stoker("train", "r.toml", "--out", "run2", "--set", "train.stop_at_nan=false", "--set", "train.epochs=1", status=0)
