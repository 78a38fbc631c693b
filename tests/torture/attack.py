# One kind of attack: numbered cases. Each case survives, fails or is skipped.
import hashlib
import random
import shutil
import subprocess
import tempfile
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Callable

TIMEOUT = 300  # seconds: a command that takes longer hangs


class Failure(Exception):
    """The program did not survive the case."""


class Skipped(Exception):
    """This machine cannot run the attack."""


@dataclass
class Case:
    """The tools of a case: a random generator, an empty folder, and the folder shared by all cases."""

    number: int
    random: random.Random
    folder: Path
    shared: Path


@dataclass
class Attack:
    name: str
    means: str  # what "survived" means
    count: int
    run: Callable[[Case], None]
    prepare: Callable[[Path], None] = lambda shared: None
    threads: int = 2


@dataclass
class Outcome:
    attack: Attack
    tried: int = 0
    survived: int = 0
    skipped: str = ""
    failures: list = field(default_factory=list)  # (case number, reason)


def run_case(attack, number, seed, shared):
    folder = Path(tempfile.mkdtemp(prefix=f"torture-{attack.name}-{number}-"))
    # A text as the seed is hashed by sha512, the same in every Python.
    case = Case(number, random.Random(f"{seed}/{attack.name}/{number}"), folder, shared)
    try:
        attack.run(case)
        return None
    except Failure as failure:
        return str(failure)
    except subprocess.TimeoutExpired as hang:
        return f"did not end within {hang.timeout:.0f} s"
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def run_attack(attack, seed, only=(), progress=lambda outcome: None):
    outcome = Outcome(attack)
    numbers = only or range(attack.count)
    with tempfile.TemporaryDirectory(prefix=f"torture-{attack.name}-") as shared:
        try:
            attack.prepare(Path(shared))
        except Skipped as reason:
            outcome.skipped = str(reason)
            return outcome
        with ThreadPoolExecutor(attack.threads) as pool:
            reasons = pool.map(lambda number: run_case(attack, number, seed, Path(shared)), numbers)
            for number, reason in zip(numbers, reasons):
                outcome.tried += 1
                outcome.survived += reason is None
                if reason is not None:
                    outcome.failures.append((number, reason))
                progress(outcome)
    return outcome


def check_end(status, err, where):
    """A program may end with success, or with status 1 and a last line that says what is wrong."""
    if status == 0:
        return
    lines = err.strip().splitlines()
    if status < 0:
        raise Failure(f"{where}: ended by signal {-status}: {' / '.join(lines[-2:])}")
    if status != 1 or not lines or not lines[-1].startswith("stoker: "):
        raise Failure(f"{where}: expected success or status 1 and a line of error, got status {status}: {lines[-1:]}")


def digest(data):
    return hashlib.sha256(data).hexdigest()


def compile_c(source, to, *options):
    """Builds a C file of this folder with the system's compiler."""
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        raise Skipped("needs a C compiler on PATH")
    command = [compiler, "-O1", "-Wall", "-Werror", *options, "-o", to, Path(__file__).with_name(source)]
    subprocess.run([str(word) for word in command], check=True)
    return to
