# stoker.pack: the files of `stoker pack`, progress, and mistakes.
import filecmp

import numpy as np
import pytest
from conftest import draw_noise, run_program
from PIL import Image
from torchvision.datasets import ImageFolder

stoker = pytest.importorskip("stoker", reason="needs the extension module: STOKER_PYTHON=ON")
pytest.importorskip("stoker._stoker", reason="needs the extension module: STOKER_PYTHON=ON")


def test_the_files_are_those_of_the_program(drawn, tmp_path):
    run_program("pack", drawn, tmp_path / "a.stk", "--codec", "dct", cwd=tmp_path)
    result = stoker.pack(drawn, tmp_path / "b.stk", codec="dct", progress=False)
    assert result.samples == 24 and result.codecs == {"dct": 24} and result.path == str(tmp_path / "b.stk")
    files = sorted(path.name for path in (tmp_path / "a.stk").iterdir())
    assert filecmp.cmpfiles(tmp_path / "a.stk", tmp_path / "b.stk", files, shallow=False)[0] == files
    assert stoker.pack(drawn, tmp_path / "b.stk", codec="dct", progress=False).nothing_to_do


def test_pixels_labels_and_fields_are_kept(tmp_path):
    pixels = np.random.default_rng(0).integers(0, 256, (9, 8, 6, 3), dtype=np.uint8)
    np.savez(tmp_path / "d.npz", images=pixels, labels=np.arange(9), angle=np.arange(9.0))
    data = stoker.open(tmp_path / "d.npz", fields=["angle"])[2:8]
    assert stoker.pack(data, tmp_path / "e.h5", progress=False).fields == ["angle"]
    packed = stoker.open(tmp_path / "e.h5", fields=["angle"])
    assert [sample["label"] for sample in packed] == [sample["angle"] for sample in packed] == list(range(2, 8))
    assert all((sample["image"] == pixels[2 + i]).all() for i, sample in enumerate(packed))


def test_a_list_of_data_sets_is_one(tmp_path):
    for i in range(3):
        draw_noise(tmp_path / f"{i}/cat/1.png", seed=i)
    parts = [stoker.open(tmp_path / str(i)) for i in range(3)]
    stoker.pack(parts, tmp_path / "all.stk", codec="raw", progress=False)
    packed = stoker.open(tmp_path / "all.stk")
    assert [packed.key(i) for i in range(3)] == ["0:cat/1.png", "1:cat/1.png", "2:cat/1.png"]
    assert all((packed[i]["image"] == parts[i][0]["image"]).all() for i in range(3))


def test_the_first_frame_of_an_animation(tmp_path):
    frames = [Image.fromarray(np.full((8, 12, 3), 40 * i, np.uint8)) for i in range(3)]
    (tmp_path / "data/one").mkdir(parents=True)
    frames[0].save(tmp_path / "data/one/0.webp", save_all=True, append_images=frames[1:], lossless=True)
    with pytest.raises(stoker.DataError, match="got an animated WebP; first_frame=True, or packing with first_frame, reads"):
        stoker.pack(tmp_path / "data", tmp_path / "no.stk", codec="raw", progress=False)
    stoker.pack(tmp_path / "data", tmp_path / "a.stk", codec="raw", first_frame=True, progress=False)
    data = stoker.open(tmp_path / "data")
    loaders = [
        stoker.Loader(tmp_path / "a.stk", 1),
        stoker.Loader(data, 1, first_frame=True),
        stoker.Loader(data, 1, first_frame=True, ops=[stoker.transforms.InPython(np.asarray)], workers=1),
    ]
    for loader in loaders:
        images = np.asarray(next(iter(loader))["image"])
        assert images.size == 8 * 12 * 3 and not images.any()
        loader.close()


def test_progress_is_reported(drawn, tmp_path):
    seen = []
    stoker.pack(drawn, tmp_path / "a.stk", progress=lambda *at: seen.append(at))
    assert {phase for phase, *_ in seen} >= {"pack", "verify"}
    assert all(0 <= done <= total == 24 for _, done, total, _ in seen)
    assert [done for phase, done, *_ in seen if phase == "pack"][-1] == 24


def test_an_error_of_the_callback_ends_the_packing_which_can_be_resumed(drawn, tmp_path):
    def stop(phase, done, total, size):
        raise LookupError("enough")

    with pytest.raises(LookupError, match="enough"):
        stoker.pack(drawn, tmp_path / "a.stk", progress=stop)
    assert stoker.pack(drawn, tmp_path / "a.stk", progress=False).samples == 24


def test_a_bar_is_drawn_where_tqdm_is(drawn, tmp_path, monkeypatch):
    import sys
    import types

    class Bar:
        made = []

        def __init__(self, total, desc, unit, file):
            self.n, self.total, self.desc = 0, total, desc
            Bar.made.append(self)

        def update(self, by):
            self.n += by

        def close(self):
            self.closed = True

    auto = types.ModuleType("tqdm.auto")
    auto.tqdm = Bar
    monkeypatch.setitem(sys.modules, "tqdm", types.ModuleType("tqdm"))
    monkeypatch.setitem(sys.modules, "tqdm.auto", auto)
    stoker.pack(drawn, tmp_path / "a.stk")
    assert [bar.desc for bar in Bar.made][:1] == ["pack"] and all(bar.closed and bar.n == bar.total == 24 for bar in Bar.made)


def test_mistakes_are_named(drawn, tmp_path):
    with pytest.raises(stoker.InvalidArgument, match="outside of the data set's folder"):
        stoker.pack(drawn, drawn / "inner/x.stk")
    with pytest.raises(stoker.InvalidArgument, match="stk"):
        stoker.pack(drawn, tmp_path / "x.tfrecord", progress=False)
    with pytest.raises(stoker.InvalidArgument, match="keep"):
        stoker.pack(drawn, tmp_path / "x.stk", codec="webp", progress=False)
    with pytest.raises(stoker.InvalidArgument, match=r"\[source\] expected a path, .* got ImageFolder"):
        stoker.pack(ImageFolder(drawn), tmp_path / "x.stk", progress=False)
    with pytest.raises(stoker.InvalidArgument, match=r"got str among them; write \[stoker.open\(p\) for p in paths\]"):
        stoker.pack([stoker.open(drawn), str(drawn)], tmp_path / "x.stk", progress=False)
    with pytest.raises(stoker.InvalidArgument, match="outside of the data set's folder"):
        stoker.pack([stoker.open(drawn)] * 2, drawn / "inner/x.stk", progress=False)
    for wrong in ({"workers": 0}, {"workers": -1}, {"shard_size": 0}, {"shard_size": -1}):
        with pytest.raises(stoker.InvalidArgument, match=rf"^\[{next(iter(wrong))}\] expected an integer of at least 1"):
            stoker.pack(drawn, tmp_path / "x.stk", progress=False, **wrong)
    draw_noise(tmp_path / "data/a/1.png")
    (tmp_path / "data/a/2.png").write_bytes(b"no image")
    with pytest.raises(stoker.DataError, match="a/2.png"):
        stoker.pack(tmp_path / "data", tmp_path / "y.stk", progress=False)
    assert stoker.pack(tmp_path / "data", tmp_path / "y.stk", skip_bad=True, progress=False).skipped[0][0] == "a/2.png"
