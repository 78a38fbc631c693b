# What worker processes do with objects of the data set itself: its generators are seeded, its errors need no text.
import random

import pytest
from python_datasets import Numbers

stoker = pytest.importorskip("stoker", reason="needs the extension module: STOKER_PYTHON=ON")
pytest.importorskip("stoker._stoker", reason="needs the extension module: STOKER_PYTHON=ON")


class Seeded:
    """Has a generator, as albumentations' transforms do."""

    def __init__(self):
        self.generator = random.Random()

    def set_random_seed(self, seed):
        self.generator.seed(seed)

    def __call__(self):
        return self.generator.getrandbits(40)


class Within:
    """A data set within another, with a transform in a list of them."""

    def __init__(self):
        self.dataset = Numbers(64)
        self.dataset.transforms = [Seeded(), Seeded()]  # of two views

    def __len__(self):
        return len(self.dataset)

    def __getitem__(self, index):
        first, second = (draw() for draw in self.dataset.transforms)
        assert first != second
        return index, first


def test_generators_of_a_data_set_are_seeded():
    drawn = {}
    for workers in (0, 1, 2):
        loader = stoker.Loader(Within(), 4, workers=workers, framework="numpy")
        drawn[workers] = [dict(zip(map(int, index), map(int, value), strict=True)) for epoch in range(2) for index, value in loader]
        loader.close()
    assert drawn[0] == drawn[1] == drawn[2]
    assert len({value for batch in drawn[0] for value in batch.values()}) == 128  # all samples of both epochs


class Unspeakable(Exception):
    def __str__(self):
        raise RuntimeError("no text")


class Failing(Numbers):
    def __getitem__(self, index):
        if index == 3:
            raise Unspeakable
        return super().__getitem__(index)


@pytest.mark.parametrize("workers", [0, 1])
def test_an_error_without_a_text_is_a_bad_sample(workers):
    loader = stoker.Loader(Failing(8), 4, workers=workers, bad_samples=1, shuffle=False)
    with pytest.warns(stoker.BadSampleWarning, match="Unspeakable"):
        assert sum(len(index) for index, _ in loader) == 8
    loader.close()
