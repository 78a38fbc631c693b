# Batches of images of one size: aspect_crop and bucket_by = "image".
import json
import warnings

import numpy as np
import pytest
import stoker as package
import torch
from PIL import Image
from stoker import transforms as T
from torchvision.transforms.v2 import functional as F

COUNT, SIZE, STEP = 60, 48, 16
SIZES = {(64, 32), (48, 48), (32, 64)}


def nearest(height, width):
    return min(SIZES, key=lambda size: abs(np.log(size[1] / size[0]) - np.log(width / height)))


@pytest.fixture(scope="module")
def photos(tmp_path_factory):
    folder = tmp_path_factory.mktemp("aspect") / "photos"
    random = np.random.default_rng(0)
    y, x = np.mgrid[:120, :120]
    for i in range(COUNT):
        height, width = (int(side) for side in random.integers(30, 120, 2))
        wave = np.stack([127 + 120 * np.sin(x / (9 + i % 5 + c)) * np.cos(y / (11 + i % 7)) for c in range(3)], -1)
        path = folder / f"c{i % 2}/{i:03}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(wave[:height, :width].astype(np.uint8)).save(path)
    return folder


def load(data, random=True, **options):
    ops = [T.AspectCrop(SIZE, step=STEP, random=random), T.RandomHorizontalFlip(0.5 if random else 0)]
    given = {"ops": ops, "framework": "torch", "bucket_by": "image"} | options
    return package.Loader(data, given.pop("batch_size", 8), **given)


def epoch(loader):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", package.BadSampleWarning)
        return [(batch["index"].tolist(), batch["image"].clone()) for batch in loader]


def same(a, b):
    return len(a) == len(b) and all(i == j and torch.equal(x, y) for (i, x), (j, y) in zip(a, b, strict=True))


def test_each_batch_has_one_size(photos):
    data = package.open(photos)
    found = epoch(load(photos, seed=3))
    assert sorted(index for indices, _ in found for index in indices) == list(range(COUNT))
    assert {tuple(images.shape[2:]) for _, images in found} == SIZES
    for indices, images in found:
        assert all(tuple(images.shape[2:]) == nearest(*data[i]["image"].shape[:2]) for i in indices)
    full = [len(indices) for indices, _ in found]
    assert sum(size < 8 for size in full) <= len(SIZES) and max(full) == 8
    dropped = epoch(load(photos, seed=3, drop_last=True))
    assert [len(indices) for indices, _ in dropped] == [8] * full.count(8)


# The box is the largest of its ratio, in the middle.
def test_pixels_are_torchvisions(photos):
    data = package.open(photos)
    for indices, images in epoch(load(photos, random=False, shuffle=False, dtype="uint8")):
        height, width = images.shape[2:]
        for index, image in zip(indices, images, strict=True):
            whole = torch.from_numpy(data[index]["image"]).permute(2, 0, 1)
            scale = min(whole.shape[1] / height, whole.shape[2] / width)
            box = [min(round(scale * height), whole.shape[1]), min(round(scale * width), whole.shape[2])]
            expected = F.resize(F.center_crop(whole, box), [height, width], antialias=True)
            assert (expected.int() - image.int()).abs().max() <= 1


@pytest.mark.parametrize("options", [{}, {"cache": "ram"}, {"dtype": "bfloat16"}, {"channels_last": True}])
def test_one_order_for_workers_and_restarts(photos, options):
    whole = load(photos, seed=5, workers=1, **options)
    first, second = epoch(whole), epoch(whole)
    assert not same(first, second) and [len(i) for i, _ in first] == [len(i) for i, _ in second]
    again = load(photos, seed=5, workers=3, **options)
    assert same(epoch(again), first)
    for at, (_, batch) in zip(range(2), enumerate(again), strict=False):
        assert torch.equal(batch["image"], second[at][1])
    state = json.loads(json.dumps(again.state_dict()))
    other = load(photos, seed=5, workers=2, **options)
    other.load_state_dict(state)
    assert same(epoch(other), second[2:])


def test_packed_data_have_the_same_batches(photos, tmp_path, stoker):
    stoker("pack", photos, "photos.stk")
    stoker("pack", photos, "photos.tar")
    first = epoch(load(photos, seed=5))
    assert same(epoch(load(tmp_path / "photos.stk", seed=5)), first)
    assert same(epoch(load(tmp_path / "photos.tar", seed=5)), first)


