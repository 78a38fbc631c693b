# Makers of valid inputs that once went wrong, in STOKER_SHARED_DATA/../cases. Each runs in a new folder, and the product
# has to give the values that their README calls right.
import io
import subprocess
import sys

import numpy as np
import pytest
import stoker
import torch
import webdataset
from conftest import SHARED, run_program
from PIL import Image
from torch import nn


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """Runs a maker in a new folder with the sub-folder `within`, and returns that."""

    def run(maker, within):
        cases = SHARED.parent / "cases"
        if not (cases / maker).is_file():
            pytest.skip(f"needs {maker} in STOKER_SHARED_DATA/../cases")
        folder = tmp_path_factory.mktemp(maker.removesuffix(".py"))
        (folder / within).mkdir(exist_ok=True)
        environment = {"PYTHONPATH": str(cases), "PYTHONDONTWRITEBYTECODE": "1"}
        subprocess.run([sys.executable, cases / maker], cwd=folder, env=environment, check=True)
        return folder / within

    return run


def evidence(verdict, rule):
    return next(finding["evidence"] for finding in verdict["findings"] if finding["rule"] == rule)


def severities(verdict):
    return {finding["rule"]: finding["severity"] for finding in verdict["findings"]}


def shares(verdict):
    """All shares of a verdict by name."""
    found = {f"{finding['rule']} {name}": value for finding in verdict["findings"] for name, value in finding["evidence"].items()}
    for rank in verdict["ranks"]:
        found |= {f"account {name}": value for name, value in rank["account"].items()}
        if rank["gpu"]:
            found |= {"gpu busy_share": rank["gpu"]["busy"]}
    return {name: value for name, value in found.items() if name.startswith("account") or name.endswith("_share")}


@pytest.fixture(scope="module")
def traces(made):
    return made("tr_gpu.py", "tr")


def test_a_slow_first_fetch_is_no_finding(made, stoker):
    folder = made("tr_gpu4.py", "tr")
    for kind in ("gpu", "cpu"):
        slow = stoker("diagnose", folder / f"fw_{kind}_3000000.json", "--json").json()
        usual = stoker("diagnose", folder / f"fw_{kind}_5000.json", "--json").json()
        assert slow["ranks"][0]["account"]["wait"] == pytest.approx(0.0587, abs=1e-3)
        assert slow["ranks"][0]["account"] == pytest.approx(usual["ranks"][0]["account"], abs=1e-6)
        assert severities(slow) == severities(usual) and severities(slow)["input-bound"] == "warn"
        assert evidence(slow, "input-bound")["lost_share"] == pytest.approx(0.0587, abs=2e-3)


def test_work_that_no_step_marks_counts_nowhere(made, stoker):
    folder = made("tr_gpu7.py", "tr")
    alone = stoker("diagnose", folder / "part0.json", "--json").json()
    followed = stoker("diagnose", folder / "part30.json", "--json").json()
    for verdict in (alone, followed):
        assert verdict["findings"][0]["rule"] == "input-bound"
        assert evidence(verdict, "fp32-on-tensor-cores")["eligible_share"] == pytest.approx(0.285, abs=0.05)
    assert shares(followed) == pytest.approx(shares(alone), abs=1e-3)


def test_a_first_collective_that_waits_for_another_profiler_is_left_out(traces, stoker):
    skewed = stoker("diagnose", traces / "gpu_skew.json", "--json").json()
    even = stoker("diagnose", traces / "gpu_noskew.json", "--json").json()
    assert "communication" not in [finding["rule"] for finding in skewed["findings"]]
    assert shares(skewed) == pytest.approx(shares(even), abs=1e-3)


def test_a_kernel_that_outlasts_the_next_ends_there(traces, stoker):
    right = stoker("diagnose", traces / "gpu_wait.json", "--json").json()
    wrong = stoker("diagnose", traces / "gpu_overflow.json", "--json").json()
    assert right["findings"][0]["rule"] == "input-bound"
    assert shares(wrong) == pytest.approx(shares(right), abs=2e-3)


def test_work_without_a_time_is_left_out_and_counted(traces, stoker):
    verdict = stoker("diagnose", traces / "gpu_ts0.json", "--json").json()
    assert any("144 events of the GPU" in problem for problem in verdict["problems"])
    assert 0.5 < verdict["ranks"][0]["gpu"]["busy"] < 1


@pytest.mark.parametrize("name", ["gpu", "gpu_ts0", "gpu_dur-1", "gpu_neg", "gpu_inf", "gpu_nan", "gpu_overflow", "gpu_skew"])
def test_no_share_is_below_zero_or_above_one(traces, stoker, name):
    verdict = stoker("diagnose", traces / f"{name}.json", "--json").json()
    assert shares(verdict) and all(0 <= value <= 1 for value in shares(verdict).values())
    assert sum(verdict["ranks"][0]["account"].values()) == pytest.approx(1, abs=1e-6)


