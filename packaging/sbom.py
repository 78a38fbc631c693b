"""An SBOM (CycloneDX) of what the wheels in a folder contain: our own dependencies from docs/dependencies.md, and the
libraries that auditwheel has copied, with the Debian packages that they come from.

usage: sbom.py DIST
"""

import json
import re
import sys
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def linked() -> list[dict]:
    """The rows of the first table of docs/dependencies.md."""
    text = (ROOT / "docs/dependencies.md").read_text()
    table = text.split("## Linked into the libraries and the program")[1].split("\n## ")[0]
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in table.splitlines() if line.startswith("|")]
    return [
        {"type": "library", "name": name, "version": version, "licenses": [{"license": {"name": licence}}]}
        for name, _, version, licence, *_ in rows[2:]
    ]


def copied(wheel: Path) -> list[dict]:
    """The components that auditwheel lists in a wheel."""
    archive = zipfile.ZipFile(wheel)
    names = [name for name in archive.namelist() if re.search(r"\.dist-info/sboms/.*\.json$", name)]
    return [part for name in names for part in json.loads(archive.read(name)).get("components", [])]


def main(dist: Path) -> None:
    wheels = sorted(dist.glob("*.whl"))
    if not wheels:
        sys.exit(f"[{dist}] expected wheels, got none")
    components = {(part["name"], part.get("version", "")): part for part in linked()}
    for wheel in wheels:
        components |= {(part["name"], part.get("version", "")): part for part in copied(wheel)}
    document = {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "metadata": {"component": {"type": "application", "name": "stoker", "version": wheels[0].name.split("-")[1]}},
        "components": [components[key] for key in sorted(components)],
    }
    (dist / "stoker.cdx.json").write_text(json.dumps(document, indent=1) + "\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
