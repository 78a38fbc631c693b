"""The wheel `stoker-engine` of a folder with stoker_engine/torch-*/: programs, and no Python code.

usage: engine_wheel.py FOLDER VERSION OUT
"""

import subprocess
import sys
from pathlib import Path

METADATA = """\
Metadata-Version: 2.4
Name: stoker-engine
Version: {version}
Summary: Stoker's training engine: stoker train, eval, predict, export, profile and tune, for torch {releases}
License-Expression: Apache-2.0
Requires-Python: >=3.10
Requires-Dist: stoker=={version}
Requires-Dist: torch>={first}
"""
WHEEL = """\
Wheel-Version: 1.0
Generator: stoker
Root-Is-Purelib: false
Tag: py3-none-linux_x86_64
"""


def main(folder: Path, version: str, out: Path) -> None:
    releases = sorted(
        (path.name.removeprefix("torch-") for path in folder.glob("stoker_engine/torch-*")),
        key=lambda name: [int(part) for part in name.split(".")],
    )
    info = folder / f"stoker_engine-{version}.dist-info"
    info.mkdir(exist_ok=True)
    (info / "METADATA").write_text(
        METADATA.format(version=version, releases=", ".join(releases), first=releases[0])
    )
    (info / "WHEEL").write_text(WHEEL)
    subprocess.run([sys.executable, "-m", "wheel", "pack", folder, "--dest-dir", out], check=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], Path(sys.argv[3]))
