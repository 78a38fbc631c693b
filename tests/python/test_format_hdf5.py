# `stoker inspect` and `stoker show` report the contents of files that h5py wrote.
import io

import h5py
import numpy as np
import pytest
from PIL import Image

RANDOM = np.random.default_rng(5)
GREY = RANDOM.integers(0, 256, (12, 9, 7), dtype=np.uint8)
COLOUR = RANDOM.integers(0, 4, (12, 9, 7, 3), dtype=np.uint8)
LABELS = np.arange(12) % 3

FORMS = {
    "contiguous": {},
    "chunked": {"chunks": (5, 4, 7)},
    "gzip": {"chunks": (1, 9, 7), "compression": "gzip"},
    "gzip_shuffle_checksum": {"chunks": (4, 9, 3), "compression": 9, "shuffle": True, "fletcher32": True},
    "guessed": {"chunks": True, "compression": "gzip"},
    "growable": {"maxshape": (None, 9, 7), "compression": "gzip"},
}


@pytest.fixture
def pixels(stoker, tmp_path):
    """Sample `index` of `data` as `stoker show` writes it."""

    def show(data, index, *options):
        stoker("show", data, "--index", index, "--npy", "one.npy", *options)
        return np.load(tmp_path / "one.npy")

    return show


def rgb(image):
    return np.repeat(image[:, :, None], 3, 2) if image.ndim == 2 else image


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("libver", ["earliest", "v110"])
def test_arrays_of_every_form(stoker, pixels, tmp_path, form, libver):
    path = tmp_path / "data.h5"
    with h5py.File(path, "w", libver=(libver, "v110")) as file:
        file.create_dataset("images", data=GREY, **FORMS[form])
        file.create_dataset("labels", data=LABELS.astype(">i4"))
    report = stoker("inspect", path, "--json").json()
    assert report["format"] == "hdf5"
    assert report["samples"] == 12
    assert report["classes"] == ["0", "1", "2"]
    assert report["class_counts"] == [4, 4, 4]
    assert report["codecs"] == {"raw": 12}
    assert report["bytes"] == path.stat().st_size
    assert report["fields"]["image"]["shape"] == [9, 7, 1]
    assert (pixels(path, 5) == rgb(GREY[5])).all()


def test_colour_as_rows_and_as_planes(pixels, tmp_path):
    with h5py.File(tmp_path / "rows.h5", "w") as file:
        file.create_dataset("x", data=COLOUR, compression="gzip", chunks=(3, 9, 7, 3))
    with h5py.File(tmp_path / "planes.hdf5", "w") as file:
        file.create_dataset("x", data=COLOUR.transpose(0, 3, 1, 2))
    for name in ("rows.h5", "planes.hdf5"):
        assert (pixels(name, 7) == COLOUR[7]).all()


def test_encoded_images_of_variable_length(stoker, pixels, tmp_path):
    with h5py.File(tmp_path / "data.h5", "w", userblock_size=512) as file:
        images = file.create_dataset("image", (12,), dtype=h5py.vlen_dtype(np.uint8))
        for index in range(12):
            picture = io.BytesIO()
            Image.fromarray(COLOUR[index] * 60).save(picture, "PNG")
            images[index] = np.frombuffer(picture.getvalue(), np.uint8)
        file.create_dataset("label", data=LABELS[:, None], dtype="u1")
    report = stoker("inspect", "data.h5", "--verify", "--json").json()
    assert report["codecs"] == {"png": 12}
    assert report["bad"] == []
    for index in (0, 11):
        assert (pixels("data.h5", index) == COLOUR[index] * 60).all()


@pytest.mark.parametrize("variable", [True, False])
def test_classes_and_keys_are_strings(stoker, tmp_path, variable):
    names = ["cat", "dög", "a longer name"]
    texts = names if variable else [name.encode() for name in names]
    with h5py.File(tmp_path / "data.h5", "w") as file:
        file["images"] = GREY
        file["labels"] = LABELS
        keys = [f"photo {index}" for index in range(12)]
        file["keys"] = keys if variable else np.array(keys, "S")
        (file["labels"] if variable else file).attrs["classes"] = texts
    assert stoker("inspect", "data.h5", "--json").json()["classes"] == names
    shown = stoker("show", "data.h5", "--json").json()["samples"]
    assert [sample["key"] for sample in shown] == [f"photo {index}" for index in range(12)]


def test_more_chunks_than_one_tree_node_holds(pixels, tmp_path):
    many = RANDOM.integers(0, 256, (3000, 4, 4), dtype=np.uint8)
    for libver in ("earliest", "v110"):
        with h5py.File(tmp_path / f"{libver}.h5", "w", libver=(libver, "v110")) as file:
            file.create_dataset("images", data=many, chunks=(1, 4, 4), compression="gzip")
        for index in (0, 1499, 2999):
            assert (pixels(f"{libver}.h5", index) == rgb(many[index])).all()


def test_open_elsewhere_for_writing(stoker, tmp_path):
    with h5py.File(tmp_path / "data.h5", "w", libver="earliest") as file:  # holds a lock on the file
        file["images"] = GREY
        file.flush()
        assert stoker("inspect", "data.h5", "--json").json()["samples"] == 12


def test_what_a_newer_library_wrote_names_the_way_out(stoker, tmp_path):
    with h5py.File(tmp_path / "x.h5", "w", libver="latest") as file:
        file.create_dataset("images", data=np.zeros((8, 4, 4, 3), np.uint8), chunks=(2, 4, 4, 3), compression="gzip")
        file["labels"] = np.zeros(8, np.int64)
    done = stoker("inspect", tmp_path / "x.h5", status=None)
    assert done.status == 0 or ("h5repack" in done.err and done.err.count("\n") == 1)


def test_what_lies_in_another_file_is_named(stoker, tmp_path):
    images, labels = np.zeros((4, 6, 5, 3), np.uint8), np.arange(4)
    with h5py.File(tmp_path / "other.h5", "w") as file:
        file["x"] = images
    with h5py.File(tmp_path / "link.h5", "w") as file:
        file["images"], file["labels"] = h5py.ExternalLink("other.h5", "/x"), labels
    with h5py.File(tmp_path / "virtual.h5", "w") as file:
        layout = h5py.VirtualLayout(images.shape, dtype="u1")
        layout[:] = h5py.VirtualSource("other.h5", "x", shape=images.shape)
        file.create_virtual_dataset("images", layout)
        file["labels"] = labels
    with h5py.File(tmp_path / "raw.h5", "w") as file:
        images.tofile(tmp_path / "images.bin")
        file.create_dataset("images", shape=images.shape, dtype="u1", external=[("images.bin", 0, images.nbytes)])
        file["labels"] = labels
    for name, text in (("link", "images, a link to /x of other.h5"), ("virtual", "a virtual dataset"),
                       ("raw", "a dataset in external files")):  # fmt: skip
        error = stoker("inspect", f"{name}.h5", status=1).err
        assert text in error and error.count("\n") == 1, error
    with h5py.File(tmp_path / "link.h5", "a") as file:  # a link that nobody asks for
        file["x"] = images
        del file["images"]
        file["elsewhere"] = h5py.ExternalLink("other.h5", "/x")
    assert stoker("inspect", "link.h5", "--json").json()["samples"] == 4
