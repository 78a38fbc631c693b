# Models from files that cannot be trained on: each is refused in one line, before the first step.
import json
import zipfile

import pytest
import torch
from test_import import EXAMPLE, SIZE, export_training, folder, with_head, write_recipe  # noqa: F401
from torch import nn


REFUSED = {
    "both": (
        'script = "{0}/dropout.pt"\nexport = "{0}/dropout.pt2"', "", "model.export] expected model.script or", "both",
    ),
    "smoothing": ('export = "{0}/dropout.pt2"', "label_smoothing = 0.1", "train.label_smoothing] expected 0", ""),
    "precision": ('export = "{0}/dropout.pt2"', 'precision = "bf16"', "train.precision] expected auto, fp32", ""),
    "no export": ('export = "none.pt2"', "", "[model.export] expected", "none.pt2, which does not exist"),
    "no script": ('script = "none.pt"', "", "[model.script] expected", "none.pt, which does not exist"),
    "a state dict": ('script = "{0}/dropout.weights"', "", "dropout.weights", "a TorchScript module"),
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
@pytest.mark.parametrize("damage", ["cut", "flipped"])
def test_damaged_files_are_refused_in_one_line(stoker, tmp_path, folder, form, damage):
    name = "net.pt2" if form == "export" else "net.pt"
    whole = (folder / f"dropout.pt{'2' if form == 'export' else ''}").read_bytes()
    middle = len(whole) // 3
    (tmp_path / name).write_bytes({
        "cut": whole[: len(whole) // 2],
        "flipped": whole[:middle] + bytes(b ^ 255 for b in whole[middle:middle + 400]) + whole[middle + 400:],
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
    net = with_head(nn.Conv2d(3, 3, 3), nn.AdaptiveAvgPool2d(1), nn.BatchNorm2d(3))
    export_training(net, nn.CrossEntropyLoss(), EXAMPLE, tmp_path / "net.pt2")
    write_recipe(tmp_path, folder, 'export = "net.pt2"')
    error = stoker("train", "r.toml", "--out", "run", "--set", "data.batch_size=13", status=1).err
    assert "epoch's last batch of 1" in error and "data.drop_last = true" in error and error.count("\n") == 1, error
    assert not (tmp_path / "run").exists()


def test_native_code_is_found_whatever_the_file_says(stoker, tmp_path, folder):
    target = "torch.ops.higher_order.executorch_call_delegate"
    with zipfile.ZipFile(folder / "dropout.pt2") as old, zipfile.ZipFile(tmp_path / "net.pt2", "w") as new:
        for entry in old.infolist():
            data = old.read(entry)
            if entry.filename.endswith("/models/eval.json"):
                program = json.loads(data)
                program["graph_module"]["graph"]["nodes"][0]["target"] = target
                data = json.dumps(program).encode()
            new.writestr(entry, data)
    write_recipe(tmp_path, folder, 'export = "net.pt2"', epochs=1)
    error = stoker("train", "r.toml", "--out", "run", status=1).err
    assert f'a graph "eval" that calls "{target}"' in error and "STOKER_TRUST_NATIVE=1" in error
    assert error.count("\n") == 1 and "[net.pt2" in error and not (tmp_path / "run").exists(), error
