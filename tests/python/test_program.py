# One program in two executables: commands without LibTorch start at once, the others run in stoker-engine, and users
# see one program.
import os
import shutil
import subprocess
import sys
import time

import pytest

from conftest import PROGRAM, ROOT

ENGINE = PROGRAM.parent / "stoker-engine"


@pytest.fixture(scope="module")
def engine():
    if not ENGINE.is_file():
        pytest.skip("needs the engine: STOKER_ENGINE=ON")
    return ENGINE


def peak_kib(*command):
    """The largest resident set of one run; its own child's alone, so it is measured in a fresh process."""
    measure = "import resource, subprocess, sys; subprocess.run(sys.argv[1:], stdout=subprocess.DEVNULL, check=True); " \
        "print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)"
    done = subprocess.run(["python3", "-c", measure, *map(str, command)], capture_output=True, text=True, check=True)
    return int(done.stdout)


@pytest.mark.parametrize("command", [["--version"], ["inspect", "synth:digits?count=6"]])
def test_the_program_loads_no_libtorch(program, command):
    assert peak_kib(program, *command) < 40_000


def test_a_mistyped_command_is_named(stoker):
    assert 'did you mean "pack"?' in stoker("packs", "a", "b", status=2).err
    assert "`python -m stoker watch SCRIPT`" in stoker("watch", "train.py", status=2).err
    assert 'did you mean "ladder"?' in stoker("bench", "lader", status=2).err


def test_an_unknown_option_is_named(stoker):
    assert "--set key=value" in stoker("train", "r.toml", "--epochs", "3", status=2).err
    assert "train.epochs=3" in stoker("train", "r.toml", "--set", "train.epochs", "=", "3", status=2).err
    assert "did you mean --verify?" in stoker("inspect", "d", "--verfy", status=2).err
    assert "`stoker inspect --help`" in stoker("inspect", "d", "-x", status=2).err
    assert "a value for --out" in stoker("train", "r.toml", "--out", "", status=2).err


@pytest.mark.parametrize("words", [["train"], ["bench", "ladder"]])
def test_the_engines_commands_belong_to_the_program(engine, stoker, words):
    assert f"Usage: {' '.join(['stoker', *words])} " in stoker(*words, "--help").out
    done = stoker(*words, "--nonsense", status=2)
    assert done.err.startswith("stoker: ") and f"`{' '.join(['stoker', *words])} --help`" in done.err


def test_both_name_the_same_version(engine, stoker):
    version = stoker("--version").out
    assert "LibTorch" in version
    assert subprocess.run([engine, "--version"], capture_output=True, text=True, check=True).stdout == version


@pytest.fixture
def alone(tmp_path):
    """The program without an engine in its folder."""
    return shutil.copy(PROGRAM, tmp_path / "stoker")


@pytest.mark.parametrize("words", [["train", "x.toml"], ["eval", "--help"], ["bench", "ladder"]])
def test_without_an_engine_it_says_so(alone, words):
    done = subprocess.run([alone, *words], capture_output=True, text=True)
    name = " ".join(words[:2] if words[0] == "bench" else words[:1])
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith(f"stoker: [{name}] expected the engine") and "STOKER_ENGINE=ON" in done.stderr
    assert done.stderr.count("\n") == 1


def test_the_doctor_sees_a_missing_and_a_broken_engine(alone, tmp_path):
    def libtorch():
        done = subprocess.run([alone, "doctor"], capture_output=True, text=True)
        return next(line for line in done.stdout.splitlines() if "LibTorch " in line), done.returncode

    line, status = libtorch()
    assert line.startswith("warn  LibTorch") and "none: " in line and status == 0
    (tmp_path / "stoker-engine").write_text("#!/bin/sh\nexit 127\n")
    os.chmod(tmp_path / "stoker-engine", 0o755)
    line, status = libtorch()
    assert line.startswith("fail  LibTorch") and "exit status 127" in line and status == 1


def made_up_torch(folder, version):
    folder.mkdir()
    (folder / "version.py").write_text(f"__version__ = '{version}+cpu'\ncuda: Optional[str] = None\n")
    return folder


