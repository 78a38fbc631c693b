"""Several processes of one job, as launchers start them: a folder for their records, and one verdict for all."""

from __future__ import annotations

import itertools
import os
import shutil
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_PATIENCE = 20.0  # seconds that the first process of a host waits for the records of the others
_watches = itertools.count(1)  # of this process: those of one job count alike


_LAUNCHERS = (  # rank, number of processes, and rank on this host
    ("SLURM_PROCID", "SLURM_NTASKS", "SLURM_LOCALID"),
    ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK"),
    ("PALS_RANKID", "PALS_SIZE", "PALS_LOCAL_RANKID"),
)


def _number(otherwise: int, *names: str) -> int:
    """The first of the variables that holds a number."""
    texts = (os.environ.get(name, "") for name in names)
    return next((int(text) for text in texts if text.isdigit()), otherwise)


def _of_launcher(rank: int, world: int) -> int:
    """The rank on this host, of a launcher that has started these processes: their children inherit its variables."""
    for its_rank, its_world, local in _LAUNCHERS:
        if (_number(-1, its_rank), _number(-1, its_world)) == (rank, world):
            return _number(rank, local)
    return rank


def _of_group() -> tuple[int, int] | None:
    """Rank and number of processes, if the program has told torch.distributed."""
    distributed: Any = sys.modules.get("torch.distributed")
    if distributed is None or not distributed.is_available() or not distributed.is_initialized():
        return None
    return distributed.get_rank(), distributed.get_world_size()


def _job(local_rank: int) -> str:
    """The same for all processes of a job on this host, and for no others: who has started them, and when that began.

    A launcher gives each process its RANK. Without that the first process has started the others, as in Lightning, and
    may not know it yet.
    """
    launched = "RANK" in os.environ or "LOCAL_RANK" not in os.environ
    leader = os.getppid() if launched or local_rank > 0 else os.getpid()
    names = ("TORCHELASTIC_RUN_ID", "MASTER_ADDR", "MASTER_PORT") if launched else ()
    return "-".join([*(os.environ.get(name, "") for name in names), _process(leader)]).replace(os.sep, "_")


def _process(pid: int) -> str:
    """Its number and the time of its start: another one may get the number later."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()
    except OSError:
        return str(pid)
    return f"{pid}-{fields[19]}" if len(fields) > 19 else str(pid)


@dataclass(frozen=True)
class Rank:
    rank: int = 0
    world_size: int = 1
    local_rank: int = 0
    local_world_size: int = 1
    job: str = ""
    counted: bool = True  # the launcher has told how many processes are on this host

    @staticmethod
    def of_environment() -> Rank:
        """As the process group says, or before there is one the launcher."""
        local = _number(0, "LOCAL_RANK")
        rank, world = _of_group() or (
            _number(local, "RANK", "OMPI_COMM_WORLD_RANK"),
            _number(1, "WORLD_SIZE", "OMPI_COMM_WORLD_SIZE"),
        )
        if world < 2:
            return Rank(job=_process(os.getpid()))
        local = _number(_of_launcher(rank, world), "LOCAL_RANK")
        return Rank(
            rank=rank,
            world_size=world,
            local_rank=local,
            local_world_size=_number(max(1, world - (rank - local)), "LOCAL_WORLD_SIZE"),
            job=_job(local),
            counted="LOCAL_WORLD_SIZE" in os.environ,
        )

    @property
    def judges(self) -> bool:
        """Whether this process prints the verdict: the first one of each host."""
        return self.local_rank == 0

    def named(self, path: Path) -> Path:
        """A file or folder of this host, if several may share a disk: report.html -> report-rank8.html."""
        if self.local_world_size >= self.world_size:
            return path
        return path.with_name(f"{path.stem}-rank{self.rank - self.local_rank}{path.suffix}")

    def at_end(self) -> Rank:
        """As of_environment, if a process that began alone has started others since."""
        now = Rank.of_environment()
        return now if now.world_size > self.world_size and now.judges == self.judges else self


class RecordFolder:
    """The folder of the records: one that is kept, or a temporary one that the processes of this host share."""

    def __init__(self, rank: Rank, keep: Path | None) -> None:
        self.rank = rank
        self.kept = keep is not None
        self._watch = next(_watches)  # another rank may be in its next one before this one's records are read
        self._began = time.monotonic()
        if keep is not None:
            self.path = rank.named(keep.absolute())
            self.path.mkdir(parents=True, exist_ok=True)
        else:
            self.path = self._shared_folder()
        self.clocks = self.path / f"clocks-{rank.rank}"
        shutil.rmtree(self.clocks, ignore_errors=True)
        self.clocks.mkdir()
        self._done(rank.rank).unlink(missing_ok=True)

    def _shared_folder(self) -> Path:
        path = Path(tempfile.gettempdir()) / f"stoker-watch-{os.getuid()}-{self.rank.job}-{self._watch}"
        path.mkdir(mode=0o700, exist_ok=True)
        if path.is_symlink() or path.stat().st_uid != os.getuid():
            raise PermissionError(f"stoker watch: {path} belongs to another user; name a folder with --keep")
        return path

    @property
    def records(self) -> Path:
        """The lines of this rank. The first one's file gets those of the others at the end."""
        return self.path / "metrics.jsonl" if self.rank.judges else self._part(self.rank.rank)

    def _part(self, rank: int) -> Path:
        return self.path / f"rank-{rank}.{self._watch}.jsonl"

    def _done(self, rank: int) -> Path:
        return self.path / f"rank-{rank}.{self._watch}.done"

    def finish(self) -> list[str]:
        """Ends this rank's part. The first process of a host joins all records. Returns what it missed, in words."""
        shutil.rmtree(self.clocks, ignore_errors=True)
        if not self.rank.judges:
            self._done(self.rank.rank).touch()
            return []
        others = self._others()
        ends = time.monotonic()
        while any(self._is_awaited(rank, ends) for rank in others):
            time.sleep(0.05)
        missed = [
            f"rank {rank} has not ended yet; its records are incomplete"
            if self._part(rank).exists()
            else f"rank {rank} was not watched"
            for rank in others
            if not self._done(rank).exists()
        ]
        with open(self.records, "ab") as joined:
            for rank in others:
                if self._part(rank).exists():
                    joined.write(self._part(rank).read_bytes())
        for rank in others:
            self._done(rank).unlink(missing_ok=True)
            self._part(rank).unlink(missing_ok=True)
        return missed

    def _is_awaited(self, rank: int, ends: float) -> bool:
        """A rank that has not begun some time after this one did is not watched."""
        begun = self._part(rank).exists()
        until = (ends if begun else self._began) + _PATIENCE
        return not self._done(rank).exists() and time.monotonic() < until

    def _others(self) -> list[int]:
        """The others on this host: all if their number is known, else those that have begun."""
        now = self.rank.at_end()
        ranks = range(now.rank + 1, now.rank + now.local_world_size)
        return [rank for rank in ranks if now.counted or self._part(rank).exists()]

    def remove(self) -> None:
        if not self.kept and self.rank.judges:
            shutil.rmtree(self.path, ignore_errors=True)
