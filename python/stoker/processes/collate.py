"""Joins samples to a batch. Tensors and arrays are not stacked here but where the batch lies: in shared memory."""

from __future__ import annotations

import array
import functools
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from stoker._mappings import with_items, with_parts
from stoker.errors import InvalidArgument

# The number types of DLPack that both torch and NumPy name, with their bytes.
ITEM_BYTES = {
    "bool": 1,
    "uint8": 1,
    "uint16": 2,
    "uint32": 4,
    "uint64": 8,
    "int8": 1,
    "int16": 2,
    "int32": 4,
    "int64": 8,
    "float16": 2,
    "bfloat16": 2,
    "float32": 4,
    "float64": 8,
    "complex64": 8,
    "complex128": 16,
}
_NUMBERS = {bool: ("bool", "b"), int: ("int64", "q"), float: ("float64", "d")}


class Stack:
    """Equal tensors, arrays or numbers, which become one array (N, shape...)."""

    def __init__(self, samples: Sequence[Any], dtype: str, shape: tuple[int, ...]) -> None:
        self.samples = samples
        self.dtype = dtype
        self.shape = (len(samples), *shape)

    def write(self, memory: memoryview) -> None:
        """Fills `memory`, which has as many bytes as the array."""
        first = self.samples[0]
        if not memory:
            return
        if type(first) in _NUMBERS:
            kind = next(kind for name, kind in _NUMBERS.values() if name == self.dtype)
            memory[:] = memoryview(array.array(kind, self.samples)).cast("B")
        elif _is_tensor(first):
            torch = sys.modules["torch"]
            plain = [sample.detach().as_subclass(torch.Tensor) for sample in self.samples]
            torch.stack(plain, out=torch.frombuffer(memory, dtype=first.dtype).view(self.shape))
        else:
            numpy = sys.modules["numpy"]
            dtype = first.dtype if first.dtype.isnative else first.dtype.newbyteorder("=")
            numpy.stack(self.samples, out=numpy.frombuffer(memory, dtype=dtype).reshape(self.shape))


def dtype_name(value: Any) -> str | None:
    """The type of a tensor on the CPU or a NumPy array or scalar; None if shared memory cannot hold it unchanged."""
    if _is_tensor(value):
        torch = sys.modules["torch"]
        name = str(value.dtype).removeprefix("torch.")
        plain = value.layout is torch.strided and value.device.type == "cpu" and not (value.is_quantized or value.is_nested)
        return name if plain and name in ITEM_BYTES else None
    return value.dtype.name if value.dtype.name in ITEM_BYTES else None


def collate(samples: Sequence[Any]) -> Any:
    """As torch's default_collate, with three differences: a tuple stays a tuple, dicts must have equal keys, and torch is
    not needed. Samples may mix kinds of dicts, or tuples and lists: the batch is of the first one's kind.

    Tensors, arrays and numbers become `Stack`; text and bytes a list; dicts, tuples and lists are joined by their
    parts. Raises InvalidArgument for samples that differ in shape or type, and for other objects.
    """
    first = samples[0]
    if isinstance(first, (str, bytes)):
        return list(samples)
    if all(_is_number(sample) for sample in samples) and not (_is_array(first) and _are_equal(samples)):
        return _numbers(samples)
    if _is_tensor(first) or _is_array(first):
        return _stack(samples)
    if isinstance(first, Mapping):
        _require_same(samples, lambda sample: sorted(map(str, sample)), "keys", lambda sample: isinstance(sample, Mapping))
        return with_items(first, {key: collate([sample[key] for sample in samples]) for key in first})
    if isinstance(first, (tuple, list)):
        _require_same(samples, len, "lengths", lambda sample: isinstance(sample, (tuple, list)))
        return with_parts(first, [collate(part) for part in zip(*samples)])
    if _is_number(first):
        _require_same(samples, type, "types")
    hint = "; torchvision's ToTensor makes it one" if type(first).__module__.startswith("PIL.") else ""
    raise InvalidArgument(
        "[collate] expected samples of tensors, arrays, numbers, text, or dicts and tuples of these, "
        f"got {type(first).__name__}{hint}; collate_fn joins samples of another kind"
    )


def _is_tensor(value: Any) -> bool:
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(value, torch.Tensor)


def _is_array(value: Any) -> bool:
    numpy = sys.modules.get("numpy")
    return numpy is not None and isinstance(value, (numpy.ndarray, numpy.generic))


def _is_number(value: Any) -> bool:
    """Of Python, or a scalar of NumPy, which a program may mix with them."""
    numpy = sys.modules.get("numpy")
    scalars = () if numpy is None else (numpy.bool_, numpy.integer, numpy.floating)
    return isinstance(value, (bool, int, float, *scalars))


def _are_equal(samples: Sequence[Any]) -> bool:
    return all(type(sample) is type(samples[0]) for sample in samples)


def _numbers(samples: Sequence[Any]) -> Stack:
    """The widest of bool, int and float that one of them has, as in torch."""
    plain = [sample.item() if _is_array(sample) else sample for sample in samples]
    kind: Any = int
    if any(isinstance(number, float) for number in plain):
        kind = float
    elif all(isinstance(number, bool) for number in plain):
        kind = bool
    return Stack([kind(number) for number in plain], _NUMBERS[kind][0], ())


def _stack(samples: Sequence[Any]) -> Any:
    _require_same(samples, lambda sample: tuple(sample.shape), "shapes", _kind_of(samples[0]))
    samples = _of_one_dtype(samples)
    first = samples[0]
    name = dtype_name(first)
    if name is not None:
        return Stack(samples, name, tuple(first.shape))
    return sys.modules["torch" if _is_tensor(first) else "numpy"].stack(samples)


def _kind_of(first: Any) -> Any:
    """Whether a sample may be stacked with it without a loss: a masked array would lose its mask."""
    if _is_tensor(first):
        return _is_tensor
    numpy = sys.modules["numpy"]
    plain = (numpy.ndarray, numpy.memmap)
    return (lambda sample: type(sample) in plain) if type(first) in plain else None


def _of_one_dtype(samples: Sequence[Any]) -> Sequence[Any]:
    """The widest, as torch.stack and numpy.stack make it."""
    dtypes = dict.fromkeys(sample.dtype for sample in samples)
    if len(dtypes) == 1:
        return samples
    if _is_tensor(samples[0]):
        widest = functools.reduce(sys.modules["torch"].promote_types, dtypes)
        return [sample.to(widest) for sample in samples]
    try:
        widest = sys.modules["numpy"].result_type(*dtypes)
    except TypeError:
        raise InvalidArgument(
            f"[collate] expected samples of types that can be joined, got {' and '.join(map(str, dtypes))}; give collate_fn"
        ) from None
    return [sample.astype(widest) for sample in samples]


def _require_same(samples: Sequence[Any], trait: Any, what: str, of_kind: Any = None) -> None:
    """of_kind: whether a sample is of the kind that all have to be; None: of the type of the first one."""
    first = trait(samples[0])
    for sample in samples:
        is_kind = type(sample) is type(samples[0]) if of_kind is None else of_kind(sample)
        if not is_kind or trait(sample) != first:
            names = type(sample).__name__, type(samples[0]).__name__
            got = f"{first} and {trait(sample)}" if is_kind else " beside ".join(names)
            raise InvalidArgument(
                f"[collate] expected samples of equal {what if is_kind else 'types'}, got {got}; "
                "crop or pad them, or give collate_fn"
            )
