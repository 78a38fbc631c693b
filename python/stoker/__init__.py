"""Stoker's input pipeline for Python: data sets, the loader and the packer of the C++ engine.

    loader = stoker.Loader("data/train", batch_size=256, ops=[RandomResizedCrop(224), RandomHorizontalFlip()])
    for batch in loader:
        batch["image"]  # float32 (256, 3, 224, 224), a torch tensor where torch is installed

`import stoker` loads neither torch nor NumPy; each name is imported when it is first used.
"""

from __future__ import annotations

TYPE_CHECKING = False  # as in typing, whose import takes longer than all of this
if TYPE_CHECKING:
    from typing import Any

    from stoker import errors as errors
    from stoker import export as export
    from stoker import torch as torch
    from stoker import transforms as transforms
    from stoker._stoker import version as __version__
    from stoker._torchvision_data import ReadInCpp
    from stoker.data_loader import DataLoader
    from stoker.dataset import Dataset, Field, open
    from stoker.errors import DataError, Error, InvalidArgument, IoError, TooManyBadSamples, Unsupported
    from stoker.export import export_training
    from stoker.loader import BadSample, BadSampleWarning, Loader
    from stoker.metrics import read_metrics
    from stoker.onnx import export_onnx
    from stoker.packing import PackResult, pack
    from stoker.watch import watch as watch  # a checker knows no modules that can be called
    from stoker.watch import watching

__all__ = [
    "BadSample",
    "BadSampleWarning",
    "DataError",
    "DataLoader",
    "Dataset",
    "Error",
    "Field",
    "InvalidArgument",
    "IoError",
    "Loader",
    "PackResult",
    "ReadInCpp",
    "TooManyBadSamples",
    "Unsupported",
    "__version__",
    "export_onnx",
    "export_training",
    "open",
    "pack",
    "read_metrics",
    "watching",
]

_SUBMODULES = ("errors", "export", "torch", "transforms", "watch")
_HOMES = {
    "_torchvision_data": ("ReadInCpp",),
    "data_loader": ("DataLoader",),
    "dataset": ("Dataset", "Field", "open"),
    "errors": ("DataError", "Error", "InvalidArgument", "IoError", "TooManyBadSamples", "Unsupported"),
    "export": ("export_training",),
    "loader": ("BadSample", "BadSampleWarning", "Loader"),
    "metrics": ("read_metrics",),
    "onnx": ("export_onnx",),
    "packing": ("PackResult", "pack"),
    "watch": ("watching",),
}


if not TYPE_CHECKING:  # a checker would take any name for one of these

    def __getattr__(name: str) -> Any:
        import importlib

        if name == "_stoker":
            return _extension()
        if name == "__version__":
            return _extension().version
        if name in _SUBMODULES:
            return importlib.import_module(f"stoker.{name}")
        for module, names in _HOMES.items():
            if name in names:
                value = getattr(importlib.import_module(f"stoker.{module}"), name)
                globals()[name] = value
                return value
        raise AttributeError(f"module 'stoker' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__, *_SUBMODULES})


def _extension() -> Any:
    import importlib

    from stoker._certificates import find_certificates

    find_certificates()
    try:
        return importlib.import_module("stoker._stoker")
    except ModuleNotFoundError as error:
        raise ImportError(
            "stoker's extension module is not in this folder: `pip install .`, or `./dev build` and "
            "PYTHONPATH=build/release/python"
        ) from error
