#!/usr/bin/env python3
"""Writes into a wheel the licences of all that is in it, and a list of it as an SBOM (CycloneDX).

    contents.py WHEEL FOLDER    # the wheel under the same name, and WHEEL.cdx.json, into FOLDER

The engine's wheel uses the libraries of the wheel `stoker` in FOLDER, which it requires, and keeps only its others.
"""

import json
import re
import subprocess
import sys
import tempfile
import zipfile
from importlib.metadata import distribution
from pathlib import Path

# SPDX expressions: of shared libraries, by their files' names, and of headers that are compiled in, by their packages.
LIBRARIES = {
    "libaec": "BSD-2-Clause",
    "libcrypto": "Apache-2.0",
    "libcurl": "curl",
    "libdeflate": "MIT",
    "libfmt": "MIT",
    "libhdf5_serial": "BSD-3-Clause",
    "libjpeg": "IJG AND BSD-3-Clause AND Zlib",
    "liblmdb": "OLDAP-2.8",
    "libncursesw": "X11",
    "libsimdjson": "Apache-2.0",
    "libspng": "BSD-2-Clause AND Libpng",
    "libssl": "Apache-2.0",
    "libsz": "BSD-2-Clause",
    "libtiff": "libtiff",
    "libtinfo": "X11",
    "libwebp": "BSD-3-Clause",
    "libzstd": "BSD-3-Clause",
}
HEADERS = {
    "libcli11-dev": "BSD-3-Clause",
    "libtomlplusplus-dev": "MIT",
    "libxxhash-dev": "BSD-2-Clause",
    "nlohmann-json3-dev": "MIT",
}
CUDA_RUNTIME = b"cudaErrorInvalidValue"  # a text of the static library


def run(*command):
    return subprocess.run([str(word) for word in command], check=True, capture_output=True, text=True).stdout


def packages_in(tree):
    """Debian's packages in an unpacked wheel, with their licences."""
    found = {}
    for path in tree.glob("*.libs/*.so*"):
        library, version = re.fullmatch(r"(\w+)-[0-9a-f]+(\.so.*)", path.name).groups()
        if library not in LIBRARIES:
            raise SystemExit(f"contents.py: expected a licence of {library} in LIBRARIES, found none")
        found[run("dpkg-query", "--search", f"*/{library}{version}").split(":")[0]] = LIBRARIES[library]
    return found | HEADERS


def leave_out_libraries(tree, required):
    """Deletes from an unpacked wheel the libraries of the wheel `required`, and has its programs find them there."""
    (own,) = tree.glob("*.libs")
    for name in zipfile.ZipFile(required).namelist():
        if name.startswith("stoker.libs/"):  # auditwheel's names hold a hash of the content
            (own / Path(name).name).unlink(missing_ok=True)
    for path in tree.rglob("*"):
        if path.is_file() and path.open("rb").read(4) == b"\x7fELF":
            there = Path("$ORIGIN", *[".."] * (len(path.relative_to(tree).parts) - 1), "stoker.libs")
            before = run("patchelf", "--print-rpath", path).strip()
            run("patchelf", "--force-rpath", "--set-rpath", f"{before}:{there}", path)


def component(name, version, licence, kind):
    where = f"pkg:{kind}/{name}@{version}"
    known = {"type": "library", "name": name, "version": version, "purl": where, "bom-ref": where}
    return known | {"licenses": [{"expression": licence}]}


def add_contents(tree):
    """Writes both into an unpacked wheel. Returns the SBOM's text."""
    (info,) = tree.glob("*.dist-info")
    texts = info / "licenses/libraries"
    texts.mkdir()
    name, version = info.name.removesuffix(".dist-info").split("-")
    parts = []
    for package, licence in sorted(packages_in(tree).items()):
        texts.joinpath(f"{package}.txt").write_bytes(Path("/usr/share/doc", package, "copyright").read_bytes())
        parts.append(component(package, run("dpkg-query", "-W", "-f=${Version}", package), licence, "deb/debian"))
    if name == "stoker":
        nanobind = distribution("nanobind")
        (text,) = (file for file in nanobind.files if file.name == "LICENSE")
        texts.joinpath("nanobind.txt").write_text(text.read_text())
        parts.append(component("nanobind", nanobind.version, "BSD-3-Clause", "pypi"))
    elif CUDA_RUNTIME in (tree / "stoker_engine/libstoker_core.so").read_bytes():
        parts.append(component("cuda-cudart", "static", "LicenseRef-NVIDIA-CUDA-EULA", "generic"))
    main = component(name.replace("_", "-"), version, "Apache-2.0", "pypi")
    listed = {"bomFormat": "CycloneDX", "specVersion": "1.6", "version": 1, "metadata": {"component": main}}
    sbom = json.dumps(listed | {"components": parts}, indent=1)
    for made in info.glob("sboms/auditwheel.*"):  # incomplete (findings/auditwheel_sbom_merged_usr.sh)
        made.unlink()
    (info / "sboms").mkdir(exist_ok=True)
    (info / "sboms/stoker.cdx.json").write_text(sbom)
    return sbom


def main(wheel, folder):
    with tempfile.TemporaryDirectory() as scratch:
        run(sys.executable, "-m", "wheel", "unpack", "--dest", scratch, wheel)
        (tree,) = Path(scratch).iterdir()
        if tree.joinpath("stoker_engine").is_dir():
            (required,) = folder.glob("stoker-*.whl")
            leave_out_libraries(tree, required)
        folder.joinpath(f"{wheel.name}.cdx.json").write_text(add_contents(tree))
        run(sys.executable, "-m", "wheel", "pack", "--dest-dir", folder, tree)


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
