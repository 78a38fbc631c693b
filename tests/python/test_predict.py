# `stoker predict` and `export`: predictions, weights and TorchScript files that Python runs without Stoker.
import csv
import io
import json
import os
import re
import shlex
import shutil

import numpy as np
import pytest
import torch
from conftest import draw_noise, run_program, small_recipe
from PIL import Image
from safetensors import safe_open
from safetensors.torch import load_file
from test_weights import IMAGENET, draw_photos, newest, put_file
from torchvision.datasets import ImageFolder
from torchvision.models import resnet18
from torchvision.transforms.v2.functional import normalize, pil_to_tensor

SIZE = 64
CLASSES = ["ash", "beech", "cedar"]
OPS = '{op = "normalize", preset = "imagenet"}'


@pytest.fixture(scope="module")
def trained(program, tmp_path_factory):
    """A folder with photos in train/ and val/, r.toml, script.toml and their runs."""
    path = tmp_path_factory.mktemp("trained")
    draw_photos(path / "train", 6, SIZE)
    draw_photos(path / "val", 4, SIZE)
    torch.manual_seed(2)
    torch.jit.script(resnet18(num_classes=3)).save(path / "net.pt")
    models = {"r": 'name = "resnet18"\nstem = "imagenet"', "script": 'script = "net.pt"', "mlp": "hidden = [16]"}
    for name, model in models.items():
        (path / f"{name}.toml").write_text(f"""
device = "cpu"
[data]
train = "train"
val = "val"
batch_size = 5
workers = 2
train_ops = [{OPS}]
val_ops = [{OPS}]
[model]
{model}
[optimizer]
name = "sgd"
lr = 0.002
[train]
epochs = 1
threads = 1
""")
        run_program("train", f"{name}.toml", "--out", name, cwd=path)
    return path


@pytest.fixture
def here(trained, tmp_path):
    """A copy made of hard links: a test may remove files, but not write into them."""
    return shutil.copytree(trained, tmp_path / "copy", copy_function=os.link)


def images_of(folder):
    photos = ImageFolder(folder)
    keys = [path[len(str(folder)) + 1 :] for path, _ in photos.samples]
    return keys, torch.stack([normalize(pil_to_tensor(image).float() / 255, **IMAGENET) for image, _ in photos])


def network(run):
    net = resnet18(num_classes=3)
    net.load_state_dict(load_file(newest(run) / "model.safetensors"))
    return net.eval()


def predict(folder, *arguments, status=0, name="r"):
    return run_program("predict", f"{name}.toml", "--checkpoint", name, *arguments, cwd=folder, status=status)


def rows(text):
    return list(csv.DictReader(text.splitlines()))


@torch.no_grad()
def test_what_training_needs_may_be_missing(here, tmp_path):
    """Masks of a paired folder, and classes and further columns of a table: rows have keys and predictions."""
    for folder in ("images", "masks"):
        (tmp_path / "pairs" / folder).mkdir(parents=True)
    for number, photo in enumerate(sorted((here / "val").rglob("*.png"))[:4]):
        shutil.copy(photo, tmp_path / f"pairs/images/{number}.png")
    Image.new("L", (SIZE, SIZE)).save(tmp_path / "pairs/masks/2.png")
    (tmp_path / "pairs/images/labels.csv").write_text("path,label,age\n2.png,,\n0.png,ash,3\n")
    for data, keys in (("pairs", ["0.png", "1.png", "2.png", "3.png"]), ("pairs/images/labels.csv", ["2.png", "0.png"])):
        out = run_program("predict", here / "mlp", tmp_path / data, cwd=tmp_path).out
        rows = list(csv.DictReader(io.StringIO(out)))
        assert [row["key"] for row in rows] == keys
        assert all(row["class"] in CLASSES and not row["error"] and list(row)[3:6] == CLASSES for row in rows)


