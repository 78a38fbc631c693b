# Texts that people read, each in one file of tests/golden: a better word changes one file. STOKER_UPDATE_GOLDEN=1 writes
# the text that the program prints now; `git diff` shows the difference.
import os
from pathlib import Path

FOLDER = Path(__file__).parents[1] / "golden"


def check_golden(name, text):
    path = FOLDER / name
    if os.environ.get("STOKER_UPDATE_GOLDEN"):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    assert path.is_file(), f"{path}: expected the text; STOKER_UPDATE_GOLDEN=1 writes it"
    assert text == path.read_text(), f"{path} has other words; STOKER_UPDATE_GOLDEN=1 takes the new ones"
