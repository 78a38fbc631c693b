"""Mappings and sequences of the kind that a program has: OrderedDict, transformers' BatchEncoding, named tuples."""

import copy
from collections import UserDict
from collections.abc import Iterable, Mapping, MutableMapping
from typing import Any


def with_items(mapping: Mapping[Any, Any], items: dict[Any, Any]) -> Any:
    """A mapping of the same kind with other values under its keys; a dict for one that cannot be changed."""
    if type(mapping) is dict or not isinstance(mapping, MutableMapping):
        return items
    if isinstance(mapping, (dict, UserDict)):
        made = copy.copy(mapping)
        for name, item in items.items():  # transformers' ModelOutput has no `update`
            made[name] = item
        return made
    try:  # a copy of another kind may share the items that it keeps within
        other = type(mapping)(items)  # type: ignore[call-arg]
        if all(other[name] is item for name, item in items.items()):
            return other
    except Exception:  # of a program's own class
        pass
    return items


def with_parts(sequence: tuple[Any, ...] | list[Any], parts: Iterable[Any]) -> Any:
    """A sequence of the same kind with other parts; a plain one where it cannot be made of them, as torch.Size."""
    parts = list(parts)
    if hasattr(sequence, "_make"):  # a named tuple
        return sequence._make(parts)
    try:
        made = type(sequence)(parts)
        if len(made) == len(parts) and all(kept is part for kept, part in zip(made, parts)):
            return made
    except Exception:  # of a program's own class
        pass
    return tuple(parts) if isinstance(sequence, tuple) else parts
