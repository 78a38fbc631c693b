# What someone meets who comes from torch's DataLoader and torchvision's ImageFolder: other names of arguments, classes.
import inspect
import os
import re
import subprocess
import sys

import pytest
import torch.utils.data
from torchvision.datasets import ImageFolder
from torchvision.transforms import v2
from conftest import PROGRAM, PYTHON_PACKAGE, ROOT, draw_noise

stoker = pytest.importorskip("stoker", reason="needs the extension module: STOKER_PYTHON=ON")
_stoker = pytest.importorskip("stoker._stoker", reason="needs the extension module: STOKER_PYTHON=ON")

DIGITS = "synth:digits?count=60"


def refused(error, *args, **kwargs):
    """The message, which is one line."""
    with pytest.raises(error) as caught:
        stoker.Loader(*args, **kwargs)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_arguments_of_a_data_loader_are_explained():
    assert refused(TypeError, DIGITS, num_workers=2) == "[num_workers] expected workers=2, got num_workers=2"
    assert "expected prefetch=4, got" in refused(TypeError, DIGITS, prefetch_factor=4)
    assert "expected ops=stoker.transforms.from_torchvision(transform), got a Compose" in refused(
        TypeError, DIGITS, transform=v2.Compose([v2.Resize(8)])
    )
    sampler = torch.utils.data.RandomSampler(range(60))
    assert "expected shuffle= and seed= for the order, got a RandomSampler; rank= and" in refused(
        TypeError, DIGITS, sampler=sampler
    )
    both = refused(TypeError, DIGITS, num_workers=2, persistent_workers=True)
    assert "workers=2" in both and "[persistent_workers]" in both and "leave it out" in both


@pytest.mark.parametrize("theirs", [torch.utils.data.DataLoader, ImageFolder], ids=lambda theirs: theirs.__name__)
def test_every_argument_is_taken_or_explained(theirs):
    ours = inspect.signature(stoker.Loader).parameters
    for name in inspect.signature(theirs).parameters:
        if name not in ours:
            assert "of stoker.Loader" not in refused(TypeError, DIGITS, **{name: 1}), name


def test_typos_are_recognised():
    assert refused(TypeError, DIGITS, shufle=True).endswith("got shufle=True; did you mean shuffle=?")
    assert "[num_worker] expected workers=2" in refused(TypeError, DIGITS, num_worker=2)
    assert refused(TypeError, DIGITS, bs=3).endswith("help(stoker.Loader) lists them")
    assert refused(TypeError, DIGITS, 16, True).endswith("got 3; write the others as in shuffle=True")


def test_a_torchvision_transform_as_ops_is_explained():
    message = refused(stoker.InvalidArgument, DIGITS, ops=v2.Compose([v2.Resize(8)]))
    assert "got Compose; stoker.transforms.from_torchvision(...)" in message


def test_classes_are_those_of_image_folder(drawn):
    theirs = ImageFolder(drawn)
    data = stoker.open(drawn)
    for ours in (data, data[:3], stoker.Loader(drawn, 4), stoker.Loader(theirs, 4, workers=0)):
        assert (ours.classes, ours.class_to_idx) == (theirs.classes, theirs.class_to_idx)
    with pytest.raises(AttributeError, match="no attribute 'classes'"):
        stoker.Loader([1, 2, 3], 2, workers=0).classes


def command(*words, status=0):
    """Of `python -m stoker`: its stdout and stderr."""
    environment = {**os.environ, "PYTHONPATH": str(PYTHON_PACKAGE), "STOKER_BIN": str(PROGRAM)}
    done = subprocess.run([sys.executable, "-m", "stoker", *words], env=environment, capture_output=True, text=True)
    assert done.returncode == status, done.stderr
    return done.stdout, done.stderr


@pytest.mark.parametrize("word", ["--help", "-h"])
def test_help_lists_the_commands_that_run_in_python(word):
    text, _ = command(word)
    names = [line.split()[0] for line in text.split("Subcommands:\n")[1].split("\n\n")[0].splitlines()]
    assert names[-2:] == ["watch", "bottleneck"] and "pack" in names and "\nExit status: " in text


@pytest.mark.parametrize("name", ["watch", "bottleneck"])
def test_a_missing_script_alone_is_required(name):
    _, said = command(name, status=2)
    assert said.endswith("the following arguments are required: SCRIPT\n")


def test_a_state_of_another_batch_size_names_the_argument(drawn):
    state = stoker.Loader(drawn, 4).state_dict()
    with pytest.raises(stoker.InvalidArgument, match=r"^\[batch_size\] expected 4, as .*, got 8; make the loader with"):
        stoker.Loader(drawn, 8).load_state_dict(state)
    with pytest.raises(stoker.InvalidArgument, match=r"^\[batch_size\] expected 2, as .*, got 4; make"):  # of one rank
        stoker.Loader(drawn, 4, rank=0, world_size=2).load_state_dict(state)
    stoker.Loader(drawn, 2, rank=0, world_size=2).load_state_dict(state)
    with pytest.raises(stoker.InvalidArgument, match=r"^\[drop_last\] expected false, "):
        stoker.Loader(drawn, 4, drop_last=True).load_state_dict(state)


