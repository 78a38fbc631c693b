"""Messages of the engine name keys of a recipe and options of the program: here they name Python's arguments instead.

The extension (src/bind_base.cpp) passes the text of each error through `for_python`.
"""

import re

# Whole phrases first.
_PHRASES = {
    "resume with the recipe and the data that the run began with": (
        "make the loader with the arguments and the data that the state comes from"
    ),
    "resume with the data that the run began with; "
    "a new --out DIR with model.weights trains on other data from the same weights": "load a state of this data",
    "lower data.batch_size, or set data.drop_last = false to train on a smaller batch": (
        "lower batch_size, or set drop_last=False for a smaller batch"
    ),
    ", or set a higher limit with data.memory or --memory": "",
    "set data.cache_dir to another folder": "set STOKER_CACHE to another folder",
    "data.cache_dir": "STOKER_CACHE",
    "data.first_frame = true, or --first-frame where it is packed, reads": "first_frame=True reads",
    "use another share in data.val": "use another share",
    'a field: [data.fields.NAME] with is = "value"': 'a field: fields={NAME: (NAME_IN_THE_DATA, "value")}',
    "data.fields.image": "image=",
    ", for data.train and each of data.mix": ", one for each data set",
    " can be mixed (data.mix)": " can be mixed",
    "--field NEW_NAME=NAME gives": "stoker.open(path, fields={NEW_NAME: NAME}) gives",
    "resize in train_ops instead": "resize in the ops of stoker.Loader instead",
    "--skip-bad": "skip_bad=True",
    "--codec raw makes": 'codec="raw" makes',
}
# data.KEY is KEY in Python, and so are options of `stoker pack`.
_KEYS = (
    "bad_samples|balance|batch_size|cache_bytes|cache|channels|context|decode|drop_last|epoch_samples|exif|first_frame|"
    "prefetch|shuffle_window|shuffle|views|weights|workers"
)
_KEY = re.compile(rf"(?<![\w./-])data\.({_KEYS})(?![\w./-])( = )?(true\b|false\b)?")
_OPTION = re.compile(r"(?<![\w./-])(?<!pack )--(codec|quality|resize-shorter|shard-size|workers)\b")
# A folder of splits: a recipe names both.
_SPLITS = re.compile(r'data\.train = ("[^"]*"), and data\.val .*', re.DOTALL)


def for_python(message: str) -> str:
    """The message with the names of arguments of stoker.Loader, stoker.open and stoker.pack."""
    message = message.replace("[data.train] ", "[source] ")
    message = _SPLITS.sub(r"stoker.open(\1) opens one of them", message)
    for phrase, ours in _PHRASES.items():
        message = message.replace(phrase, ours)
    message = _OPTION.sub(lambda found: found[1].replace("-", "_"), message)
    return _KEY.sub(lambda found: f"{found[1]}{'=' if found[2] else ''}{(found[3] or '').capitalize()}", message)