def test_masks_have_the_size_of_their_image(photos, tmp_path, stoker):
    lines = ["path,mask"]
    for path in sorted(photos.glob("*/*.png")):
        image = np.array(Image.open(path))
        Image.fromarray((image[..., 0] > 127).astype(np.uint8)).save(tmp_path / path.name)
        Image.fromarray(image).save(tmp_path / f"x{path.name}")
        lines.append(f"x{path.name},{path.name}")
    (tmp_path / "labels.csv").write_text("\n".join(lines))
    data = package.open(tmp_path / "labels.csv", fields={"mask": ("mask", "mask")})
    for batch in load(data, batch_size=8, seed=1):
        assert batch["mask"].shape == (len(batch["image"]), *batch["image"].shape[2:])
        bright = batch["image"][:, 0] > 0.5
        assert (bright == batch["mask"].bool()).float().mean() > 0.9


def copies(photos, to, damage):
    for path in sorted(photos.glob("*/*.png")):
        copy = to / path.parent.name / path.name
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.write_bytes(damage.get(path.name, lambda content: content)(path.read_bytes()))
    return to


def header_alone(content):
    return content[:40]


def no_header(content):
    return content[:8]


def test_bad_samples_are_replaced(photos, tmp_path):
    folder = copies(photos, tmp_path / "photos", {"004.png": no_header, "011.png": header_alone})
    loader = load(folder, bad_samples=2, seed=4)
    found = epoch(loader)
    assert sum(len(images) for _, images in found) == COUNT and len(loader.bad_samples) == 2
    assert same(found, epoch(load(folder, bad_samples=2, seed=4, workers=3)))


# No other image has the ratio of the only one of its bucket: another is cut to the batch's size.
@pytest.mark.parametrize("damage", [no_header, header_alone])
@pytest.mark.parametrize("options", [{}, {"cache": "ram", "random": False}])
def test_a_bad_sample_alone_in_its_bucket(tmp_path, damage, options):
    random = np.random.default_rng(1)
    (tmp_path / "p/a").mkdir(parents=True)
    for i in range(9):
        Image.fromarray(random.integers(0, 256, (60, 60 if i else 130, 3), np.uint8)).save(tmp_path / f"p/a/{i}.png")
    path = tmp_path / "p/a/0.png"
    path.write_bytes(damage(path.read_bytes()))
    loader = load(tmp_path / "p", bad_samples=1, batch_size=4, **options)
    for _ in range(2):
        found = epoch(loader)
        assert sorted(tuple(images.shape[2:]) for _, images in found) == sorted([(32, 64)] * (damage is header_alone) + [(48, 48)] * (2 + (damage is no_header)))
        assert sum(len(images) for _, images in found) == 9 and 0 not in [i for indices, _ in found for i in indices]


def test_data_without_sizes_are_refused(photos, tmp_path):
    np.savez(tmp_path / "clips.npz", images=np.zeros((4, 3, 20, 20, 3), np.uint8))
    with pytest.raises(package.DataError):
        load(tmp_path / "clips.npz")
    with pytest.raises(package.DataError):
        load(copies(photos, tmp_path / "p", {path.name: no_header for path in photos.glob("*/*.png")}))


# Ops before the first that depends on the batch are kept; masks are kept as well.
def test_a_cache_of_prepared_pixels(photos):
    ops = [T.RandomApply([T.RandomInvert(1)], p=1), T.AspectCrop(SIZE, step=STEP, random=False)]
    plain = load(photos, ops=ops, seed=1)
    cached = load(photos, ops=ops, seed=1, cache="ram")
    for _ in range(3):
        assert same(epoch(plain), epoch(cached))


@pytest.mark.parametrize("dtype", [np.uint16, np.float32])
def test_planes_views_and_turned_images(tmp_path, dtype):
    random = np.random.default_rng(2)
    (tmp_path / "p/a").mkdir(parents=True)
    sizes = [(40, 90), (90, 40), (50, 50)] * 4
    for i, size in enumerate(sizes):
        np.save(tmp_path / f"p/a/{i:02}.npy", (random.random((*size, 2)) * (65535 if dtype == np.uint16 else 1)).astype(dtype))
    differ = 0
    for batch in load(tmp_path / "p", views=2, seed=1, batch_size=3):
        shape = tuple(batch["image"].shape)
        assert shape == tuple(batch["image_2"].shape) and shape[1] == 2
        assert all(shape[2:] == nearest(*sizes[i]) for i in batch["index"].tolist())
        differ += not torch.equal(batch["image"], batch["image_2"])
    assert differ > 1
    for i, size in enumerate(sizes):
        picture = Image.fromarray(random.integers(0, 256, (*size, 3), np.uint8))
        exif = picture.getexif()
        exif[0x0112] = 6  # a quarter turn
        (tmp_path / "j/a").mkdir(parents=True, exist_ok=True)
        picture.save(tmp_path / f"j/a/{i:02}.jpg", exif=exif)
    for exif in (False, True):
        for indices, images in epoch(load(tmp_path / "j", exif=exif)):
            assert all(tuple(images.shape[2:]) == nearest(*(sizes[i][::-1] if exif else sizes[i])) for i in indices)