def test_the_column_of_classes_may_be_missing(stoker, tmp_path):
    lines = ["path,breed"]
    for i in range(8):
        draw_noise(tmp_path / f"{i}.png", i, size=8)
        lines.append(f"{i}.png,{'ash' if i % 2 else 'elm'}")
    (tmp_path / "labels.csv").write_text("\n".join(lines) + "\n")
    (tmp_path / "r.toml").write_text(small_recipe("labels.csv", "", 'fields.label = "breed"'))
    stoker("train", "r.toml", "--out", "run")
    (tmp_path / "bare.csv").write_text("path,note\n3.png,good\n1.png,bad\n")
    whole = {row["key"]: row for row in rows(stoker("predict", "run", "labels.csv").out)}
    found = rows(stoker("predict", "run", "bare.csv").out)
    assert [row["key"] for row in found] == ["3.png", "1.png"] and len(whole) == 8
    for row in found:
        assert float(row["ash"]) == pytest.approx(float(whole[row["key"]]["ash"]), abs=1e-6) and not row["error"]


def test_labels_of_the_data_need_not_be_classes(trained, tmp_path):
    """As in a sample_submission.csv, whose labels only show the form."""
    photos = [tmp_path / f"{number}.png" for number in range(3)]
    for photo, source in zip(photos, sorted((trained / "val").rglob("*.png")), strict=False):
        shutil.copy(source, photo)
    table = tmp_path / "sample_submission.csv"
    table.write_text("id,label\n" + "".join(f"{photo.stem},0.5\n" for photo in photos))
    np.savez(tmp_path / "a.npz", images=np.stack([np.asarray(Image.open(photo)) for photo in photos]), labels=[0.5] * 3)
    expected = rows(predict(trained, *photos).out)
    for data in (table, tmp_path / "a.npz"):
        found = rows(predict(trained, data).out)
        assert [row["ash"] for row in found] == [row["ash"] for row in expected]


def test_predictions_are_pytorchs(trained):
    keys, images = images_of(trained / "val")
    expected = network(trained / "r")(images).softmax(1)
    done = predict(trained, "val")
    found = rows(done.out)
    assert [row["key"] for row in found] == keys
    for row, probabilities in zip(found, expected, strict=True):
        assert [float(row[name]) for name in CLASSES] == pytest.approx(probabilities.tolist(), abs=1e-5)
        assert row["class"] == CLASSES[probabilities.argmax()]
        assert float(row["probability"]) == pytest.approx(probabilities.max().item(), abs=1e-5)
        assert row["error"] == ""
    assert "val: 12 images" in done.err


def test_top_classes_in_csv_and_json(here):
    whole = rows(predict(here, "val").out)
    top = rows(predict(here, "val", "--top", 2).out)
    assert list(top[0]) == ["key", "class", "probability", "class_2", "probability_2", "error"]
    assert predict(here, "val", "--top", 2, "-o", "out.json").out == ""
    document = json.loads((here / "out.json").read_text())
    for all_of, csv_row, json_row in zip(whole, top, document, strict=True):
        order = sorted(CLASSES, key=lambda name: -float(all_of[name]))
        assert [csv_row["class"], csv_row["class_2"]] == order[:2] == [entry["class"] for entry in json_row["top"]]
        assert float(csv_row["probability_2"]) == float(all_of[order[1]])
        assert json_row["probability"] == pytest.approx(float(all_of["probability"]), rel=1e-6)
    predict(here, "val", "-o", "all.json")
    first = json.loads((here / "all.json").read_text())[0]
    assert {name: float(whole[0][name]) for name in CLASSES} == pytest.approx(first["probabilities"], rel=1e-6)


def test_images_without_labels_and_bad_ones(here):
    flat = here / "flat"
    flat.mkdir()
    shutil.copy(here / "val/ash/000.png", flat / "b.png")
    shutil.copy(here / "val/cedar/001.png", flat / "d.png")
    (flat / "a, cut.png").write_bytes((here / "val/ash/001.png").read_bytes()[:200])
    (flat / "c.jpg").write_bytes(b"no image")
    done = predict(here, "flat")
    found = rows(done.out)
    assert [row["key"] for row in found] == ["a, cut.png", "b.png", "c.jpg", "d.png"]
    known = {row["key"]: row for row in rows(predict(here, "val").out)}
    assert found[1] == {**known["ash/000.png"], "key": "b.png"}
    assert found[3] == {**known["cedar/001.png"], "key": "d.png"}
    for row in (found[0], found[2]):
        assert row["class"] == row["ash"] == "" and row["error"].startswith("expected ")
    assert "a, cut.png: expected" in done.err and "4 images, 2 of them bad" in done.err
    predict(here, "flat", "-o", "out.json")
    assert [sorted(row) for row in json.loads((here / "out.json").read_text())[::2]] == [["error", "key"]] * 2
    one = rows(predict(here, "flat/b.png").out)
    assert len(one) == 1 and one[0]["key"] == "flat/b.png"
    assert float(one[0]["ash"]) == pytest.approx(float(found[1]["ash"]), abs=1e-6)


