# A short soak: descriptors do not grow over epochs, and a growth is reported. bench/soak.py in full takes
# minutes and looks at memory too.
import subprocess
import sys

import pytest

from conftest import PROGRAM, ROOT


@pytest.mark.skipif(not (PROGRAM.parent / "soak").is_file(), reason="needs the program soak beside stoker")
def test_descriptors_do_not_grow(tmp_path):
    words = ["--build", PROGRAM.parent, "--count", "16", "--epochs", "20"]
    command = [sys.executable, ROOT / "bench/soak.py", *words]
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, timeout=300, cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("descriptors +0") + done.stdout.count("descriptors -") == 4
    assert done.stdout.endswith("steady\n")
