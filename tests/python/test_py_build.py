# What pyproject.toml promises of the wheel, without building it (`./dev wheel` does), and what `pip install .` says
# where Debian packages are missing.
import importlib
import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

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


@pytest.mark.parametrize(
    "tag, suffix, right",
    [
        ("cp310-abi3", "abi3", True),
        ("cp311-cp311", "cpython-311-x86_64-linux-gnu", False),
        ("cp310-abi3", "cpython-311-x86_64-linux-gnu", False),
        ("py3-none", "abi3", False),
    ],
)
def test_the_check_of_a_wheel_reads_its_tag(tag, suffix, right, monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "tests/support")
    wrong_tag = importlib.import_module("check_wheel").wrong_tag
    names = {f"stoker/_stoker.{suffix}.so", "stoker/__init__.py"}
    assert (wrong_tag(f"stoker-0.1.0-{tag}-linux_x86_64.whl", names) is None) == right


def test_metadata_and_requirements():
    project = PROJECT["project"]
    (backend,) = project["dependencies"]  # neither torch nor NumPy
    assert backend == "nanobind-backend>=1.0,<2"  # its major version is that of the ABI
    for name in (project["readme"], *project["license-files"]):
        assert (ROOT / name).is_file()
    pinned = dict(line.split("==") for line in (ROOT / "requirements.txt").read_text().splitlines() if "==" in line)
    assert f"nanobind=={pinned['nanobind']}" in PROJECT["build-system"]["requires"]
    excluded = [name.strip("/") for name in PROJECT["tool"]["scikit-build"]["sdist"]["exclude"]]
    assert {"src", "cli", "python", "cmake", "recipes"}.isdisjoint(excluded)


def test_workflows_run_commands_of_dev():
    """Workflows run elsewhere; their commands are tested."""
    known = re.findall(r"^  ([a-z-]+) {2,}", (ROOT / "dev").read_text().split("HELP")[1], re.MULTILINE)
    known += re.findall(r"^  ([a-z-]+) \[", (ROOT / "dev").read_text().split("HELP")[1], re.MULTILINE)
    called = [name for path in ROOT.glob(".github/workflows/*.yml") for name in re.findall(r"\./dev ([a-z-]+)", path.read_text())]
    assert len(called) >= 4 and set(called) <= set(known)


@pytest.mark.parametrize("releases, text", [("2.15", "torch>=2.15,<2.16"), ("2.11 2.13", "torch>=2.11,<2.14,!=2.12.*")])
def test_the_engines_wheel_requires_a_torch_that_it_serves(releases, text):
    source = (ROOT / "packaging/release.sh").read_text()
    function = source[source.index("torch_requirement() {") :].split("\n}\n")[0] + "\n}\n"
    done = subprocess.run(["bash", "-c", f"{function} torch_requirement {releases}"], capture_output=True, text=True, check=True)
    assert done.stdout == text


@pytest.fixture
def installed(tmp_path, monkeypatch):
    """stoker._program, as in the package of an environment without other programs."""
    program = importlib.import_module("stoker._program")
    monkeypatch.setattr(program, "__file__", str(tmp_path / "stoker/_program.py"))
    monkeypatch.delenv("STOKER_BIN", raising=False)
    monkeypatch.setenv("PATH", "")
    return program


def empty_program(path, engine=None):
    """engine: its path from the folder above."""
    for made in (path, *([path.parents[1] / engine] if engine else [])):
        made.parent.mkdir(parents=True, exist_ok=True)
        made.touch(0o755)
    return path


def test_the_script_becomes_the_program_of_the_wheel(installed, tmp_path, monkeypatch, capsys):
    module, function = PROJECT["project"]["scripts"]["stoker"].split(":")
    main = importlib.import_module(module)
    made = empty_program(tmp_path / "stoker/bin/stoker")
    called = []
    monkeypatch.setattr(os, "execv", lambda *arguments: called.append(arguments))
    monkeypatch.setattr(sys, "argv", ["stoker", "inspect", "data"])
    getattr(main, function)()
    assert called == [(made, [str(made), "inspect", "data"])]
    monkeypatch.setattr(sys, "argv", ["stoker", "train", "r.toml"])
    assert getattr(main, function)() == 1 and len(called) == 1
    assert "stoker: expected the engine" in capsys.readouterr().err
    built = empty_program(tmp_path / "build/stoker", engine="build/stoker-engine")
    monkeypatch.setenv("STOKER_BIN", str(built))
    getattr(main, function)()
    assert called[1:] == [(built, [str(built), "train", "r.toml"])]


