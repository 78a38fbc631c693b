# stoker.DataLoader: torch's order, batches and settings, with data sets of torchvision read in C++; everything else as
# torch loads it.
import numpy as np
import pytest
import torch
import torchvision.transforms as T
from torch.utils.data import DataLoader, Subset, TensorDataset, WeightedRandomSampler
from torchvision.datasets import ImageFolder

pytest.importorskip("stoker._stoker", reason="needs the extension module: STOKER_PYTHON=ON")
import stoker
from stoker.data_loader import CppBatches, CppSamples

FIXED = T.Compose([T.Resize(48), T.CenterCrop(40), T.ToTensor(), T.Normalize([0.5], [0.25])])
RANDOM = T.Compose([T.RandomResizedCrop(32), T.RandomHorizontalFlip(), T.ToTensor()])

pytestmark = pytest.mark.filterwarnings("ignore::stoker.ReadInCpp")


def both(data, **options):
    """Two passes of each loader, from the same random state."""
    made = []
    for kind in (stoker.DataLoader, DataLoader):
        torch.manual_seed(3)
        loader = kind(data, **options)
        made.append([list(loader), list(loader), torch.rand(2).tolist()])
    return made


@pytest.mark.parametrize(
    "options",
    [
        {"batch_size": 5},
        {"batch_size": 5, "shuffle": True},
        {"batch_size": 7, "shuffle": True, "drop_last": True, "num_workers": 1},
        {"batch_size": 4, "sampler": WeightedRandomSampler(torch.ones(24), 10)},
        {"batch_sampler": [[3, 1], [2, 2], [5]]},
    ],
)
def test_batches_are_those_of_torch(drawn, options):
    data = ImageFolder(drawn, FIXED)
    for part in (data, Subset(data, range(24))):
        ours, theirs = both(part, **options)
        assert ours[2] == theirs[2]  # the same random numbers were drawn
        for our_pass, their_pass in zip(ours[:2], theirs[:2]):
            assert len(our_pass) == len(their_pass) > 0
            for (images, labels), (expected, expected_labels) in zip(our_pass, their_pass):
                assert type(images) is type(expected) and images.dtype == expected.dtype
                assert torch.equal(labels, expected_labels) and images.shape == expected.shape
                assert (images - expected).abs().max() <= CppSamples.of(DataLoader(data)).level


def test_passes_draw_other_crops(drawn):
    loader = stoker.DataLoader(ImageFolder(drawn, RANDOM), batch_size=24)
    first, second = (next(iter(loader))[0] for _ in range(2))
    assert not torch.equal(first, second)
    torch.manual_seed(1)
    one = list(loader)
    torch.manual_seed(1)
    assert all(torch.equal(a, b) for (a, _), (b, _) in zip(one, loader))


def test_other_data_sets_are_loaded_by_torch():
    data = TensorDataset(torch.arange(10), torch.arange(10))
    ours, theirs = both(data, batch_size=3, shuffle=True)
    assert [[part.tolist() for part in batch] for batch in ours[0]] == [[part.tolist() for part in batch] for batch in theirs[0]]


def test_what_the_loader_leaves_to_torch(drawn):
    data = ImageFolder(drawn, FIXED)
    assert CppSamples.of(DataLoader(data)) is not None
    for options in ({"collate_fn": list}, {"batch_size": None}, {"worker_init_fn": print}):
        assert CppSamples.of(DataLoader(data, **options)) is None
    assert CppSamples.of(DataLoader(ImageFolder(drawn, T.Compose([FIXED, np.asarray])))) is None


def test_batches_of_several_sizes_are_refused(drawn):
    samples = CppSamples.of(DataLoader(ImageFolder(drawn, FIXED)))
    with pytest.raises(stoker.InvalidArgument, match="batch_sampler"):
        CppBatches(samples, [[1], [2, 3]], 1, False, 0)
    with pytest.raises(StopIteration):
        CppBatches(samples, [], 1, False, 0).next()


def test_a_sample_that_cannot_be_decoded_raises(drawn, tmp_path):
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "1.jpg").write_bytes(b"\xff\xd8\xff\xe0 no image")
    with pytest.raises(stoker.Error):
        list(stoker.DataLoader(ImageFolder(tmp_path, FIXED)))


def test_draws_are_known(drawn):
    of = [CppSamples.of(DataLoader(ImageFolder(drawn, transform))).draws for transform in (FIXED, RANDOM)]
    assert of == [False, True]


def test_persistent_workers_give_all_passes(drawn):
    loader = stoker.DataLoader(ImageFolder(drawn, RANDOM), 5, shuffle=True, num_workers=1, persistent_workers=True)
    passes = [list(loader) for _ in range(3)]
    assert [len(batches) for batches in passes] == [len(loader)] * 3
    assert not torch.equal(passes[1][0][0], passes[2][0][0])