def executable(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(0o755)


def test_an_engine_for_another_release_of_libtorch_does_not_start(alone, tmp_path):
    executable(tmp_path / "stoker-engine", "#!/bin/sh\necho started\n")
    torch = made_up_torch(tmp_path / "torch", "1.9.0")
    for command, status in (["train", "x.toml"], 1), (["doctor"], 1):
        done = subprocess.run([alone, *command], capture_output=True, text=True, env=os.environ | {"STOKER_TORCH": torch})
        assert done.returncode == status and "started" not in done.stdout
    done = subprocess.run([alone, "train"], capture_output=True, text=True, env=os.environ | {"STOKER_TORCH": torch})
    assert done.stderr.startswith("stoker: [train] expected torch ") and done.stderr.count("\n") == 1
    assert f"got 1.9.0+cpu in {torch}" in done.stderr and "STOKER_TORCH" in done.stderr
    mistyped = os.environ | {"STOKER_TORCH": str(tmp_path / "nowhere")}
    done = subprocess.run([alone, "train"], capture_output=True, text=True, env=mistyped)
    assert done.returncode == 1 and f'none in "{tmp_path}/nowhere"' in done.stderr


def test_the_wheels_engine_for_the_release_of_libtorch_starts(tmp_path):
    program = tmp_path / "stoker/bin/stoker"
    program.parent.mkdir(parents=True)
    shutil.copy(PROGRAM, program)
    for release in ("2.11", "2.15"):
        executable(tmp_path / f"stoker_engine/torch-{release}/stoker-engine", f"#!/bin/sh\necho {release} $LD_LIBRARY_PATH $*\n")

    def train(torch, **environment):
        environment = os.environ | {"STOKER_TORCH": str(torch)} | environment
        return subprocess.run([program, "train", "a"], capture_output=True, text=True, env=environment)

    torch = made_up_torch(tmp_path / "torch", "2.15.1")
    assert train(torch, LD_LIBRARY_PATH="/mine").stdout == f"2.15 {torch}/lib:/mine train a\n"
    assert train(torch, LD_LIBRARY_PATH="").stdout == f"2.15 {torch}/lib train a\n"
    assert train(made_up_torch(tmp_path / "old", "2.11.0")).stdout.startswith("2.11 ")
    other = train(made_up_torch(tmp_path / "between", "2.13.0"))
    assert other.returncode == 1 and "expected torch 2.11, 2.15" in other.stderr
    assert train(tmp_path / "nowhere").returncode == 1


def test_a_symbol_that_libtorch_lacks_is_reported_at_the_start(engine):
    if shutil.which("readelf") is None:
        pytest.skip("needs readelf")
    flags = subprocess.run(["readelf", "-d", engine], capture_output=True, text=True, check=True).stdout
    assert "NOW" in flags


def test_a_file_beyond_the_limit_of_its_size_is_an_error(stoker):
    done = stoker("synth", "digits", "x", prefix=("prlimit", "--fsize=1000"), status=1)
    assert "the limit on file sizes" in done.err and done.err.count("\n") == 1


def test_help_marks_the_commands_that_need_a_missing_engine(alone, stoker):
    bare = subprocess.run([alone, "--help"], capture_output=True, text=True, check=True).stdout
    marked = [line.split()[0] for line in bare.splitlines() if "needs the engine" in line]
    assert marked == ["train", "eval", "predict", "export", "profile", "tune", "lr", "plan"]
    bench = subprocess.run([alone, "bench", "--help"], capture_output=True, text=True, check=True).stdout
    assert bench.count("needs the engine") == 4
    assert "needs the engine" not in stoker("--help").out


SPIN = "#!/bin/sh\necho \"${GOMP_SPINCOUNT-unset} $*\"\nexit 7\n"


@pytest.mark.parametrize(
    "given, seen",
    [({}, ["1000", "10000"]), ({"GOMP_SPINCOUNT": "77"}, ["77"]), ({"OMP_WAIT_POLICY": "passive"}, ["unset"])],
)
def test_the_engine_gets_arguments_and_a_spin(alone, tmp_path, given, seen):
    (tmp_path / "stoker-engine").write_text(SPIN)
    os.chmod(tmp_path / "stoker-engine", 0o755)
    own = {name: value for name, value in os.environ.items() if name not in ("GOMP_SPINCOUNT", "OMP_WAIT_POLICY")}
    done = subprocess.run([alone, "train", "a b", "--x=1"], capture_output=True, text=True, env=own | given)
    assert done.returncode == 7
    assert done.stdout in [f"{count} train a b --x=1\n" for count in seen]


def test_the_engine_spins_shortly_where_cores_are_wanted(alone, tmp_path):
    (tmp_path / "stoker-engine").write_text(SPIN)
    os.chmod(tmp_path / "stoker-engine", 0o755)
    own = {name: value for name, value in os.environ.items() if name not in ("GOMP_SPINCOUNT", "OMP_WAIT_POLICY")}
    hogs = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(2 * os.cpu_count())]
    try:
        time.sleep(0.2)
        done = subprocess.run([alone, "train"], capture_output=True, text=True, env=own)
    finally:
        for hog in hogs:
            hog.kill()
            hog.wait()
    assert done.stdout == "1000 train\n"


@pytest.mark.parametrize("path", sorted((ROOT / "recipes").glob("*.toml")), ids=lambda path: path.stem)
def test_recipes_come_with_the_program(stoker, path):
    assert stoker("recipe", path.stem).out == path.read_text()
    first = path.read_text().splitlines()[0].removeprefix("# ")
    assert [path.stem, first] in [line.split(None, 1) for line in stoker("recipe").out.splitlines()]