SEGMENTATION = """
task = "segmentation"
[data]
train = "{name}"
val = "25%"
batch_size = 8
{fields}
[model]
script = "net.pt"
[optimizer]
lr = 0.02
[train]
epochs = 30
{train}
"""


@pytest.fixture(scope="module")
def masks(made):
    folder = made("make_masks.py", ".")
    torch.manual_seed(0)
    net = nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.ReLU(), nn.Conv2d(8, 2, 1))
    torch.jit.script(net).save(folder / "net.pt")
    return folder


def trained(masks, tmp_path, name, fields="", train="", status=0):
    recipe = tmp_path / "r.toml"
    recipe.write_text(SEGMENTATION.format(name=masks / name, fields=fields, train=train).replace("net.pt", str(masks / "net.pt")))
    return run_program("train", recipe, "--out", tmp_path / "run", "--json", cwd=tmp_path, status=status)


def test_masks_of_0_and_255_are_refused_with_two_ways_out(masks, tmp_path):
    refused = trained(masks, tmp_path, "m255", status=1).err
    assert "values = [0, 255]" in refused and 'ignore_index = "none"' in refused
    iou = trained(masks, tmp_path, "m255", "[data.fields.mask]\nis = 'mask'\nvalues = [0, 255]").json()["epochs"][-1]["val_metrics"]["mean_iou"]
    assert 0.6 < iou <= 1


@pytest.mark.parametrize("name", ["m01", "m1bit", "mpal", "mpaltrns", "m16", "mla"])
def test_masks_of_two_classes_train(masks, tmp_path, name):
    iou = trained(masks, tmp_path, name).json()["epochs"][-1]["val_metrics"]["mean_iou"]
    assert 0.6 < iou <= 1


def test_inspect_lists_the_values_of_masks(masks):
    fields = run_program("inspect", masks / "m255", "--json", cwd=masks).json()["fields"]
    assert fields["mask"]["values"] == [0, 255]


@pytest.fixture(scope="module")
def shards(made):
    return made("make_wds.py", "wds")


def read_by_webdataset(path, image):
    """(pixels, the integer of `cls` or -1) of each sample."""
    samples = webdataset.WebDataset(str(path), shardshuffle=False)
    return [(np.asarray(Image.open(io.BytesIO(s[image]))), int(s.get("cls", b"-1"))) for s in samples]


@pytest.mark.parametrize(
    ("name", "image", "count"),
    [
        ("dots", "1.png", 6),
        ("inout", "input.png", 6),
        ("mac", "png", 4),
        ("dup-000000", "png", 5),
        ("dup-000001", "png", 5),
        ("imagefolder", "png", 6),
        ("upper", "png", 4),
        ("gnu_long", "png", 3),
        ("pax_long", "png", 3),
        ("left_right", "left.png", 4),
    ],
)
def test_shards_are_read_as_webdataset_reads_them(shards, name, image, count):
    path = shards / f"{name}.tar"
    read = [(sample["image"], sample["label"]) for sample in stoker.open(path, image=image if name == "left_right" else "")]
    expected = read_by_webdataset(path, image)
    assert len(read) == len(expected) == count
    for (pixels, label), (right, right_label) in zip(read, expected, strict=True):
        assert (pixels == right).all() and label == right_label


def test_shards_of_one_set_may_repeat_keys(shards):
    assert [s["label"] for s in stoker.open(shards / "dup-{000000..000001}.tar")] == [0, 1, 2, 0, 1, 1, 2, 0, 1, 2]


@pytest.mark.parametrize(("name", "count"), [("titles", 4), ("mac2", 4), ("paxattrs", 3)])
def test_shards_that_webdataset_divides_elsewhere_or_skips(shards, name, count):
    assert [s["image"][0, 0, 0] for s in stoker.open(shards / f"{name}.tar")] == [9 * i for i in range(count)]


def test_members_out_of_order_and_two_images_are_refused(shards):
    with pytest.raises(stoker.DataError, match="d/000"):
        stoker.open(shards / "unsorted.tar")
    with pytest.raises(stoker.DataError, match="left.png, right.png"):
        stoker.open(shards / "left_right.tar")


def labels_of(dataset):
    """None for a bad sample, -1 for a sample without a label."""

    def label(index):
        try:
            return dataset[index]["label"]
        except stoker.DataError:
            return None

    return [label(index) for index in range(len(dataset))]


def test_labels_are_integers_or_make_a_bad_sample(shards):
    assert labels_of(stoker.open(shards / "labels.tar")) == [1, 2, None, None, -1, None, None, 1, None, None, None, None]
    assert labels_of(stoker.open(shards / "classnames.tar")) == [None] * 6
    assert labels_of(stoker.open(shards / "jsonlabels.tar")) == [1] + [-1] * 7


def test_json_with_nan_keeps_its_label(shards):
    assert labels_of(stoker.open(shards / "jsonnan.tar")) == [0, 1, 2]
    with pytest.raises(stoker.DataError, match="NaN"):
        stoker.open(shards / "jsonnan.tar", fields={"score": "json:score"})