@pytest.fixture
def damaged(tmp_path):
    for index in range(4):
        draw_noise(tmp_path / f"data/a/{index}.png", seed=index)
    for index in (1, 2):  # sample 0 says the shape
        (tmp_path / f"data/a/{index}.png").write_bytes(b"no image")
    return tmp_path / "data"


@pytest.mark.parametrize(("budget", "hint"), [(0, "bad_samples=10 replaces up to ten"), (1, "or raise bad_samples")])
@pytest.mark.filterwarnings("ignore::stoker.BadSampleWarning")
def test_too_many_bad_samples_name_the_argument(damaged, budget, hint):
    with pytest.raises(stoker.TooManyBadSamples) as caught:
        list(stoker.Loader(damaged, 4, bad_samples=budget))
    assert str(caught.value).endswith(hint) and "data.bad" not in str(caught.value)
    assert caught.value.path == str(damaged)


def test_too_few_samples_name_arguments(drawn):
    message = refused(stoker.InvalidArgument, drawn, 50, drop_last=True)
    assert message.startswith("[drop_last] expected")
    assert message.endswith("lower batch_size, or set drop_last=False to train on a smaller batch")


def test_a_path_with_the_name_of_a_key_stays(tmp_path):
    assert f"[{tmp_path}/data.workers]" in refused(stoker.IoError, tmp_path / "data.workers")


# The heading, and the blocks of its section that are one script.
SNIPPETS = {
    "README.md": ("In your PyTorch script", 1),
    "README.zh-CN.md": ("在你的 PyTorch 脚本里", 1),
    "docs/python.md": ("Swap the loader", 2),
}


@pytest.mark.parametrize("page", SNIPPETS)
def test_the_snippet_of_a_page_is_complete(page, tmp_path, monkeypatch):
    heading, count = SNIPPETS[page]
    section = (ROOT / page).read_text().split(f"\n## {heading}\n")[1].split("\n## ")[0]
    blocks = re.findall(r"```python\n(.*?)```", section, re.DOTALL)[:count]
    assert len(blocks) == count
    for index in range(256):  # a whole batch
        draw_noise(tmp_path / f"data/train/{index % 2}/{index}.png", seed=index)
    monkeypatch.chdir(tmp_path)
    names = {}
    code = "".join(blocks).replace("range(90)", "range(1)").replace("num_workers=8", "num_workers=0")
    exec(compile(code, page, "exec"), names)
    assert names["images"].shape == (256, 3, 224, 224) and names["loader"].classes == ["0", "1"]
    assert isinstance(names["loader"], stoker.Loader)


REACHED = ("base", "codecs", "formats", "io", "ops", "pack", "pipeline")
FILES = {f"data.{ending}" for ending in ("caches_bytes", "h5", "lmdb", "md", "mdb", "npz", "pkl", "size", "stk", "tar")}


def test_messages_name_keys_of_the_table():
    """They may name a key without an argument in Python only if Python cannot reach it."""
    rows = {key: name for key, *_, name, _ in _stoker.settings()}
    sources = [path.read_text() for folder in REACHED for path in (ROOT / "src/stoker" / folder).rglob("*.cpp")]
    named = {name for text in sources for name in re.findall(r'"[^"\n]*(?<![\w/.])(data\.[a-z_]+\d?)', text)} - FILES
    assert named <= {*rows, "data.fields"} and "data.drop_last" in named
    unknown = {"data.mix", "data.decode_on", "data.memory", "data.val", "data.train", "data.context", "data.cache_dir", "data.val_ops"}
    assert {name for name in named if not rows.get(name)} <= {*unknown, "data.fields"}


def test_a_folder_of_torchvision_is_opened_by_its_path(tmp_path):
    draw_noise(tmp_path / "cat/1.png", 8)
    own = type("Own", (ImageFolder,), {})(tmp_path)
    message = refused(stoker.InvalidArgument, own, ops=[stoker.transforms.CenterCrop(4)])
    assert message.endswith("got Own")
    assert "got a data set of stoker.open" in refused(stoker.InvalidArgument, DIGITS, collate_fn=len)


def test_a_loader_says_what_it_is():
    assert repr(stoker.Loader(DIGITS, 16, workers=1)).startswith("stoker.Loader(stoker.Dataset('synth:digits?count=60")
    assert repr(stoker.Loader(DIGITS, 16, workers=1)).endswith(", batch_size=16, 1 worker, epoch 0)")


def test_normalize_without_effect_is_told():
    ops = [stoker.transforms.Normalize([0.5], [0.5])]
    with pytest.warns(UserWarning, match="uint8 images are not normalised") as caught:
        stoker.Loader(DIGITS, 16, ops=ops, dtype="uint8")
    assert caught[0].filename == __file__


@pytest.mark.skipif(torch.cuda.is_available(), reason="needs a machine without a GPU")
def test_a_device_that_is_not_there_is_told_at_once():
    with pytest.raises(stoker.InvalidArgument, match="got cuda, which torch cannot use here"):
        stoker.torch.DevicePrefetcher(stoker.Loader(DIGITS, 16), "cuda")


def test_no_transform_is_no_op():
    assert stoker.transforms.from_torchvision(None) == []
