# What the tests of the program share: running it, small data sets, recipes, and the real data where
# it is present. STOKER_BIN names the program, STOKER_SHARED_DATA the folder of real data.
import json
import os
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PROGRAM = Path(os.environ.get("STOKER_BIN", ROOT / "build/release/bin/stoker")).resolve()
SHARED = Path(os.environ.get("STOKER_SHARED_DATA", ROOT / "../shared/data")).resolve()


class Done:
    """A finished run of the program."""

    def __init__(self, process):
        self.status = process.returncode
        self.out = process.stdout
        self.err = process.stderr

    def json(self):
        return json.loads(self.out)


def run_program(*arguments, cwd, status=0, prefix=(), env=None):
    command = [*prefix, PROGRAM, *arguments]
    process = subprocess.run(
        [str(part) for part in command],
        cwd=cwd,
        capture_output=True,
        text=True,
        timeout=120,
        env={**os.environ, **(env or {})},
    )
    assert status is None or process.returncode == status, f"{command}\n{process.stdout}\n{process.stderr}"
    return Done(process)


@pytest.fixture(scope="session", autouse=True)
def program():
    if not PROGRAM.is_file():
        pytest.skip(f"needs the program in {PROGRAM}: ./dev build, or set STOKER_BIN")
    return PROGRAM


@pytest.fixture
def stoker(tmp_path):
    """Runs the program in the test's own folder; checks the exit status."""
    return lambda *arguments, **options: run_program(*arguments, cwd=tmp_path, **options)


@pytest.fixture
def recipe(tmp_path):
    """Writes a recipe with the given training ops (TOML) and further lines of [data]."""

    def write(ops="", data="", train="synth:digits?count=60", top="", rest=""):
        path = tmp_path / "recipe.toml"
        path.write_text(f'{top}\n[data]\ntrain = "{train}"\n{data}\ntrain_ops = [{ops}]\nval_ops = [{ops}]\n{rest}\n')
        return path

    return write


def shared(part):
    if not (SHARED / part).exists():
        pytest.skip(f"needs {part} under STOKER_SHARED_DATA")
    return SHARED / part


@pytest.fixture(scope="session")
def photos():
    return shared("photos")


@pytest.fixture(scope="session")
def mnist():
    return shared("mnist")


@pytest.fixture(scope="session")
def drawn(program, tmp_path_factory):
    """24 photos in 8 classes, drawn by Stoker. Not to be changed."""
    folder = tmp_path_factory.mktemp("drawn")
    run_program("synth", "photos", "photos", "--count", "24", cwd=folder)
    return folder / "photos"
