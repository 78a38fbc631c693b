# The Python package's loader: the C++ loader's bytes, torch's habits, and threads that end when they should.
import importlib.util
import json
import os
import pickle
import shutil
import signal
import subprocess
import sys
import textwrap
import time
import warnings

import numpy as np
import pytest
import torch
from conftest import PYTHON_PACKAGE, draw_noise, run_program

stoker = pytest.importorskip("stoker", reason="needs the extension module: STOKER_PYTHON=ON")
pytest.importorskip("stoker._stoker", reason="needs the extension module: STOKER_PYTHON=ON")
from stoker.transforms import CenterCrop, Normalize, RandomHorizontalFlip, RandomResizedCrop, Resize  # noqa: E402

IMAGENET = Normalize([0.485, 0.456, 0.406], [0.229, 0.224, 0.225])
TRAIN = [RandomResizedCrop(64), RandomHorizontalFlip(), IMAGENET]
DIGITS = "synth:digits?count=100"


def run_python(text, **options):
    """Runs a new process that imports the package. Raises for another exit status than 0."""
    environment = {**os.environ, "PYTHONPATH": str(PYTHON_PACKAGE)}
    command = [sys.executable, "-c", textwrap.dedent(text)]
    options = {"capture_output": True, "text": True, "timeout": 120, "env": environment, **options}
    return subprocess.run(command, check=True, **options)


def labels(loader):
    return [batch["label"].tolist() for batch in loader]


@pytest.mark.parametrize("workers", [0, 1, 3])
def test_batches_are_those_of_the_cpp_loader(drawn, tmp_path, workers):
    arguments = ["--data", drawn, "--size", 64, "--batch", 8, "--rounds", 1, "--batches", 1, "--npy", "first.npy", "--json"]
    report = run_program("bench", "pipeline", *arguments, cwd=tmp_path).json()
    batch = next(iter(stoker.Loader(drawn, 8, ops=TRAIN, workers=workers, drop_last=True)))
    assert batch["index"].tolist() == report["first_batch"]
    image = batch["image"]
    assert image.dtype == torch.float32 and image.shape == (8, 3, 64, 64) and image.is_contiguous()
    assert image.numpy().tobytes() == np.load(tmp_path / "first.npy").tobytes()


def test_samples_are_those_of_show(drawn, recipe, tmp_path):
    crop = '{op = "random_resized_crop", size = 64}, {op = "horizontal_flip"}'
    path = recipe(crop, "batch_size = 8", train=drawn, top="seed = 7")
    loader = stoker.Loader(drawn, 8, ops=TRAIN[:2], seed=7, workers=2)
    loader.set_epoch(3)
    found = next(iter(loader))
    for item in (0, 5):
        index = found["index"][item].item()
        run_program("show", drawn, "--recipe", path, "--epoch", 3, "--index", index, "--npy", "one.npy", cwd=tmp_path)
        assert (np.load(tmp_path / "one.npy") == found["image"][item].numpy()).all()


def test_a_batch_has_every_field_of_the_data(tmp_path):
    pixels = np.random.default_rng(1).integers(0, 256, (10, 6, 5, 3), dtype=np.uint8)
    masks = pixels[..., 0] % 4
    angles = np.arange(10, dtype=np.float32)
    np.savez(tmp_path / "d.npz", images=pixels, labels=np.arange(10), mask=masks, angle=angles, again=pixels[::-1])
    data = stoker.open(tmp_path / "d.npz", fields={"mask": ("mask", "mask"), "angle": "angle", "other": ("again", "image")})
    batches = list(stoker.Loader(data, 4, shuffle=False, workers=1, dtype="uint8"))
    assert [len(batch["label"]) for batch in batches] == [4, 4, 2]
    assert list(batches[0]) == ["image", "label", "index", "key", "mask", "angle", "other"]
    joined = {name: torch.cat([batch[name] for batch in batches]).numpy() for name in batches[0] if name != "key"}
    assert (joined["image"] == pixels.transpose(0, 3, 1, 2)).all()
    assert (joined["other"] == pixels[::-1].transpose(0, 3, 1, 2)).all()
    assert (joined["mask"] == masks).all() and joined["mask"].dtype == np.uint8
    assert (joined["angle"] == angles).all() and joined["index"].tolist() == list(range(10))
    assert [key for batch in batches for key in batch["key"]] == [str(i) for i in range(10)]


