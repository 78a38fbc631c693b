# The notebooks of docs/notebooks run from top to bottom, in a temporary folder.
import os

import pytest
from conftest import PROGRAM, PYTHON_PACKAGE, ROOT

pytest.importorskip("stoker._stoker", reason="needs the extension module: STOKER_PYTHON=ON")
nbclient = pytest.importorskip("nbclient")
nbformat = pytest.importorskip("nbformat")
pytest.importorskip("ipykernel")

NOTEBOOKS = sorted((ROOT / "docs/notebooks").glob("*.ipynb"))


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_it_runs(path, tmp_path, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(PYTHON_PACKAGE), os.environ.get("PYTHONPATH", "")]))
    monkeypatch.setenv("STOKER_BIN", str(PROGRAM))
    book = nbformat.read(path, as_version=4)
    assert all(not cell.get("outputs") for cell in book.cells), "outputs are not kept in the source tree"
    nbclient.NotebookClient(book, timeout=120, resources={"metadata": {"path": str(tmp_path)}}).execute()
