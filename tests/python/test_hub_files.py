# Data sets of Hugging Face's datasets: saved to disk, as Parquet with splits and a card, in memory, and files of two
# releases each of datasets and pyarrow.
import json
import pickle
import shutil
from pathlib import Path

import numpy as np
import pytest
from parquet_tables import images, png

import stoker

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")


@pytest.fixture(scope="module")
def hub(tmp_path_factory):
    """A data set of datasets with three splits, and a place for its files."""
    datasets = pytest.importorskip("datasets")
    datasets.disable_progress_bars()
    features = datasets.Features(
        {"img": datasets.Image(), "fine_label": datasets.ClassLabel(names=["owl", "emu"]), "size": datasets.Value("int32")}
    )

    def split(first, count):
        rows = [{"img": {"bytes": png(i)[1], "path": None}, "fine_label": i % 2, "size": i} for i in range(first, first + count)]
        return datasets.Dataset.from_list(rows, features=features)

    return datasets, datasets.DatasetDict(train=split(0, 30), validation=split(30, 10), test=split(40, 5)), tmp_path_factory.mktemp("hub")


def check_hub(data, first, count):
    assert len(data) == count and data.classes == ["owl", "emu"]
    for i in range(count):
        sample = data[i]
        assert np.array_equal(sample["image"], png(first + i)[0]) and sample["label"] == (first + i) % 2
        assert sample["size"] == first + i


def test_saved_to_disk(hub, tmp_path):
    _, splits, _ = hub
    splits.save_to_disk(tmp_path / "dict", num_shards={"train": 3, "validation": 1, "test": 1})
    check_hub(stoker.open(tmp_path / "dict", fields=["size"]), 0, 30)
    check_hub(stoker.open(tmp_path / "dict", split="validation", fields=["size"]), 30, 10)
    check_hub(stoker.open(tmp_path / "dict", split="test", fields=["size"]), 40, 5)
    check_hub(stoker.open(tmp_path / "dict/test", fields=["size"]), 40, 5)
    splits["train"].shuffle(seed=3).save_to_disk(tmp_path / "shuffled")
    again = hub[0].load_from_disk(tmp_path / "shuffled")
    data = stoker.open(tmp_path / "shuffled", fields=["size"])
    assert [data[i]["size"] for i in range(30)] == again["size"][:]


def test_parquet_of_datasets(hub, tmp_path):
    _, splits, _ = hub
    (tmp_path / "data").mkdir()
    splits["train"].shard(2, 0, contiguous=True).to_parquet(tmp_path / "data/train-00000-of-00002.parquet")
    splits["train"].shard(2, 1, contiguous=True).to_parquet(tmp_path / "data/train-00001-of-00002.parquet")
    splits["test"].to_parquet(tmp_path / "data/test-00000-of-00001.parquet")
    check_hub(stoker.open(tmp_path, fields=["size"]), 0, 30)
    check_hub(stoker.open(tmp_path / "data/train-*.parquet", fields=["size"]), 0, 30)
    check_hub(stoker.open(tmp_path, split="test", fields=["size"]), 40, 5)
    splits["validation"].to_parquet(tmp_path / "data/validation-00000-of-00001.parquet")
    check_hub(stoker.open(tmp_path, split="validation", fields=["size"]), 30, 10)
    check_hub(stoker.open(tmp_path, split="test", fields=["size"]), 40, 5)
    snapshot = tmp_path / "datasets--me--mine/snapshots/0123"
    shutil.copytree(tmp_path / "data", snapshot / "data")
    check_hub(stoker.open(tmp_path / "datasets--me--mine", fields=["size"]), 0, 30)


def test_the_card_names_the_files(hub, tmp_path):
    datasets, splits, _ = hub
    for name, split in (("a", "train"), ("b", "test")):
        (tmp_path / name).mkdir()
        splits[split].to_parquet(tmp_path / name / "0.parquet")
    head = "---\nlicense: mit\nconfigs:\n- config_name: small\n  data_files: \"b/*.parquet\"\n- config_name: default\n  data_files:\n"
    (tmp_path / "README.md").write_text(head + "  - split: train\n    path: a/*\n  - split: test\n    path:\n    - b/0.parquet\n---\n# text\n")
    check_hub(stoker.open(tmp_path, fields=["size"]), 0, 30)
    check_hub(stoker.open(tmp_path, split="test", fields=["size"]), 40, 5)
    loaded = datasets.load_dataset(str(tmp_path), "default", cache_dir=str(tmp_path / "cache"))
    assert loaded["train"].num_rows == 30 and loaded["test"].num_rows == 5


