# Shared by the tests of sounds.
import stoker as package
import torch


def in_order(data):
    return sorted(data.rglob("s*.*"), key=lambda path: (path.parent.name, path.name))


def waveforms_at(rate, source, **options):
    """(N, C, T), in the order of the data set."""
    options = {"shuffle": False, "framework": "torch", "sample_rate": rate} | options
    found = [batch["image"].clone() for batch in package.Loader(source, 2, **options)]
    return torch.cat(found)[:, :, 0].numpy()
