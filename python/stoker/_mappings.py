"""Mappings and sequences of the kind that a program has: OrderedDict, transformers' BatchEncoding, named tuples."""

import copy
from collections.abc import Iterable, Mapping, MutableMapping
from typing import Any


def with_items(mapping: Mapping[Any, Any], items: dict[Any, Any]) -> Any:
    """A mapping of the same kind with other values under its keys; a dict for one that cannot be changed."""
    if type(mapping) is dict or not isinstance(mapping, MutableMapping):
        return items
    before = dict(mapping)
    try:
        made = copy.copy(mapping)
        if hasattr(made, "__dict__"):  # it may keep its items in another dict, which a copy shares
            vars(made).update({name: copy.copy(of) for name, of in vars(mapping).items() if isinstance(of, dict)})
        for name, item in items.items():  # transformers' ModelOutput has no `update`
            made[name] = item
    except Exception:  # of a program's own class
        made = items
    if all(mapping[name] is item for name, item in before.items()):
        return made
    for name, item in before.items():
        mapping[name] = item
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
