# One list of names for metrics.jsonl, record_fields.h: docs/records.md and docs/runs.md explain every one, and
# stoker.watch, which writes its own lines, uses no other (test_watch.py).
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
RECORDS = ROOT / "src/stoker/records"
LISTS = dict(re.findall(r"Of<(\w+)> auto&(.*?)\n}\n", (RECORDS / "record_fields.h").read_text(), re.DOTALL))
ENTRIES = {
    "facts": {"": "RunFacts", "host.": "HostFacts", "device.": "DeviceFacts", "data.": "DataFacts", "train.": "TrainFacts"},
    "step": {"": "StepEntry"},
    "epoch": {"": "EpochEntry", "bubble.": "Bubble"},
    "interval": {"": "IntervalEntry", "syncs.": "SyncEntry", "lines.": "LineEntry"},
    "evaluation": {"": "EvaluationEntry"},
    "functions": {"": "FunctionProfile", "functions.": "FunctionEntry"},
}
HEAD = {"type", "schema", "step", "rank", "profiled"}


def names_of(file):
    """The names of the phases or stages."""
    return re.findall(r'"(\w+)"', re.search(r"kNames = {(.*?)}", (RECORDS / file).read_text(), re.DOTALL)[1])


def record_keys(kind):
    """The keys of a type of line, those of objects and of lists of objects with a dot: "us.wait", "syncs.count"."""
    keys = {at + key for at, entry in ENTRIES[kind].items() for key in re.findall(r'visit[.\w]*\("(\w+)"', LISTS[entry])}
    inner = {"us": names_of("account.cpp"), "workers_us": ["samples", "on_device", "cpu", *names_of("stages.h")]}
    return HEAD | keys | {f"{key}.{name}" for key in keys & inner.keys() for name in inner[key]}


def keys_of(value, at=""):
    """The same for parsed lines."""
    if isinstance(value, list):
        return set().union(*(keys_of(each, at) for each in value))
    if isinstance(value, dict):
        return set().union(*(keys_of(child, f"{at}.{key}".lstrip(".")) for key, child in value.items()))
    return {at}


@pytest.mark.parametrize("kind", ENTRIES)
def test_the_docs_explain_every_key(kind):
    sections = {}
    for name in ("records.md", "runs.md"):
        text = (ROOT / "docs" / name).read_text()
        sections |= re.findall(r"^## (.*?)\n(.*?)(?=^## |\Z)", text, re.DOTALL | re.MULTILINE)
    text = sections["metrics.jsonl"] + sections["interval"] + sections.get(kind, "")
    keys = record_keys(kind)
    assert len(keys) > len(HEAD) + 2
    names = {key if kind == "facts" else key.split(".")[-1] for key in keys - HEAD}
    assert {name for name in names if not re.search(rf'[`"]{name}[`"]', text)} == {"host", "device", "data", "train"} & names
