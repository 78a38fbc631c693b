# One table has the settings of a loader: what follows from it is current, and a new row is everywhere at once.
import inspect
import os
import re
import shutil
import subprocess
import sys

import pytest
from conftest import PROGRAM, PYTHON_PACKAGE, ROOT
from PIL import Image

stoker = pytest.importorskip("stoker", reason="needs the extension module: STOKER_PYTHON=ON")
_stoker = pytest.importorskip("stoker._stoker", reason="needs the extension module: STOKER_PYTHON=ON")
sys.path.insert(0, str(ROOT / "python"))
generate_settings = pytest.importorskip("generate_settings")
MADE_UP_MODULE = PROGRAM.parents[1] / "tests/made_up/_stoker.abi3.so"
MADE_UP_PROGRAM = PROGRAM.parent / "made_up_program"


def test_what_is_generated_is_current():
    """Otherwise: PYTHONPATH=build/release/python .venv/bin/python python/generate_settings.py"""
    for file, text in generate_settings.generated(_stoker.settings()):
        assert (ROOT / file).read_text() == text, file


def test_the_signature_has_the_arguments_of_the_table():
    parameters = inspect.signature(stoker.Loader).parameters
    rows = {row["name"]: row for _, row in _stoker.settings() if row}
    assert set(parameters) == {"source", *rows} and list(parameters)[:2] == ["source", "batch_size"]
    for name, row in rows.items():
        assert parameters[name].default == eval(row["default"]), name


@pytest.fixture(scope="module")
def made_up(tmp_path_factory):
    """Runs Python with a package whose table has the row `data.made_up`, and what was generated of it."""
    if not MADE_UP_MODULE.exists():
        pytest.skip("needs the module with another table: ninja -C build/release made_up_module made_up_program")
    package = tmp_path_factory.mktemp("package") / "stoker"
    shutil.copytree(ROOT / "python/stoker", package, ignore=shutil.ignore_patterns("__pycache__"))
    for module in PYTHON_PACKAGE.glob("stoker/_watch*.so"):
        (package / module.name).symlink_to(module)
    (package / MADE_UP_MODULE.name).symlink_to(MADE_UP_MODULE)

    def run(code):
        environment = {**os.environ, "PYTHONPATH": str(package.parent)}
        command = [sys.executable, "-W", "error", "-c", code]
        return subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout

    rows = eval(run("from stoker import _stoker; print(_stoker.settings())"))
    texts = dict(generate_settings.generated(rows))
    (package / "loader.py").write_text(texts["python/stoker/loader.py"])
    return run, texts


def test_a_row_more_is_an_argument_with_a_type_and_a_text(made_up):
    run, texts = made_up
    assert "        made_up: bool = False,\n" in texts["python/stoker/loader.py"]
    assert "\n    made_up: a setting of a test.\n" in run("import stoker; print(stoker.Loader.__doc__)")
    signature = run("import inspect, stoker; print(inspect.signature(stoker.Loader))")
    assert "made_up: bool = False" in signature


def test_a_row_more_is_documented(made_up):
    _, texts = made_up
    assert "\n| `data.made_up` | true or false | `false` | a setting of a test |\n" in texts["docs/recipe.md"]
    assert "\n| `made_up` | bool | `False` | a setting of a test |\n" in texts["docs/python.md"]


def test_a_row_more_is_read_from_python(made_up, tmp_path):
    """It sets what `exif` sets: the image is rotated. Messages name it as the other arguments."""
    run, _ = made_up
    (tmp_path / "a").mkdir()
    exif = Image.Exif()
    exif[0x0112] = 6  # the orientation
    Image.new("RGB", (8, 4)).save(tmp_path / "a/1.jpg", exif=exif)
    load = f"import stoker; print(next(iter(stoker.Loader({str(tmp_path)!r}, 1, workers=0{{}})))['image'].shape)"
    assert run(load.format("")) != run(load.format(", made_up=True")) == run(load.format(", exif=True"))
    refused = "import stoker\ntry: stoker.Loader([1, 2], 1, made_up=True)\nexcept stoker.InvalidArgument as error: print(error)"
    assert run(refused).startswith("[made_up] expected a data set of stoker.open")


def test_a_row_more_is_read_from_a_recipe(made_up, tmp_path):
    recipe = tmp_path / "r.toml"
    for value, wanted in (("true", ""), ("3", f"[{recipe}:3: data.made_up] expected true or false, got 3")):
        recipe.write_text(f'[data]\ntrain = "synth:digits?count=60"\nmade_up = {value}\n')
        done = subprocess.run([MADE_UP_PROGRAM, "show", "--recipe", recipe], capture_output=True, text=True)
        assert wanted in done.stderr and (done.returncode == 0) == (value == "true"), done.stderr
    set_wrong = [MADE_UP_PROGRAM, "show", "--recipe", recipe, "--set", "data.made_up=maybe"]
    assert "--set data.made_up" in subprocess.run(set_wrong, capture_output=True, text=True).stderr


# A message of the engine, and the same in Python.
NAMED = [
    ({"batch_size": 0}, "[batch_size] expected an integer from 1 to"),
    ({"seed": -1}, "[seed] expected an integer of at least 0"),
    ({"prefetch": 0}, "[prefetch] expected an integer from 1 to"),
    ({"workers": "many"}, '[workers] expected "auto" or an integer from 0 to'),
    ({"channels": 2}, '[channels] expected "auto", 1 or 3, got 2'),
    ({"cache": "device"}, '[cache] expected one of "none", "ram", "disk", got "device"'),
    ({"weights": object()}, "[weights] expected an array of"),
    ({"ops": [{"op": "resize"}]}, "[ops[0]] expected"),
    ({"pad": {"boxes": 0}}, '[pad["boxes"]] expected'),
    ({"batch_size": 61, "drop_last": True}, "[drop_last] expected at least one full batch"),
]


@pytest.mark.parametrize("arguments, message", NAMED, ids=[next(iter(arguments)) for arguments, _ in NAMED])
def test_messages_name_arguments(arguments, message):
    with pytest.raises(stoker.InvalidArgument) as caught:
        stoker.Loader("synth:digits?count=60", **arguments)
    assert str(caught.value).startswith(message) and "data." not in str(caught.value)


def test_every_setting_that_a_message_names_is_one():
    """Of "<data.workers>" and such in the sources."""
    known = {key[0] for key, _ in _stoker.settings() if key}
    found = set()
    for path in (ROOT / "src").rglob("*.cpp"):
        found |= set(re.findall(r"<(data\.[\w.]+)", path.read_text()))
    assert len(found) > 10 and found <= known, found - known


def test_numbers_of_numpy_and_torch_are_numbers():
    numpy, torch = pytest.importorskip("numpy"), pytest.importorskip("torch")
    loader = stoker.Loader(
        "synth:digits?count=60", numpy.int64(16), seed=numpy.uint64(2**64 - 1), shuffle=numpy.bool_(False), workers=torch.tensor(0)
    )
    assert next(iter(loader))["index"].tolist() == list(range(16))
    data = [stoker.open("synth:digits?count=60"), stoker.open("synth:digits?count=60")]
    assert len(stoker.Loader(data, 8, weights=torch.tensor([3.0, 1.0]), workers=0)) == 15
    assert len(stoker.Loader(data[:1], 8, weights=numpy.array([2.0]), workers=0)) == 8
