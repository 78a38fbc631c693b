"""Batches as tensors of torch, NumPy or JAX, and their way to pinned memory."""

import importlib
import importlib.util
import sys
from collections.abc import Callable
from typing import Any

from stoker._arguments import one_of
from stoker.errors import InvalidArgument, Unsupported

_NO_BFLOAT16 = "NumPy has no bfloat16, torch and JAX have it"


def chosen(framework: str, dtype: Any) -> str:
    """The framework that is meant, which has images of this dtype: "torch", "numpy" or "jax"."""
    one_of("framework", framework, ("auto", "torch", "numpy", "jax"))
    if framework == "auto":
        framework = "torch" if importlib.util.find_spec("torch") else "numpy"
    if framework == "numpy" and dtype_name(dtype) == "bfloat16":
        raise InvalidArgument(f"[dtype] expected float32, float16 or uint8, got bfloat16; {_NO_BFLOAT16}")
    return framework


def dtype_name(dtype: Any) -> str:
    """The name of a dtype of torch, NumPy or JAX, or of a name."""
    return dtype.__name__ if isinstance(dtype, type) else str(dtype).rpartition(".")[2]


def converter(framework: str, keeps_arrays: bool) -> Callable[..., Any]:
    """Makes a tensor over the memory of an array of the extension. keeps_arrays: what a collate_fn made as an array of
    NumPy stays one."""
    if framework == "numpy":
        if importlib.util.find_spec("numpy") is None:
            raise Unsupported("[framework] expected NumPy, which batches without torch are made of; pip install numpy")
        importlib.import_module("numpy")
        return _numpy_array
    from_dlpack = importlib.import_module("torch" if framework == "torch" else "jax.dlpack").from_dlpack

    def convert(array: Any, is_array: bool = False) -> Any:
        return _numpy_array(array) if is_array and keeps_arrays else from_dlpack(array)

    return convert


def _numpy_array(array: Any, is_array: bool = False) -> Any:
    made = sys.modules["numpy"].asarray(array)
    if made.dtype == object:  # NumPy takes memory of a type that it does not know for one Python object
        raise InvalidArgument(f"[framework] expected tensors of types that NumPy has, got bfloat16; {_NO_BFLOAT16}")
    return made


def delivery(device: Any, pin_memory: bool, framework: str) -> Callable[[Any], Any]:
    """The treatment of each batch: none, or a copy to pinned memory."""
    if device is None and not pin_memory:
        return lambda batch: batch
    if framework != "torch":
        raise InvalidArgument(f"[device, pin_memory] expected torch as the framework, got {framework}")
    from stoker.torch import map_tensors, object_to_pinned, require_device, to_pinned

    if device is not None and require_device(device).type != "cuda":
        return lambda batch: batch
    return lambda batch: map_tensors(to_pinned, batch, object_to_pinned)