@pytest.fixture(scope="module")
def shards(tmp_path_factory):
    """A tar file of four samples with boxes of any number and a caption."""
    import io
    import tarfile

    from PIL import Image

    path = tmp_path_factory.mktemp("shards") / "s.tar"
    with tarfile.open(path, "w") as tar:
        for i in range(4):
            encoded = io.BytesIO()
            Image.fromarray(np.full((20, 20, 3), 60 * i, np.uint8)).save(encoded, "png")
            boxes = json.dumps({"boxes": [[j, j, j + 5, j + 6] for j in range(i)]}).encode()
            for name, data in {"png": encoded.getvalue(), "cls": b"%d" % i, "json": boxes, "txt": b"x" * i}.items():
                entry = tarfile.TarInfo(f"{i:03}.{name}")
                entry.size = len(data)
                tar.addfile(entry, io.BytesIO(data))
    return path


FIELDS = {"boxes": ("json:boxes", "boxes"), "text": ("txt", "bytes")}


@pytest.mark.parametrize("framework", ["torch", "numpy"])
def test_fields_of_any_length_are_lists(shards, framework):
    loader = stoker.Loader(stoker.open(shards, fields=FIELDS), 4, shuffle=False, framework=framework)
    (batch,) = loader
    assert [tuple(boxes.shape) for boxes in batch["boxes"]] == [(0, 4), (1, 4), (2, 4), (3, 4)]
    assert batch["boxes"][3].tolist() == [[0, 0, 5, 6], [1, 1, 6, 7], [2, 2, 7, 8]]
    assert batch["text"] == [b"", b"x", b"xx", b"xxx"]
    assert isinstance(batch["boxes"][1], torch.Tensor if framework == "torch" else np.ndarray)


def test_padded_fields_are_one_tensor_and_follow_the_flip(shards):
    data = stoker.open(shards, fields=FIELDS)
    (batch,) = stoker.Loader(data, 4, shuffle=False, pad={"boxes": 2}, ops=[RandomHorizontalFlip(1)])
    assert batch["boxes"].shape == (4, 2, 4) and batch["boxes_length"].tolist() == [0, 1, 2, 2]
    assert batch["boxes"][1].tolist() == [[15, 0, 20, 6], [0, 0, 0, 0]]


@pytest.mark.parametrize("dtype", ["float32", torch.float16, torch.bfloat16, np.uint8, "uint8"])
@pytest.mark.parametrize("channels_last", [False, True])
def test_dtypes_and_memory_formats(drawn, dtype, channels_last):
    ops = [Resize(40), CenterCrop(32), IMAGENET]
    exact = next(iter(stoker.Loader(drawn, 6, ops=ops)))["image"]
    image = next(iter(stoker.Loader(drawn, 6, ops=ops, dtype=dtype, channels_last=channels_last)))["image"]
    assert str(image.dtype).removeprefix("torch.") == str(dtype).removeprefix("torch.").replace("<class 'numpy.uint8'>", "uint8")
    layout = torch.channels_last if channels_last else torch.contiguous_format
    assert image.shape == (6, 3, 32, 32) and image.is_contiguous(memory_format=layout)
    if image.dtype != torch.uint8:
        assert (image.float() - exact).abs().max() <= 0.02