def test_folders_of_one_split_are_any_split(hub, program, stoker, tmp_path):
    """Two saved folders are data.train and data.val."""
    _, splits, _ = hub
    splits["train"].save_to_disk(tmp_path / "mine")
    (tmp_path / "holdout").mkdir()
    splits["test"].to_parquet(tmp_path / "holdout/part-0.parquet")
    recipe = tmp_path / "recipe.toml"
    ops = '[{op = "resize", size = [8, 8]}]'
    recipe.write_text(f'[data]\ntrain = "mine"\nval = "holdout"\nbatch_size = 10\ntrain_ops = {ops}\nval_ops = {ops}\n'
                      '[model]\nname = "mlp"\n[train]\nepochs = 1\n')
    done = stoker("train", recipe, "--out", "run", "--json").json()
    assert 0 <= done["epochs"][0]["val_accuracy"] <= 1
    assert stoker("eval", "run", "mine", "--json").status == 0


def test_the_cache_of_load_dataset(hub, tmp_path):
    datasets, splits, _ = hub
    splits["train"].to_parquet(tmp_path / "train.parquet")
    loaded = datasets.load_dataset("parquet", data_files=str(tmp_path / "train.parquet"), cache_dir=str(tmp_path / "cache"))
    folder = loaded["train"].cache_files[0]["filename"].rsplit("/", 1)[0]
    check_hub(stoker.open(folder, fields=["size"]), 0, 30)


def test_a_dataset_in_memory(hub):
    datasets, splits, _ = hub
    check_hub(stoker.open(splits["train"], fields=["size"]), 0, 30)
    chosen = splits["train"].shuffle(seed=1).select(range(3, 20))
    data = stoker.open(chosen, fields=["size"])
    assert [data[i]["size"] for i in range(17)] == chosen["size"][:]
    again = pickle.loads(pickle.dumps(data))
    assert [again[i]["size"] for i in range(17)] == chosen["size"][:]
    with pytest.raises(stoker.InvalidArgument, match="DatasetDict"):
        stoker.open(splits)
    with pytest.raises(stoker.InvalidArgument, match="set_transform"):
        stoker.open(splits["train"].with_transform(lambda rows: rows))
    with pytest.raises(stoker.InvalidArgument, match="IterableDataset"):
        stoker.open(splits["train"].to_iterable_dataset())


def test_a_table_is_not_copied(hub):
    table = pa.table({"image": [{"bytes": b"\x89PNG" + bytes(2**20), "path": None}] * 64})
    before = pa.total_allocated_bytes()
    data = stoker.open(table)
    assert pa.total_allocated_bytes() - before < 2**20
    del table
    assert len(data) == 64


def test_a_configuration_must_be_chosen(tmp_path):
    pq.write_table(images(4), tmp_path / "x.parquet")
    card = "---\nconfigs:\n- config_name: a\n  data_files: x.parquet\n- config_name: b\n  data_files: x.parquet\n---\n"
    (tmp_path / "README.md").write_text(card)
    with pytest.raises(stoker.DataError, match="a, b"):
        stoker.open(tmp_path)


def test_state_of_a_saved_dataset_stays_in_its_folder(tmp_path):
    pq.write_table(images(4), tmp_path / "x.parquet")
    (tmp_path / "state.json").write_text(json.dumps({"_data_files": [{"filename": "../x.arrow"}]}))
    with pytest.raises(stoker.DataError):
        stoker.open(tmp_path)


# ---- Files of two releases each of datasets and pyarrow, written by tests/python/hub/write.py ----

HUB = Path(__file__).parent / "hub"


@pytest.mark.parametrize("release", sorted(path.name for path in HUB.iterdir() if path.is_dir()))
@pytest.mark.parametrize("place", ["parquet", "saved", "saved test"])
def test_files_of_releases(release, place):
    expected = json.loads((HUB / release / "expected.json").read_text())
    rows = expected["test"] if place == "saved test" else expected["rows"]
    fields = {"caption": "caption", "scores": "scores", "boxes": ("objects.bbox", "boxes"), "grid": "grid"}
    split = "test" if place == "saved test" else "train"
    data = stoker.open(HUB / release / place.split()[0], split=split, fields=fields)
    assert len(data) == len(rows) and data.classes == ["owl", "emu", "kea"]
    for i, row in enumerate(rows):
        sample = data[i]
        assert sample["image"].tolist() == row["image"] and sample["label"] == row["label"]
        assert sample["caption"].decode() == row["caption"] and sample["scores"].tolist() == row["scores"]
        assert sample["boxes"].tolist() == row["boxes"]
        assert sample["grid"].dtype == np.int16 and sample["grid"].tolist() == row["grid"]


@pytest.mark.parametrize("release", sorted(path.name for path in HUB.iterdir() if path.is_dir()))
def test_types_of_releases(release):
    expected = json.loads((HUB / release / "expected.json").read_text())["types"]
    data = stoker.open(HUB / release / "types.parquet", fields=["price", "when", "flag", "pair"])
    assert data.classes == ["a", "b", "c"]
    for i, label in enumerate(expected["label"]):
        sample = data[i]
        assert sample["label"] == (-1 if label is None else "abc".index(label))
        for name in ("price", "when", "flag", "pair"):
            assert sample[name].tolist() == expected[name][i], name
