"""Mappings of the kind that a program has: OrderedDict, defaultdict, transformers' BatchEncoding."""

import copy
from collections.abc import Mapping, MutableMapping
from typing import Any


def with_items(mapping: Mapping[Any, Any], items: dict[Any, Any]) -> Any:
    """A mapping of the same kind with other values under its keys; a dict for one that cannot be changed."""
    if type(mapping) is dict or not isinstance(mapping, MutableMapping):
        return items
    made = copy.copy(mapping)
    made.update(items)
    return made
