"""A virtual environment for each requirements file, in a cache folder outside of the repository, made when first
needed with pip as the user has set it up."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent


class Skipped(Exception):
    """This entry cannot be measured here; the text says why."""


def cache_folder() -> Path:
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "stoker/peers"


def last_line(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    errors = [line for line in lines if "error" in line.lower()]
    return (errors or lines or ["no output"])[-1]


def run_pip(python: Path, requirements: Path) -> None:
    pip = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "-r", str(requirements)]
    done = subprocess.run(pip, stdin=subprocess.DEVNULL, stdout=sys.stderr, stderr=subprocess.PIPE, text=True)
    if done.returncode != 0:
        raise Skipped(f"pip install -r {requirements.name}: {last_line(done.stderr)}")


def interpreter(name: str) -> Path:
    """The Python of the environment for requirements/<name>.txt. A change of that file makes a new one."""
    requirements = HERE / "requirements" / f"{name}.txt"
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    digest = hashlib.sha256(requirements.read_bytes() + version.encode()).hexdigest()[:12]
    folder = cache_folder() / f"{name}-{digest}"
    python, complete = folder / "bin/python", folder / "complete"
    if not complete.exists():
        print(f"installing {requirements.name} into {folder}", file=sys.stderr, flush=True)
        made = subprocess.run([sys.executable, "-m", "venv", "--clear", str(folder)], capture_output=True, text=True)
        if made.returncode != 0:
            raise Skipped(f"python -m venv: {last_line(made.stdout + made.stderr)}")
        run_pip(python, requirements)
        complete.touch()
    return python