def test_a_run_folder_tells_recipe_and_checkpoint(here):
    by_hand = predict(here, "val", name="mlp").out
    checkpoint = newest(here / "mlp").relative_to(here)
    for run in ("mlp", checkpoint, checkpoint.parent):
        assert run_program("predict", run, "val", cwd=here).out == by_hand
    assert run_program("predict", "mlp", "--checkpoint", checkpoint, "val", cwd=here).out == by_hand
    given = run_program("eval", "mlp.toml", "--checkpoint", "mlp", "--json", cwd=here).json()
    assert run_program("eval", "mlp", "--json", "--set", "data.val=val/", cwd=here).json() == given
    run_program("export", "mlp", "-o", "by_run.safetensors", cwd=here)
    assert load_file(here / "by_run.safetensors").keys() == load_file(here / checkpoint / "model.safetensors").keys()
    other = run_program("predict", "mlp", "--checkpoint", "r", "val", cwd=here, status=1)
    assert "[model.name]" in other.err
    without = run_program("predict", "mlp.toml", "val", cwd=here, status=2)
    assert "expected --checkpoint DIR with a recipe" in without.err and without.err.count("\n") == 1
    none = run_program("eval", "val", cwd=here, status=1)
    assert "[val] expected a run folder" in none.err and none.err.count("\n") == 1
    none = run_program("eval", "nope", cwd=here, status=1)
    assert "[nope] expected a run folder, a checkpoint or a recipe, got a path that does not exist" in none.err


def test_what_cannot_be_read_gets_its_row_even_alone(here):
    bad = here / "bad"
    bad.mkdir()
    (bad / "a.jpg").write_bytes(b"no\nimage")
    whole = predict(here, "bad/a.jpg", status=1)
    (row,) = rows(whole.out)
    assert row["key"] == "bad/a.jpg" and row["class"] == "" and row["error"].startswith("expected a JPEG, ")
    assert len(whole.out.splitlines()) == 2 and "bad/a.jpg: 1 image, 1 of them bad\n" in whole.err
    shutil.copy(bad / "a.jpg", bad / "b.png")
    found = rows(predict(here, "bad", status=1).out)
    assert [(r["key"], r["error"] != "") for r in found] == [("a.jpg", True), ("b.png", True)]
    predict(here, "bad/a.jpg", "-o", "out.json", status=1)
    assert [sorted(r) for r in json.loads((here / "out.json").read_text())] == [["error", "key"]]


@pytest.fixture
def sizes(here):
    """A folder with images of other sizes among those of the model: the first and the last."""
    flat = here / "flat"
    flat.mkdir()
    for name in ("b", "c"):
        shutil.copy(here / "val/ash/000.png", flat / f"{name}.png")
    for name, size in (("a", (100, 100)), ("d", (32, 64))):
        Image.new("RGB", size, "red").save(flat / f"{name}.png")
    return flat


def test_images_of_another_size_get_their_rows(here, sizes):
    done = predict(here, "flat", "-o", "out.csv")
    found = rows((here / "out.csv").read_text())
    assert [row["error"] for row in found] == [
        "expected 3 x 64 x 64, got 3 x 100 x 100",
        "",
        "",
        "expected 3 x 64 x 64, got 3 x 64 x 32",
    ]
    (alone,) = rows(predict(here, "flat/b.png").out)
    assert [float(row["ash"]) for row in found[1:3]] == pytest.approx([float(alone["ash"])] * 2, abs=1e-6)
    assert "flat: 4 images, 2 of them bad; written to out.csv\nfor images of other sizes add: --set 'data.val_ops=" in done.err
    assert sorted(path.name for path in here.glob("out.csv*")) == ["out.csv"]