# Those whose ops give one size keep it, and others have the batch's.
def test_further_images(photos, tmp_path):
    paths = sorted(photos.glob("*/*.png"))[:12]
    lines = ["path,small,second"]
    for path in paths:
        Image.open(path).save(tmp_path / path.name)
        lines.append(f"{path.name},{path.name},{path.name}")
    (tmp_path / "labels.csv").write_text("\n".join(lines))
    data = package.open(tmp_path / "labels.csv", fields={"small": ("small", "image"), "second": ("second", "image")})
    for batch in load(data, batch_size=4, field_ops={"small": [T.Resize((8, 9))]}):
        assert batch["small"].shape[2:] == (8, 9) and torch.equal(batch["second"], batch["image"])


def test_what_is_refused(photos, tmp_path):
    for options in [
        {"ops": [T.Resize((8, 8))]},
        {"ops": [T.AspectCrop(SIZE, step=STEP), T.CenterCrop(8)]},
        {"ops": [T.AspectCrop(SIZE, step=STEP)] * 2},
        {"bucket_by": ""},
        {"bucket_by": "x"},
        {"ops": [T.AspectCrop(50, step=STEP)]},
        {"batch_tokens": 8},
    ]:
        with pytest.raises(package.InvalidArgument):
            load(photos, **options)
            pytest.fail(f"taken: {options}")


RECIPE = """
seed = 1
device = "cpu"
[data]
train = "{photos}"
val = "20%"
batch_size = 8
bucket_by = "image"
train_ops = [{{op = "aspect_crop", size = 48, step = 16}}, {{op = "horizontal_flip"}}, {{op = "normalize", preset = "imagenet"}}]
val_ops = [{{op = "aspect_crop", size = 48, step = 16, random = false}}, {{op = "normalize", preset = "imagenet"}}]
[model]
name = "resnet18"
[train]
epochs = 1
"""


def test_training_and_predictions(photos, tmp_path, stoker):
    (tmp_path / "r.toml").write_text(RECIPE.format(photos=photos))
    report = stoker("train", "r.toml", "--out", "run", "--json").json()
    assert report["epochs"][0]["val_accuracy"] is not None
    evaluated = stoker("eval", "r.toml", "--checkpoint", "run", "--json").json()
    assert evaluated["val_accuracy"] == pytest.approx(report["epochs"][0]["val_accuracy"])
    plain = stoker("eval", "r.toml", "--checkpoint", "run", "--json", "--set", 'data.val_ops=[{op = "resize", size = [48, 48]}]')
    assert plain.json()["val_accuracy"] is not None
    lines = stoker("predict", "run", photos).out.splitlines()
    assert len(lines) == COUNT + 1 and not any("expected" in line for line in lines)
    assert "data.bucket_by" in stoker("train", "r.toml", "--out", "x", "--set", "data.bucket_by=", status=1).err
    # A model of one size is refused before the first step.
    refused = stoker("train", "r.toml", "--out", "y", "--set", "model.name=mlp", status=1).err
    assert "data.train_ops" in refused and "data.bucket_by" in refused


# The size's samples do not fill a batch: all of a size are left out, which training says.
def test_drop_last_names_the_sizes_that_it_leaves_out(photos, tmp_path, stoker):
    (tmp_path / "r.toml").write_text(RECIPE.format(photos=photos))
    shown = stoker("train", "r.toml", "--out", "run", "--set", "data.batch_size=20", "--set", "data.drop_last=true").err
    assert "data.drop_last" in shown and "64 x 32:" in shown


def test_the_default_step_divides_the_size(photos):
    (first, *_) = load(photos, ops=[T.AspectCrop(224)])
    assert all(side % 32 == 0 for side in first["image"].shape[2:])


def test_ranks_share_the_batches(photos):
    for ranks in (2, 3):
        whole = epoch(load(photos, seed=2, batch_size=8 * ranks))
        parts = [epoch(load(photos, seed=2, rank=rank, world_size=ranks, batch_size=8)) for rank in range(ranks)]
        assert all(len(part) == len(whole) for part in parts)
        for at, (indices, images) in enumerate(whole):
            shares = [part[at] for part in parts]
            assert [i for ids, _ in shares for i in ids] == indices
            assert torch.equal(torch.cat([share for _, share in shares]), images)
