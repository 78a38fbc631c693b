# stoker.Loader(..., framework="jax"): the values of torch's batches, in memory that stays while an array does.
import os

os.environ.setdefault("JAX_PLATFORMS", "cpu")

import numpy as np
import pytest
import torch

stoker = pytest.importorskip("stoker", reason="needs the extension module: STOKER_PYTHON=ON")
pytest.importorskip("stoker._stoker", reason="needs the extension module: STOKER_PYTHON=ON")
jax = pytest.importorskip("jax")
from stoker.transforms import Normalize, RandomHorizontalFlip, RandomResizedCrop  # noqa: E402

OPS = [RandomResizedCrop(64), RandomHorizontalFlip(), Normalize([0.5, 0.4, 0.3], [0.2, 0.3, 0.25])]


def as_numpy(value):
    """The values of a tensor or an array as float32, so that bfloat16 can be compared."""
    return value.float().numpy() if isinstance(value, torch.Tensor) else np.asarray(value.astype("float32"))


@pytest.mark.filterwarnings("ignore:.*uint8 images are not normalised")
@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16", "uint8"])
@pytest.mark.parametrize("channels_last", [False, True])
def test_values_are_those_of_torch(drawn, dtype, channels_last):
    def batches(framework):
        options = {"ops": OPS, "dtype": dtype, "channels_last": channels_last, "framework": framework}
        return stoker.Loader(drawn, 5, workers=1, **options)

    for ours, theirs in zip(batches("jax"), batches("torch"), strict=True):
        image, label = ours["image"], ours["label"]
        assert isinstance(image, jax.Array) and str(image.dtype) == dtype and image.shape == theirs["image"].shape
        assert np.array_equal(as_numpy(image), as_numpy(theirs["image"]))
        assert label.dtype == "int32" and label.tolist() == theirs["label"].tolist()  # JAX lacks int64 by default
        assert ours["index"].tolist() == theirs["index"].tolist() and ours["key"] == theirs["key"]


def test_arrays_that_are_kept_do_not_change(drawn):
    loader = stoker.Loader(drawn, 4, ops=OPS, framework="jax", workers=1, prefetch=1)
    kept = [(batch["image"], np.array(batch["image"])) for batch in loader]
    sums = [jax.numpy.sum(batch["image"]) for batch in loader]  # runs while the batch is dropped
    again = stoker.Loader(drawn, 4, ops=OPS, framework="torch", workers=1)
    again.set_epoch(1)
    assert np.allclose(sums, [batch["image"].sum().item() for batch in again], rtol=1e-3)
    for _ in range(2):
        list(loader)
    loader.close()
    assert all(np.array_equal(image, copy) for image, copy in kept)


def test_memory_of_released_arrays_is_used_again(drawn):
    loader = stoker.Loader(drawn, 4, ops=OPS, framework="jax", workers=1, prefetch=2)
    places = {batch["image"].unsafe_buffer_pointer() for _ in range(5) for batch in loader}
    assert len(places) <= 5


@pytest.mark.parametrize("workers", [0, 1])
def test_python_data_sets(workers):
    samples = [{"x": np.full((40, 40, 20), i, np.float32), "y": i, "z": i / 2} for i in range(12)]
    options = {"framework": "jax", "workers": workers, "multiprocessing_context": "forkserver"}  # JAX has threads
    loader = stoker.Loader(samples, 4, shuffle=False, **options)
    kept = [batch for _ in range(2) for batch in loader]
    assert [batch["x"][:, 0, 0, 0].tolist() for batch in kept[:3]] == [batch["y"].tolist() for batch in kept[:3]]
    assert [batch["y"].tolist() for batch in kept] == 2 * [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9, 10, 11]]
    assert kept[1]["z"].tolist() == [2, 2.5, 3, 3.5] and kept[1]["z"].dtype == "float32"
    loader.close()