def test_what_is_told_of_another_size_helps(here, sizes):
    done = predict(here, "flat/a.png", name="mlp", status=1)
    assert [row["error"] for row in rows(done.out)] == ["expected 3 x 64 x 64, got 3 x 100 x 100"]
    (words,) = re.findall(r"^for images of other sizes add: (--set .*)$", done.err, re.M)
    again = predict(here, "flat", *shlex.split(words), name="mlp")
    assert [row["error"] for row in rows(again.out)] == [""] * 4 and "bad" not in again.err


def test_a_full_disk_leaves_the_predictions_of_before(here):
    name = "out.csv"
    (here / name).write_text("of before")
    full = ("sh", "-c", 'trap "" XFSZ; ulimit -f 0; exec "$@"', "sh")
    words = ["predict", "mlp", "val", "-o", name]
    error = run_program(*words, cwd=here, status=1, prefix=full).err.splitlines()[-1]
    assert error.startswith("stoker: [") and name in error and "the predictions to be written" in error
    assert (here / name).read_text() == "of before" and len(list(here.glob("out.*"))) == 1
    (here / "link.csv").symlink_to(name)
    predict(here, "val", "-o", "link.csv", name="mlp")
    assert (here / "link.csv").is_symlink() and (here / name).read_text().startswith("key,")


def test_other_files_beside_the_predictions_stay(here):
    (here / "out.csv.part").write_text("mine")
    predict(here, "val", "-o", "out.csv")
    assert (here / "out.csv.part").read_text() == "mine"
    assert sorted(path.name for path in here.glob("out.*")) == ["out.csv", "out.csv.part"]


def test_a_line_break_in_a_name_or_in_a_reason_breaks_no_line(here):
    flat = here / "flat"
    flat.mkdir()
    shutil.copy(here / "val/ash/000.png", flat / "a\nb.png")
    (flat / "c\nd.png").write_bytes(b"P6\n1 1\n255\nx")
    done = predict(here, "flat")
    assert [row["key"] for row in csv.DictReader(io.StringIO(done.out, newline=""))] == ["a\\x0ab.png", "c\\x0ad.png"]
    assert "\n" not in rows(done.out)[1]["error"]
    assert "c\\x0ad.png: expected" in done.err


def test_a_data_set_with_two_splits_says_which_is_taken(here):
    run_program("synth", "digits", "digits", "--count", "30", cwd=here)
    ops = '[{op = "resize", size = 64}, {op = "normalize", mean = [0.5], std = [0.5]}]'
    done = predict(here, "digits", "--set", f"data.val_ops={ops}", "--set", "data.train=digits", status=None, name="mlp")
    assert done.err.startswith("digits: predicting on the test split\n"), done.err
    assert "split" not in predict(here, "val").err


@pytest.mark.parametrize("command", [["predict", "r", "val"], ["export", "r"]])
def test_a_place_that_cannot_be_written_is_found_before_the_work(here, command):
    shutil.rmtree(here / "r/checkpoints")  # what would be read first
    name = "no/out.csv" if command[0] == "predict" else "no/out.pt"
    done = run_program(*command, "-o", name, cwd=here, status=1)
    assert done.err == f"stoker: [{name}] expected a file that can be written, but no does not exist\n"


def test_evaluating_the_training_data_is_told(here):
    warning = "this is the data that the model was trained on"
    assert warning not in run_program("eval", "mlp", cwd=here).err
    again = run_program("eval", "mlp", "--set", "data.val=./train/", cwd=here)
    assert again.err == f"./train/: {warning}\n" and "accuracy" in again.out
    # The data that the checkpoint was trained on counts, not the recipe's present data.train.
    assert warning not in run_program("eval", "mlp", "--set", "data.val=val", "--set", "data.train=val", cwd=here).err


