"""Messages of the engine name keys of a recipe, which Python does not have: here they name arguments instead.

The extension (src/bind_base.cpp) passes the text of each error through `for_python`.
"""

import re

# Whole phrases first.
_PHRASES = {
    "resume with the recipe and the data that the run began with": "make the loader with the arguments and the data that "
    "the state comes from",
    "resume with the data that the run began with; a new --out DIR with model.weights trains on other data from the same "
    "weights": "load a state of this data",
    "lower data.batch_size, or set data.drop_last = false to train on a smaller batch": "lower batch_size, or set "
    "drop_last=False for a smaller batch",
    ", or set a higher limit with data.memory or --memory": "",
    "set data.cache_dir to another folder": "set STOKER_CACHE to another folder",
    "[data.cache_dir] expected": "[STOKER_CACHE] expected",
    "data.first_frame = true reads its first frame; or save": "save",
    "set it to the model's context, such as data.context = 1024": "set it to the model's context, as in context=1024",
    "use another share in data.val": "use another share",
    'a field: [data.fields.NAME] with is = "value"': 'a field: fields={NAME: (NAME_IN_THE_DATA, "value")}',
    "data.fields.image": "image=",
    "[data.train]": "[source]",
}
# data.KEY has the name KEY in Python; a value is written as there.
_KEYS = (
    "bad_samples|balance|batch_size|cache_bytes|cache|channels|context|decode|drop_last|exif|prefetch|shuffle|views|workers"
)
_KEY = re.compile(rf"(?<![\w./-])data\.({_KEYS})(?![\w./-])( = )?(true\b|false\b)?")
# A folder of splits: both are named, for a recipe's two keys.
_SPLITS = re.compile(r'data\.train = ("[^"]*"), and data\.val .*', re.DOTALL)


def for_python(message: str) -> str:
    """The message with the names of arguments of stoker.Loader and stoker.open."""
    if "data." not in message:
        return message
    message = _SPLITS.sub(r"stoker.open(\1) opens one of them", message)
    for phrase, ours in _PHRASES.items():
        message = message.replace(phrase, ours)
    return _KEY.sub(_argument, message)


def _argument(found: re.Match[str]) -> str:
    name, equals, truth = found.groups()
    return f"{name}{'=' if equals else ''}{(truth or '').capitalize()}"