def test_tensors_are_views_of_the_slot_and_keep_it(drawn):
    loader = stoker.Loader(drawn, 4, ops=TRAIN, workers=1)
    held = [batch["image"] for batch in loader]
    kept = [image.clone() for image in held]
    assert len({image.data_ptr() for image in held}) == len(held)
    for _ in range(2):
        list(loader)
    loader.close()
    del loader
    assert all(torch.equal(a, b) for a, b in zip(held, kept))
    held[0].zero_()  # it does not share memory


def test_memory_of_released_batches_is_used_again(drawn):
    loader = stoker.Loader(drawn, 4, ops=TRAIN, workers=1, prefetch=2)
    addresses = {batch["image"].data_ptr() for _ in range(5) for batch in loader}
    assert len(addresses) <= 5


def test_tuples_and_views(drawn):
    image, label = next(iter(stoker.Loader(drawn, 4, ops=TRAIN, as_tuple=True)))
    assert image.shape == (4, 3, 64, 64) and label.dtype == torch.int64
    index, second = next(iter(stoker.Loader(drawn, 4, ops=TRAIN, as_tuple=("index", "image_2"), views=2)))
    assert index.shape == (4,) and second.shape == image.shape and not torch.equal(second, image)


def test_epochs_differ_and_repeat_by_the_seed(drawn):
    loader = stoker.Loader(drawn, 5, ops=TRAIN, seed=3)
    assert len(loader) == 5 and loader.epoch == 0
    first, second = labels(loader), labels(loader)
    assert loader.epoch == 2 and first != second and sorted(sum(first, [])) == sorted(sum(second, []))
    again = stoker.Loader(drawn, 5, ops=TRAIN, seed=3, workers=3)
    again.set_epoch(1)
    assert labels(again) == second
    again.set_epoch(0)
    assert labels(again) == first
    assert labels(stoker.Loader(drawn, 5, ops=TRAIN, seed=4)) != first
    assert len(stoker.Loader(drawn, 5, ops=TRAIN, drop_last=True)) == 4


def test_a_loop_that_is_left_early_is_followed_by_the_next_epoch(drawn):
    loader = stoker.Loader(drawn, 4, ops=TRAIN)
    whole = [labels(loader), labels(loader)]
    loader = stoker.Loader(drawn, 4, ops=TRAIN)
    for number, batch in enumerate(loader):
        assert batch["label"].tolist() == whole[0][number]
        if number == 2:
            break
    assert labels(loader) == whole[1]


def test_only_the_newest_iterator_is_valid(drawn):
    loader = stoker.Loader(drawn, 4, ops=TRAIN)
    first = iter(loader)
    next(first)
    second = iter(loader)
    next(second)
    with pytest.raises(stoker.InvalidArgument, match="one iterator at a time"):
        next(first)


@pytest.mark.parametrize("taken", [0, 3, 6])
def test_a_state_restores_the_exact_position(drawn, taken):
    loader = stoker.Loader(drawn, 4, ops=TRAIN, seed=5, workers=2)
    list(loader)
    batches = iter(loader)
    for _ in range(taken):
        next(batches)
    state = json.loads(json.dumps(loader.state_dict()))
    rest = [batch["image"].clone() for batch in batches] + [batch["image"].clone() for batch in loader]
    other = stoker.Loader(drawn, 4, ops=TRAIN, seed=5, workers=0)
    other.load_state_dict(state)
    other.set_epoch(other.epoch)  # as a training loop does before its first epoch
    found = [batch["image"].clone() for batch in other]
    found += [batch["image"].clone() for batch in other] if len(found) < len(rest) else []
    assert len(found) == len(rest) and all(torch.equal(a, b) for a, b in zip(found, rest))


def test_a_batch_size_cannot_be_changed(drawn):
    loader = stoker.Loader(drawn, 4, drop_last=True)
    assert (loader.batch_size, loader.drop_last) == (4, True)
    for name in ("batch_size", "drop_last"):
        with pytest.raises(AttributeError):
            setattr(loader, name, 8)


