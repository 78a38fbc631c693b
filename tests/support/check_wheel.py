#!/usr/bin/env python3
"""Checks a wheel of the Python package in a new environment without torch and NumPy: `./dev wheel` runs it.

    check_wheel.py WHEEL FOLDER    # the environment is made in FOLDER
"""

import re
import statistics
import subprocess
import sys
import venv
import zipfile
from pathlib import Path

MOST_BYTES = 20_000_000
MOST_IMPORT_MS = 60
IMPORT = "from time import perf_counter as now; start = now(); import stoker; print(1e3 * (now() - start))"
USE = """
import stoker
data = stoker.open("synth:digits?count=10")
assert len(data) == 10 and stoker.__version__ == {version!r}, (len(data), stoker.__version__)
"""
NEEDED = {"stoker/bin/stoker", "stoker/py.typed", "stoker/_stoker.pyi", "stoker/watch/hooks.py"}


def output(*command):
    return subprocess.run([str(word) for word in command], check=True, capture_output=True, text=True).stdout


def links(binary):
    """Shared libraries that a binary loads; those that are missing here; the newest glibc that its symbols name."""
    loaded = re.findall(r"^\t(\S+)", output("ldd", binary), re.MULTILINE)
    missing = re.findall(r"^\t(\S+) => not found", output("ldd", binary), re.MULTILINE)
    versions = re.findall(r"GLIBC_(\d+)\.(\d+)", output("objdump", "-T", binary))
    return loaded, missing, max((int(major), int(minor)) for major, minor in versions)


def wrong_tag(wheel_name, names):
    """What differs from one wheel for Python 3.10 and later in the wheel's name and its extension module; or None."""
    found = sorted(name for name in names if name.startswith("stoker/_") and name.endswith(".so"))
    if "-cp310-abi3-" in wheel_name and found == ["stoker/_stoker.abi3.so"]:
        return None
    return f"expected cp310-abi3, and _stoker.abi3.so, got {wheel_name} with {found}"


def main(wheel, folder):
    problems = []
    size = wheel.stat().st_size
    if size > MOST_BYTES:
        problems.append(f"expected at most {MOST_BYTES:,} bytes, got {size:,}")
    names = set(zipfile.ZipFile(wheel).namelist())
    problems += [f"expected {name} in it, found none" for name in sorted(NEEDED - names)]
    wrong = wrong_tag(wheel.name, names)
    problems += [] if wrong is None else [wrong]
    problems += [f"expected no {name} in it" for name in sorted(names) if "__pycache__" in name or "/tests/" in name]

    venv.create(folder, clear=True, with_pip=True)
    python = folder / "bin/python"
    output(python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", wheel)
    package = Path(output(python, "-c", "import stoker; print(stoker.__path__[0])").strip())
    for binary in (package / "bin/stoker", *package.glob("_*.so")):
        loaded, missing, glibc = links(binary)
        problems += [f"{binary.name}: expected {name} on this machine, found none" for name in missing]
        foreign = [name for name in loaded if re.search("torch|python|cuda", name)]
        problems += [f"{binary.name}: expected no link to {name}" for name in foreign]
        print(f"{binary.name}: {len(loaded)} shared libraries; its symbols need glibc {glibc[0]}.{glibc[1]}")
    output(python, "-c", USE.format(version=wheel.name.split("-")[1]))
    output(folder / "bin/stoker", "inspect", "synth:digits?count=10")
    milliseconds = statistics.median(float(output(python, "-c", IMPORT)) for _ in range(9))
    if milliseconds > MOST_IMPORT_MS:
        problems.append(f"expected `import stoker` to take at most {MOST_IMPORT_MS} ms, got {milliseconds:.1f}")
    print(f"{wheel.name}: {size / 1e6:.1f} MB, import stoker in {milliseconds:.1f} ms")
    for problem in problems:
        print(f"check_wheel: {problem}", file=sys.stderr)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]).resolve(), Path(sys.argv[2]).resolve()))