def test_every_data_set_of_a_mixture_is_training_data(here):
    mixed = ("train", "mlp/recipe.toml", "--set", 'data.mix=["val"]', "-o")
    run_program(*mixed, "mixed", cwd=here)
    assert run_program("eval", "mixed", cwd=here).err == "val: this is the data that the model was trained on\n"
    run_program(*mixed, "parts", "--set", "data.val=20%", cwd=here)
    sets = ("--set", "data.train=val", "--set", "data.mix=[]", "--set", "data.val=40%")
    more = run_program("eval", "parts", *sets, cwd=here).err
    assert more.startswith("40%: the model was trained on a part of this data\n")


def test_more_of_the_data_than_was_held_back_is_training_data(here):
    run_program("train", "mlp/recipe.toml", "-o", "part", "--set", "data.val=20%", cwd=here)
    assert "trained on" not in run_program("eval", "part", cwd=here).err
    assert "trained on" not in run_program("eval", "part", "--set", "data.val=10%", cwd=here).err
    more = run_program("eval", "part", "--set", "data.val=40%", cwd=here).err
    assert more == "40%: the model was trained on a part of this data\n"


def test_a_model_that_diverged_has_no_accuracy(here):
    weights = load_file(newest(here / "mlp") / "model.safetensors")
    weights["fc1.weight"][0, 0] = float("nan")
    put_file(newest(here / "mlp"), weights)
    for arguments in ([], ["--json"]):
        done = run_program("eval", "mlp", *arguments, cwd=here, status=1)
        assert done.out == "" and done.err.count("\n") == 1, done.err
        assert "expected a finite loss, got nan" in done.err and "accuracy" not in done.err
    found = rows(predict(here, "val", "--top", 2, name="mlp", status=1).out)
    assert [(row["class"], row["error"]) for row in found] == [("", "expected finite outputs of the model, got nan")] * 12


def test_a_damaged_checkpoint_names_the_one_before(here):
    more = ["--set", "train.epochs=2", "--resume", "auto", "--out", "mlp"]
    run_program("train", "mlp.toml", *more, cwd=here)
    last = newest(here / "mlp")
    for name in ("model.safetensors", "state.json"):
        whole = (last / name).read_bytes()
        (last / name).unlink()
        (last / name).write_bytes(whole[:50])
        error = run_program("eval", "mlp", cwd=here, status=1).err
        assert error.startswith(f"stoker: [mlp/checkpoints/{last.name}/{name}") and error.count("\n") == 1, error
        assert error.endswith("; mlp/checkpoints/4, the one before it, is whole\n"), error
        (last / name).write_bytes(whole)
    (last / name).write_bytes(whole[:50])
    run_program("eval", "mlp", "--checkpoint", "mlp/checkpoints/4", cwd=here)


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["none"], "none"),
        (["val", "-o", "out.txt"], ".csv or .json"),
        (["val", "-o", "no/folder.csv"], "no/folder.csv"),
        (["r"], "r"),
        (["val", "--set", "data.val_ops=[]", "--set", "model.stem=cifar"], 'set model.stem = "imagenet"'),
    ],
)
def test_predict_refuses_in_one_line(trained, arguments, text):
    done = predict(trained, *arguments, status=1)
    assert done.err.startswith("stoker: ") and done.err.count("\n") == 1 and text in done.err, done.err


def test_a_checkpoint_knows_its_classes(here):
    state = json.loads((newest(here / "mlp") / "state.json").read_text())
    assert state["classes"] == CLASSES
    (here / "val/ash").rename(here / "val/alder")
    done = run_program("eval", "mlp.toml", "--checkpoint", "mlp", cwd=here, status=1)
    assert '"ash"' in done.err and '"alder"' in done.err and done.err.count("\n") == 1, done.err
    (here / "val/alder").rename(here / "val/ash")
    file = newest(here / "mlp") / "state.json"
    del state["classes"], state["self_hash"]  # as in old checkpoints
    file.unlink()
    file.write_text(json.dumps(state))
    run_program("eval", "mlp.toml", "--checkpoint", "mlp", cwd=here)
    assert list(rows(predict(here, "val", name="mlp").out)[0])[3:6] == CLASSES


