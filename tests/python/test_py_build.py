# What pyproject.toml promises of the wheel, without building it (`./dev wheel` does), and what `pip install .` says
# where Debian packages are missing.
import importlib
import os
import re
import subprocess
import sys
import tomllib

import pytest
from conftest import ROOT

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())


def test_the_version_is_that_of_cmake():
    version = PROJECT["tool"]["scikit-build"]["metadata"]["version"]
    found = re.search(version["regex"], (ROOT / version["input"]).read_text())
    assert PROJECT["project"]["dynamic"] == ["version"] and re.fullmatch(r"\d+\.\d+\.\d+", found["value"])


def test_the_wheel_holds_the_package_the_extension_and_the_program():
    settings = PROJECT["tool"]["scikit-build"]
    (package,) = settings["wheel"]["packages"]
    assert (ROOT / package / "__init__.py").is_file() and (ROOT / package / "py.typed").is_file()
    cmake = "".join(path.read_text() for path in (ROOT / "python/CMakeLists.txt", ROOT / "cli/CMakeLists.txt"))
    for target in settings["build"]["targets"]:
        assert re.search(rf"(nanobind_add_module|add_executable)\({target}\b", cmake), target
        assert re.search(rf"install\(TARGETS {target} .*COMPONENT python", cmake), target
    assert settings["install"]["components"] == ["python"]
    defined = settings["cmake"]["define"]
    assert all(defined[name] == "OFF" for name in ("STOKER_ENGINE", "STOKER_TESTS", "STOKER_CUDA"))


def test_one_wheel_serves_all_pythons_from_3_12_on():
    """Three settings have to agree: the wheel's tag, CMake's module with the stable ABI, and nanobind's."""
    assert PROJECT["tool"]["scikit-build"]["wheel"]["py-api"] == "cp312"
    assert PROJECT["project"]["requires-python"] == ">=3.10"
    assert "Development.SABIModule" in (ROOT / "cmake/StokerPython.cmake").read_text()
    for module in ("_stoker", "_watch"):
        assert re.search(rf"nanobind_add_module\({module} STABLE_ABI ", (ROOT / "python/CMakeLists.txt").read_text())


ABI3, CP311, CP313 = "abi3", "cpython-311-x86_64-linux-gnu", "cpython-313-x86_64-linux-gnu"


@pytest.mark.parametrize(
    "version, tag, loader, watch, right",
    [
        ((3, 13), "cp312-abi3", ABI3, ABI3, True),
        ((3, 13), "cp313-cp313", CP313, CP313, False),
        ((3, 13), "cp312-abi3", CP313, CP313, False),
        ((3, 13), "cp312-abi3", ABI3, CP313, False),
        ((3, 13), "cp312-abi3", ABI3, None, False),
        ((3, 11), "cp311-cp311", CP311, CP311, True),
        ((3, 11), "py3-none", ABI3, ABI3, False),
    ],
)
def test_the_check_of_a_wheel_reads_its_tag(version, tag, loader, watch, right, monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "tests/support")
    wrong_tag = importlib.import_module("check_wheel").wrong_tag
    names = {f"stoker/_stoker.{loader}.so", "stoker/__init__.py"}
    if watch is not None:
        names.add(f"stoker/_watch.{watch}.so")
    assert (wrong_tag(f"stoker-0.1.0-{tag}-linux_x86_64.whl", names, version) is None) == right


def test_metadata_and_requirements():
    project = PROJECT["project"]
    assert project["dependencies"] == []  # neither torch nor NumPy
    for name in (project["readme"], *project["license-files"]):
        assert (ROOT / name).is_file()
    pinned = dict(line.split("==") for line in (ROOT / "requirements.txt").read_text().splitlines() if "==" in line)
    assert f"nanobind=={pinned['nanobind']}" in PROJECT["build-system"]["requires"]
    excluded = [name.strip("/") for name in PROJECT["tool"]["scikit-build"]["sdist"]["exclude"]]
    assert {"src", "cli", "python", "cmake"}.isdisjoint(excluded)


def test_the_script_becomes_the_program_of_the_wheel(tmp_path, monkeypatch):
    module, function = PROJECT["project"]["scripts"]["stoker"].split(":")
    main = importlib.import_module(module)
    monkeypatch.setattr(main, "__file__", str(tmp_path / "_main.py"))
    with pytest.raises(SystemExit, match="expected the program at"):
        getattr(main, function)()
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/stoker").touch()
    called = []
    monkeypatch.setattr(os, "execv", lambda *arguments: called.append(arguments))
    monkeypatch.setattr(sys, "argv", ["stoker", "inspect", "data"])
    getattr(main, function)()
    assert called == [(tmp_path / "bin/stoker", [str(tmp_path / "bin/stoker"), "inspect", "data"])]


def test_an_installed_package_finds_the_engine_elsewhere(tmp_path, monkeypatch):
    program = importlib.import_module("stoker._program")
    monkeypatch.setattr(program, "__file__", str(tmp_path / "stoker/_program.py"))
    own, built = tmp_path / "stoker/bin/stoker", tmp_path / "build/stoker"
    for path in own, built, tmp_path / "build/stoker-engine":
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch(0o755)
    monkeypatch.setenv("STOKER_BIN", str(built))
    assert program.find_program() == own and program.find_program(engine=True) == built
    built.unlink()
    monkeypatch.setenv("PATH", "")
    assert program.find_program(engine=True) == own  # it says what is missing


def test_certificates_of_certifi_where_the_system_has_none(monkeypatch):
    certifi = pytest.importorskip("certifi")
    certificates = importlib.import_module("stoker._certificates")
    for name in certificates._VARIABLES:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(certificates, "_SYSTEM", (certifi.where(),))
    certificates.find_certificates()
    assert "SSL_CERT_FILE" not in os.environ  # the system has some
    monkeypatch.setattr(certificates, "_SYSTEM", ("/nowhere",))
    monkeypatch.setenv("SSL_CERT_DIR", "/mine")
    certificates.find_certificates()
    assert "SSL_CERT_FILE" not in os.environ  # the user names some
    monkeypatch.delenv("SSL_CERT_DIR")
    monkeypatch.setenv("SSL_CERT_FILE", "")  # so that monkeypatch removes what follows
    certificates.find_certificates()
    assert os.environ["SSL_CERT_FILE"] == certifi.where()


def test_certificates_are_sought_where_the_program_seeks_them():
    source = (ROOT / "src/stoker/io/remote/certificates.cpp").read_text()
    places = re.findall(r'^    "(/etc/\S+)",', source, re.MULTILINE)
    assert tuple(places) == importlib.import_module("stoker._certificates")._SYSTEM


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