def test_an_installed_package_finds_the_engine_elsewhere(installed, tmp_path, monkeypatch):
    own = empty_program(tmp_path / "stoker/bin/stoker")
    with pytest.raises(FileNotFoundError, match="expected the engine"):
        installed.find_program(engine=True)
    for built in (
        empty_program(tmp_path / "build/stoker", engine="build/stoker-engine"),
        empty_program(tmp_path / "usr/bin/stoker", engine="libexec/stoker/stoker-engine"),
    ):
        monkeypatch.setenv("STOKER_BIN", str(built))
        assert installed.find_program() == own and installed.find_program(engine=True) == built
    own_engine = empty_program(own, engine="bin/stoker-engine")
    assert installed.find_program(engine=True) == own_engine == own


def test_the_command_that_pip_makes_is_not_taken_for_the_program(installed, tmp_path, monkeypatch):
    """It would start itself for ever."""
    script = empty_program(tmp_path / "bin/stoker")
    monkeypatch.setenv("PATH", str(script.parent))
    assert installed.find_program() == script
    script.write_text("#!/usr/bin/python3\n")
    with pytest.raises(FileNotFoundError, match="was not found"):
        installed.find_program()


def test_a_missing_engine_is_told_with_the_command_that_builds_it(installed, tmp_path):
    empty_program(tmp_path / "stoker/bin/stoker")
    with pytest.raises(FileNotFoundError) as caught:
        installed.find_program(engine=True)
    for way in (installed.INSTALL_ENGINE, installed.BUILD_ENGINE, "STOKER_BIN"):
        assert way in str(caught.value)
    assert "\n" not in str(caught.value)


def test_the_engines_wheel_is_told_the_torch_of_the_environment(installed, tmp_path, monkeypatch):
    torch = tmp_path / "torch/__init__.py"
    torch.parent.mkdir()
    torch.touch()
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "torch", raising=False)
    monkeypatch.setenv("STOKER_TORCH", "")  # so that its absence is restored
    monkeypatch.delenv("STOKER_TORCH")
    installed.name_torch(Path("/bin/stoker"))
    program = empty_program(tmp_path / "stoker/bin/stoker")
    installed.name_torch(program)
    assert "STOKER_TORCH" not in os.environ
    empty_program(program, engine="../stoker_engine/torch-2.15/stoker-engine")
    assert installed.find_program(engine=True) == program
    installed.name_torch(program)
    assert os.environ["STOKER_TORCH"] == str(torch.parent)
    monkeypatch.setenv("STOKER_TORCH", "/mine")
    installed.name_torch(program)
    assert os.environ["STOKER_TORCH"] == "/mine"


def test_commands_of_the_engine_are_those_of_the_program(tmp_path, program):
    """A program without an engine says which of its commands need one."""
    needs_engine = importlib.import_module("stoker._program").needs_engine
    alone = shutil.copy(program, tmp_path / "stoker")

    def said(*words):
        done = subprocess.run([alone, *words, "--help"], capture_output=True, text=True)
        return done.stdout + done.stderr

    def commands(text):
        return re.findall(r"^  ([a-z]+) ", text.split("Subcommands:\n")[1].split("\n\n")[0], re.MULTILINE)

    lines = [[name] for name in commands(said())] + [["bench", name] for name in commands(said("bench"))]
    assert len(lines) > 20
    for words in lines:
        assert needs_engine([*words, "x"]) == ("expected the engine" in said(*words)), words
    assert needs_engine(["launch", "--nproc-per-node", "2", "--", "stoker", "train", "r.toml"])
    assert not needs_engine(["launch", "--nproc-per-node", "2", "--", "python", "train.py"]) and not needs_engine([])


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