def test_eval_and_predict_need_no_training_data(here):
    shutil.rmtree(here / "train")
    shutil.rmtree(here / "val/cedar")  # fewer classes than the model has
    run_program("eval", "mlp.toml", "--checkpoint", "mlp", cwd=here)
    assert len(rows(predict(here, "val", name="mlp").out)) == 8


def export(folder, name, out, status=0):
    return run_program("export", f"{name}.toml", "--checkpoint", name, "-o", out, cwd=folder, status=status)


@torch.no_grad()
@pytest.mark.parametrize("name", ["r", "script"])
def test_exported_torchscript_is_the_model(here, name):
    export(here, name, "out.pt")
    files = {"stoker.json": ""}
    loaded = torch.jit.load(here / "out.pt", _extra_files=files)
    assert json.loads(files["stoker.json"])["classes"] == CLASSES
    net = network(here / name)
    assert not loaded.training
    assert loaded.state_dict().keys() == net.state_dict().keys()
    assert all(torch.equal(value, net.state_dict()[key]) for key, value in loaded.state_dict().items())
    for batch in (1, 2, 5):
        images = torch.randn(batch, 3, SIZE, SIZE)
        assert (loaded(images) - net(images)).abs().max() <= 1e-5
    loaded.state_dict()["fc.bias"].fill_(50)  # the names are the weights that count, not copies of constants
    assert (loaded(images) - net(images)).abs().max() > 10


@torch.no_grad()
def test_a_file_alone_says_how_to_use_it(here):
    """Weights and TorchScript carry the classes and what images are: the same predictions, without the recipe."""
    export(here, "mlp", "out.pt")
    export(here, "mlp", "out.safetensors")
    files = {"stoker.json": ""}
    net = torch.jit.load(here / "out.pt", _extra_files=files)
    about = json.loads(files["stoker.json"])
    assert about == {"classes": CLASSES, "input": [3, SIZE, SIZE], **IMAGENET}
    checkpoint = newest(here / "mlp") / "model.safetensors"
    for file in (here / "out.safetensors", checkpoint):
        with safe_open(file, "pt") as weights:
            metadata = weights.metadata()
        assert metadata["format"] == "pt"
        assert {key: json.loads(metadata[key]) for key in about} == about
    found = rows(predict(here, "val", name="mlp").out)
    photos = ImageFolder(here / "val")
    for row, (image, _) in zip(found, photos, strict=True):
        pixels = normalize(pil_to_tensor(image).float() / 255, about["mean"], about["std"])
        assert list(pixels.shape) == about["input"]
        assert row["class"] == about["classes"][net(pixels[None]).argmax()]


def test_an_exported_model_trains_on_in_stoker(here):
    export(here, "mlp", "mlp.pt")
    done = run_program("train", "mlp.toml", "--set", "model.script=mlp.pt", "--out", "more", cwd=here)
    assert "accuracy" in done.out
    start = load_file(newest(here / "mlp") / "model.safetensors")
    more = load_file(newest(here / "more") / "model.safetensors")
    assert start.keys() == more.keys() and not torch.equal(start["fc1.weight"], more["fc1.weight"])


def test_exported_weights_are_the_averaged_ones(here):
    run_program("train", "mlp.toml", "--set", "train.ema=0.5", "--out", "ema", cwd=here)
    run_program("export", "mlp.toml", "--checkpoint", "ema", "-o", "out.safetensors", cwd=here)
    out = load_file(here / "out.safetensors")
    checkpoint = newest(here / "ema")
    average, last = (load_file(checkpoint / f"{name}.safetensors") for name in ("ema", "model"))
    with safe_open(here / "out.safetensors", "pt") as file:
        assert json.loads(file.metadata()["classes"]) == CLASSES
    assert all(torch.equal(out[key], average[key]) for key in average)
    assert not torch.equal(out["fc1.weight"], last["fc1.weight"])


def test_export_refuses_in_one_line(here):
    done = export(here, "mlp", "out.onnx", status=1)
    assert done.err.startswith("stoker: ") and done.err.count("\n") == 1 and ".safetensors" in done.err, done.err
