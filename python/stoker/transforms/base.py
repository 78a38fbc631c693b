"""The base of all ops: their options as a recipe's table, and the ops that Python runs."""

import enum
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from stoker.errors import InvalidArgument, Unsupported

Size = int | Sequence[int]  # a side, or (height, width)
Range = float | Sequence[float]  # a number for a range around the neutral value, or (low, high)
Color = float | Sequence[float]  # from 0 to 255, one for all channels or one for each
Option = bool | float | str | list[float] | list[dict[str, Any]]
Mode = str | int | enum.Enum  # "nearest", "bilinear", ..., or torchvision's or Pillow's constant for it


class Transform:
    """One op: its name in a recipe and its options."""

    op = ""

    def __init__(self, **options: Any) -> None:
        self.options: dict[str, Option] = {
            name: _option(name, value) for name, value in options.items() if value is not None
        }

    def _has_only(self, name: str, value: Any, *ours: Any) -> None:
        """Checks an argument that is not an option of the op: `ours` are the values that change nothing."""
        if value not in ours:
            op = type(self).__name__
            raise Unsupported(
                f"[{op}] expected {name}={' or '.join(map(repr, ours))}, got {value!r}; torchvision's {op} does it in "
                "Python: stoker.transforms.from_torchvision keeps it there"
            )

    def _either(self, interpolation: Mode) -> str:
        mode: str = mode_name(interpolation)
        self._has_only("interpolation", mode, "nearest", "bilinear")
        return mode

    def _resizing(self, interpolation: Mode, antialias: bool | None, *more: str) -> str | None:
        """The option of a resize; None for the default."""
        mode: str = mode_name(interpolation)
        self._has_only("interpolation", mode, "nearest", "bilinear", "bicubic", "lanczos", *more)
        if mode != "nearest":
            self._has_only("antialias", antialias, True, None)
        return None if mode == "bilinear" else mode

    def __repr__(self) -> str:
        options = ", ".join(f"{name}={shown(value)}" for name, value in self.options.items())
        return f"{type(self).__name__}({options})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Transform) and (self.op, self.options) == (other.op, other.options)

    __hash__ = None  # type: ignore[assignment]


def shown(option: Option) -> str:
    if isinstance(option, list):
        return f"[{', '.join(map(shown, option))}]"
    return repr(int(option) if isinstance(option, float) and option.is_integer() else option)


class KeptInPython(UserWarning):
    """Stoker lacks an equal of a part of a torchvision pipeline."""


class InPython(Transform):
    """What no op here can do: callables, such as torchvision's transforms, that run one after the other.

    The last of a loader's ops. Its workers are processes then: each decodes an image and runs the ops before this one
    with the C++ code, and hands a PIL image to the first callable. Batches have what the last one returns. Normalize
    has to be among them, because the image is not divided by 255 before.
    """

    def __init__(self, *parts: Callable[[Any], Any]) -> None:
        super().__init__()
        self.parts = parts

    def __repr__(self) -> str:
        return f"InPython({', '.join(' '.join(repr(part).split()) for part in self.parts)})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, InPython) and self.parts == other.parts

    __hash__ = None


def split_python(ops: Any) -> tuple[Any, InPython | None]:
    """The ops before InPython, and that."""
    if isinstance(ops, InPython):
        return (), ops
    if isinstance(ops, Sequence) and ops and isinstance(ops[-1], InPython):
        if any(isinstance(op, Transform) and op.op == "normalize" for op in ops[:-1]):
            raise InvalidArgument(f"[ops] expected Normalize among what runs in Python, got {list(ops)}")
        return ops[:-1], ops[-1]
    return ops, None


def op_tables(ops: Sequence[Transform | Mapping[str, Any]]) -> list[dict[str, Option]]:
    """Each op as a table of a recipe, {"op": "resize", "size": 256}."""
    if isinstance(ops, (Transform, Mapping)):
        ops = [ops]
    if not isinstance(ops, Iterable):
        raise InvalidArgument(
            f"[ops] expected a list of ops of stoker.transforms, got {type(ops).__name__}; "
            "stoker.transforms.from_torchvision(...) makes it from a torchvision transform"
        )
    tables: list[dict[str, Option]] = []
    for at, given in enumerate(ops):
        if isinstance(given, InPython):
            raise InvalidArgument(f"[ops[{at}]] expected InPython as the last op, got {list(ops)}")
        if isinstance(given, Transform):
            tables.append({"op": given.op, **given.options})
        elif isinstance(given, Mapping) and isinstance(given.get("op"), str):
            tables.append({name: _option(name, value) for name, value in given.items()})
        else:
            raise InvalidArgument(
                f"[ops[{at}]] expected an op of stoker.transforms or a table with \"op\", got {given!r}; "
                "stoker.transforms.from_torchvision translates torchvision's"
            )
    return tables


def mode_name(interpolation: Mode) -> Any:
    """The name of an interpolation."""
    value: Any = interpolation.value if isinstance(interpolation, enum.Enum) else interpolation
    # Pillow's numbers; of a PIL image torchvision's nearest-exact is the nearest pixel too.
    return {0: "nearest", 1: "lanczos", 2: "bilinear", 3: "bicubic", "nearest-exact": "nearest"}.get(value, value)


def _option(name: str, value: Any) -> Option:
    if isinstance(value, enum.Enum):
        value = value.value
    if isinstance(value, (bool, str)):
        return value
    if isinstance(value, (list, tuple)) and value and isinstance(value[0], (Transform, Mapping)):
        return op_tables(value)
    try:
        return [float(number) for number in value] if isinstance(value, Iterable) else float(value)
    except (TypeError, ValueError):
        raise InvalidArgument(f"[{name}] expected a number, text or a list of numbers, got {value!r}") from None