def test_a_state_of_other_data_is_refused(drawn):
    state = stoker.Loader(drawn, 4, ops=TRAIN).state_dict()
    for other in (stoker.Loader(DIGITS, 4), stoker.Loader(drawn, 8, ops=TRAIN), stoker.Loader(drawn, 4, ops=TRAIN, seed=1)):
        with pytest.raises(stoker.InvalidArgument, match="as when the run began"):
            other.load_state_dict(state)


def test_ranks_share_each_batch(drawn):
    whole = [batch["index"].tolist() for batch in stoker.Loader(drawn, 8, ops=TRAIN)]
    parts = [
        [batch["index"].tolist() for batch in stoker.Loader(drawn, 4, ops=TRAIN, rank=rank, world_size=2)] for rank in (0, 1)
    ]
    assert [len(batch) for part in parts for batch in part] == [4] * 6
    assert [a + b for a, b in zip(*parts)] == whole


def test_a_last_batch_without_a_sample_for_each_rank_is_refused():
    data = stoker.open("synth:digits?count=18")
    with pytest.raises(stoker.InvalidArgument, match="a sample for each of 4 ranks in the last batch of an epoch, got 2"):
        stoker.Loader(data, 4, rank=0, world_size=4)
    assert len(stoker.Loader(data, 4, rank=0, world_size=4, drop_last=True)) == 1


def test_bad_samples_are_replaced_with_a_warning(tmp_path):
    for i in range(20):
        draw_noise(tmp_path / f"data/a/{i:02}.png", seed=i)
    (tmp_path / "data/a/07.png").write_bytes(b"no image")
    loader = stoker.Loader(tmp_path / "data", 5, shuffle=False, bad_samples=1)
    with pytest.warns(stoker.BadSampleWarning, match="a/07.png"):
        indices = [i for batch in loader for i in batch["index"].tolist()]
    (bad,) = loader.bad_samples.values()
    assert bad.index == 7 and indices[7] == bad.replaced_by != 7
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        list(loader)  # warned of once
    with pytest.raises(stoker.TooManyBadSamples, match="a/07.png") as caught:
        list(stoker.Loader(tmp_path / "data", 5, shuffle=False, bad_samples=0))
    assert isinstance(caught.value, ValueError)


def test_a_warning_has_no_control_characters(tmp_path):
    for i in range(20):
        draw_noise(tmp_path / f"data/a/{i:02}.png", seed=i)
    name = "07\x1b[2J\u202e\nä.png"
    (tmp_path / "data/a" / name).write_bytes(b"no image")
    loader = stoker.Loader(tmp_path / "data", 7, shuffle=False, bad_samples=1)
    with pytest.warns(stoker.BadSampleWarning) as caught:
        list(loader)
    assert str(caught[0].message).startswith(r"[a/07\x1b[2J\u202e\nä.png] replaced: ")
    assert [bad.key for bad in loader.bad_samples.values()] == [f"a/{name}"]


def test_numpy_alone(drawn):
    text = f"""
        import sys, stoker
        from stoker.transforms import RandomResizedCrop
        loader = stoker.Loader({str(drawn)!r}, 4, ops=[RandomResizedCrop(32)], framework="numpy")
        image = next(iter(loader))["image"]
        assert type(image).__module__ == "numpy" and image.shape == (4, 3, 32, 32) and image.flags.writeable
        assert "torch" not in sys.modules
    """
    run_python(text)


