# What `pip install .` says where Debian packages are missing.
import re
import subprocess

from conftest import ROOT


def test_missing_packages_are_named_in_one_line(tmp_path):
    missing = [f"-DCMAKE_DISABLE_FIND_PACKAGE_{name}=ON" for name in ("LMDB", "SPNG", "fmt")]
    command = ["cmake", "-S", ROOT, "-B", tmp_path, "-DSTOKER_ENGINE=OFF", "-DSTOKER_CUDA=OFF", *missing]
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True)
    assert done.returncode != 0
    lines = [line.strip() for line in done.stderr.splitlines() if "apt-get" in line]
    assert lines == ["Stoker: packages are missing; run: apt-get install libspng-dev liblmdb-dev libfmt-dev"]


def test_every_package_is_one_that_dev_installs():
    named = re.findall(r"^stoker_find\(\S+ (\S+)\)", (ROOT / "cmake/StokerPackages.cmake").read_text(), re.MULTILINE)
    assert len(named) > 10
    assert not [package for package in named if package not in (ROOT / "dev").read_text()]
