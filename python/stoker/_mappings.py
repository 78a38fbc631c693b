"""Mappings of the kind that a program has: OrderedDict, defaultdict, transformers' BatchEncoding."""

import copy
from collections.abc import Mapping, MutableMapping
from typing import Any


def with_items(mapping: Mapping[Any, Any], items: dict[Any, Any]) -> Any:
    """A mapping as the given one with other values; a dict where its class does not allow that."""
    if type(mapping) is dict:
        return items
    try:
        if isinstance(mapping, MutableMapping):
            made = copy.copy(mapping)
            made.update(items)
            return made
        return type(mapping)(items)  # type: ignore[call-arg]
    except TypeError:
        return items