MISTAKES = {
    "batch_size": ({"batch_size": 0}, r"\[batch_size\] expected an integer from 1 to .* got 0"),
    "no whole number": ({"batch_size": 2.0}, "expected an integer"),
    "seed": ({"seed": 1 << 64}, r"below 2\^64"),
    "channels": ({"channels": 2}, r"\[channels\] expected .* 1 or 3, got 2"),
    "source": ({"source": 12}, r"\[source\] expected a path"),
    "workers": ({"workers": -1}, r"\[workers\] expected .* an integer from 0 to"),
    "rank": ({"rank": 2, "world_size": 2}, "rank"),
    "dtype": ({"dtype": "int8"}, "expected float32, float16, bfloat16 or uint8"),
    "dtype of NumPy": ({"dtype": torch.bfloat16, "framework": "numpy"}, "float16 or uint8, got bfloat16; NumPy has no"),
    "op": ({"ops": [{"op": "random_resized_corp", "size": 3}]}, "random_resized_crop"),
    "option": ({"ops": [{"op": "resize", "sise": 3}]}, r"ops\[0\]"),
    "no op": ({"ops": ["resize"]}, "from_torchvision"),
    "sizes": ({"ops": []}, "size"),
    "as_tuple": ({"as_tuple": ["image", "mask"]}, "expected one of image, label, index, key"),
    "cache": ({"cache": "disc"}, "none, ram, disk"),
    "pad": ({"pad": {"boxes": 3}}, "a field boxes"),
    "bad samples": ({"bad_samples": "many"}, r'\[bad_samples\] expected a number .*, got "many"'),
    "classes": ({"as_tuple": "image"}, r"\[as_tuple\] expected True or a list of names, got 'image'"),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_mistakes_are_named(drawn, mistake):
    arguments, message = MISTAKES[mistake]
    with pytest.raises(stoker.Error, match=message) as caught:
        list(stoker.Loader(**{"source": drawn, "batch_size": 4, "ops": TRAIN, **arguments}))
    assert "\n" not in str(caught.value)


def test_batches_need_a_library_of_arrays(monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(stoker.Unsupported, match="pip install numpy"):
        importlib.import_module("stoker._frameworks").converter("numpy", keeps_arrays=False)


def test_other_threads_run_while_a_batch_is_awaited(drawn):
    """A counting thread gets on during waits: the interpreter's lock is free."""
    import threading

    counted = 0
    running = True

    def count():
        nonlocal counted
        while running:
            counted += 1
            time.sleep(0)

    loader = stoker.Loader(drawn, 24, ops=[RandomResizedCrop(900)], workers=0)
    batches = iter(loader)
    thread = threading.Thread(target=count)
    thread.start()
    before = counted
    next(batches)
    during = counted - before
    running = False
    thread.join()
    assert during > 100


def test_a_forked_child_gets_an_error_and_both_end(drawn):
    text = f"""
        import os, stoker
        from stoker.transforms import RandomResizedCrop
        loader = stoker.Loader({str(drawn)!r}, 4, ops=[RandomResizedCrop(32)], workers=2, framework="numpy")
        batches = iter(loader)
        held = next(batches)
        child = os.fork()
        if child == 0:
            try:
                next(batches)
            except stoker.InvalidArgument as error:
                assert "forked child" in str(error), error
                del held, batches
                own = next(iter(stoker.Loader({str(drawn)!r}, 4, ops=[RandomResizedCrop(32)], framework="numpy")))
                raise SystemExit(7 if len(own["label"]) == 4 else 1)
            raise SystemExit(1)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
        assert len(list(batches)) == 5
    """
    run_python(text, timeout=60)


def test_a_loader_that_is_left_running_ends_with_the_interpreter(drawn):
    text = f"""
        import stoker
        from stoker.transforms import RandomResizedCrop
        loader = stoker.Loader({str(drawn)!r}, 4, ops=[RandomResizedCrop(200)], workers=2, framework="numpy")
        batches = iter(loader)
        held = next(batches)
        print("end")
    """
    for _ in range(3):
        done = run_python(text, timeout=60)
        assert done.stdout == "end\n" and done.stderr == ""


def test_ctrl_c_ends_a_wait(tmp_path):
    """The first batch takes seconds; the interrupt arrives before it."""
    draw_noise(tmp_path / "data/a/1.png", size=2000)
    text = f"""
        import sys, stoker
        from stoker.transforms import RandomResizedCrop
        data = stoker.open({str(tmp_path / "data")!r})
        loader = stoker.Loader(data[[0] * 400], 400, ops=[RandomResizedCrop(32)], workers=1, framework="numpy")
        print("waiting", flush=True)
        try:
            next(iter(loader))
        except KeyboardInterrupt:
            print("interrupted", flush=True)
    """
    environment = {**os.environ, "PYTHONPATH": str(PYTHON_PACKAGE)}
    command = [sys.executable, "-c", textwrap.dedent(text)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment)
    assert process.stdout.readline() == "waiting\n"
    time.sleep(0.3)
    begin = time.monotonic()
    process.send_signal(signal.SIGINT)
    assert process.stdout.readline() == "interrupted\n"
    assert process.wait(timeout=10) == 0
    assert time.monotonic() - begin < 5


def test_pickled_for_another_process(drawn):
    loader = stoker.Loader(stoker.open(drawn)[4:20], 4, ops=TRAIN, seed=2)
    batches = iter(loader)
    next(batches)
    other = pickle.loads(pickle.dumps(loader))
    assert [batch["image"].sum() for batch in other] == [batch["image"].sum() for batch in batches]


def resident_mb():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 1e6


def test_a_thousand_epochs_take_no_more_memory():
    loader = stoker.Loader(DIGITS, np.int64(50), workers=2)
    for _ in range(100):
        for batch in loader:
            batch["image"].mean()
    before = resident_mb()
    for _ in range(1000):
        for batch in loader:
            batch["key"]
    assert resident_mb() - before < 3


def test_making_loaders_again_and_again_leaves_nothing(drawn):
    def threads():
        return len(os.listdir("/proc/self/task"))

    def make():
        loader = stoker.Loader(drawn, 4, ops=TRAIN, workers=2)
        return next(iter(loader))["image"]

    make()
    before = threads(), len(os.listdir("/proc/self/fd"))
    for _ in range(30):
        make()
    assert (threads(), len(os.listdir("/proc/self/fd"))) == before


def test_loops_that_count_their_batches_go_on(monkeypatch):
    def refuse(*_):
        raise AssertionError("the workers begin anew")

    loader, other = (stoker.Loader(DIGITS, 16, workers=1) for _ in range(2))
    monkeypatch.setattr(loader, "_go_to", refuse)
    for epoch in range(3):
        counted = [batch["label"].tolist() for _, batch in zip(range(len(loader)), loader)]
        assert counted == labels(other) and loader.epoch == epoch
    assert loader.state_dict() == other.state_dict()


def test_defaults_in_other_words_are_defaults():
    data = [(np.float32(i), i) for i in range(4)]
    assert len(list(stoker.Loader(data, 2, workers=0, dtype=torch.float32))) == 2
    with pytest.raises(stoker.InvalidArgument, match=r"\[weights\] expected"):
        stoker.Loader(data, 2, workers=0, weights=np.array([3, 1]))


def test_tuples_with_labels_need_labels(drawn, tmp_path):
    """The labels of data without them are -1, which a loss would take."""
    for index, photo in enumerate(sorted(drawn.glob("*/*"))[:4]):
        shutil.copy(photo, tmp_path / f"{index}{photo.suffix}")
    names = sorted(path.name for path in tmp_path.iterdir())
    (tmp_path / "flags.csv").write_text("image,red,round\n" + "".join(f"{name},1,0\n" for name in names))
    data = stoker.open(tmp_path / "flags.csv", fields={"flags": ("red,round", "label")})
    ops = [{"op": "resize", "size": [8, 8]}]
    with pytest.raises(stoker.InvalidArgument, match=r"as_tuple=\[\"image\", \"flags\"\]"):
        stoker.Loader(data, 2, ops=ops, as_tuple=True)
    images, flags = next(iter(stoker.Loader(data, 2, ops=ops, as_tuple=["image", "flags"])))
    assert images.shape == (2, 3, 8, 8) and flags.tolist() == [[1, 0]] * 2
