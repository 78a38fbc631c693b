# What follows from the table of settings is current, and a row more is everywhere.
import inspect
import os
import shutil
import subprocess
import sys

import pytest
from conftest import PROGRAM, ROOT
from PIL import Image

stoker = pytest.importorskip("stoker", reason="needs the extension module: STOKER_PYTHON=ON")
_stoker = pytest.importorskip("stoker._stoker", reason="needs the extension module: STOKER_PYTHON=ON")
sys.path.insert(0, str(ROOT / "docs/site"))
import settings  # noqa: E402

ROWS = [settings.Row(*row) for row in _stoker.settings()]


def test_what_is_written_is_current():
    for file, text in settings.generated(ROWS).items():
        assert (ROOT / file).read_text() == text, f"run docs/site/settings.py, which writes {file}"


def test_the_signature_is_that_of_the_table():
    parameters = inspect.signature(stoker.Loader).parameters
    assert list(parameters)[:2] == ["source", "batch_size"]
    for row in ROWS:
        assert not row.name or parameters[row.name].default == eval(row.python_default), row.name


def test_numbers_of_numpy_and_torch_are_settings():
    numpy, torch = pytest.importorskip("numpy"), pytest.importorskip("torch")
    seed = numpy.uint64(2**64 - 1)
    data = [stoker.open("synth:digits?count=60"), stoker.open("synth:digits?count=60")]
    loader = stoker.Loader(data, numpy.int64(8), seed=seed, shuffle=numpy.bool_(False), workers=torch.tensor(0))
    assert next(iter(loader))["index"].tolist() == list(range(8))
    assert len(stoker.Loader(data, 8, weights=torch.tensor([3.0, 1.0]), workers=0)) == 15


def test_a_row_more_is_everywhere(tmp_path):
    """`data.made_up` sets what `data.exif` sets."""
    package = tmp_path / "stoker"
    shutil.copytree(ROOT / "python/stoker", package, ignore=shutil.ignore_patterns("__pycache__"))
    (package / "_stoker.so").symlink_to(PROGRAM.parents[1] / "tests/made_up/_stoker.so")

    def run(*words):
        environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
        return subprocess.run(words, env=environment, cwd=tmp_path, capture_output=True, text=True)

    printed = run(sys.executable, "-c", "from stoker import _stoker; print(_stoker.settings())").stdout
    texts = settings.generated([settings.Row(*row) for row in eval(printed)])
    assert "\n    made_up: a setting of a test.\n" in texts["python/stoker/loader.py"]
    assert '"made_up": bool' in texts["python/stoker/_stoker.pyi"]
    assert "\n| `data.made_up` | true or false | `false` | a setting of a test |\n" in texts["docs/recipe.md"]

    (package / "loader.py").write_text(texts["python/stoker/loader.py"])
    (tmp_path / "data/a").mkdir(parents=True)
    exif = Image.Exif()
    exif[0x0112] = 6  # the orientation
    Image.new("RGB", (8, 4)).save(tmp_path / "data/a/1.jpg", exif=exif)
    load = "import stoker; print(next(iter(stoker.Loader('data', 1, workers=0{})))['image'].shape)"
    plain, rotated = (run(sys.executable, "-c", load.format(more)).stdout for more in ("", ", made_up=True"))
    assert "4, 8" in plain and "8, 4" in rotated

    (tmp_path / "r.toml").write_text('[data]\ntrain = "data"\nmade_up = 3\n')
    refused = run(PROGRAM.parent / "made_up_program", "show", "--recipe", "r.toml")
    assert "[r.toml:3: data.made_up] expected true or false, got 3" in refused.stderr
