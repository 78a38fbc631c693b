"""Several processes of one job, as torchrun starts them: a folder for their records, and one verdict for all."""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

_PATIENCE = 20.0  # seconds that the first process of a host waits for the records of the others


def _number(name: str, otherwise: int) -> int:
    text = os.environ.get(name, "")
    return int(text) if text.isdigit() else otherwise


@dataclass(frozen=True)
class Rank:
    rank: int = 0
    world_size: int = 1
    local_rank: int = 0
    local_world_size: int = 1
    job: str = ""  # the same for all processes of the job on this host

    @staticmethod
    def of_environment() -> Rank:
        world = _number("WORLD_SIZE", 1)
        if world < 2:
            return Rank()
        job = "-".join(os.environ.get(name, "") for name in ("TORCHELASTIC_RUN_ID", "MASTER_ADDR", "MASTER_PORT"))
        return Rank(
            rank=_number("RANK", 0),
            world_size=world,
            local_rank=_number("LOCAL_RANK", 0),
            local_world_size=_number("LOCAL_WORLD_SIZE", world),
            job=f"{job}-{os.getppid()}".replace(os.sep, "_"),
        )

    @property
    def judges(self) -> bool:
        """Whether this process prints the verdict: the first one of each host."""
        return self.local_rank == 0


class RecordFolder:
    """Where the records go: a folder that is kept, or a temporary one."""

    def __init__(self, rank: Rank, keep: Path | None) -> None:
        self.rank = rank
        self.kept = keep is not None
        if keep is not None:
            self.path = keep.absolute()
            self.path.mkdir(parents=True, exist_ok=True)
        elif rank.world_size == 1:
            self.path = Path(tempfile.mkdtemp(prefix="stoker-watch-"))
        else:
            self.path = self._shared_folder()
        self.clocks = self.path / f"clocks-{rank.rank}"
        shutil.rmtree(self.clocks, ignore_errors=True)
        self.clocks.mkdir()
        self._done.unlink(missing_ok=True)

    def _shared_folder(self) -> Path:
        path = Path(tempfile.gettempdir()) / f"stoker-watch-{os.getuid()}-{self.rank.job}"
        path.mkdir(mode=0o700, exist_ok=True)
        if path.is_symlink() or path.stat().st_uid != os.getuid():
            raise PermissionError(f"stoker watch: {path} belongs to another user; name a folder with --keep")
        return path

    @property
    def records(self) -> Path:
        """The lines of this rank."""
        alone = self.rank.world_size == 1
        return self.path / ("metrics.jsonl" if alone else f"rank-{self.rank.rank}.jsonl")

    @property
    def _done(self) -> Path:
        return self.path / f"rank-{self.rank.rank}.done"

    def finish(self) -> list[int]:
        """Ends this rank's part. The first process of a host joins all records, and gets the ranks that it missed."""
        shutil.rmtree(self.clocks, ignore_errors=True)
        if self.rank.world_size == 1:
            return []
        self._done.touch()
        if not self.rank.judges:
            return []
        first = self.rank.rank
        ranks = range(first, first + self.rank.local_world_size)
        until = time.monotonic() + _PATIENCE
        while not all(self._is_done(rank) for rank in ranks) and time.monotonic() < until:
            time.sleep(0.05)
        with open(self.path / "metrics.jsonl", "wb") as joined:
            for rank in ranks:
                part = self.path / f"rank-{rank}.jsonl"
                if part.exists():
                    joined.write(part.read_bytes())
        missed = [rank for rank in ranks if not self._is_done(rank)]
        for rank in ranks:
            (self.path / f"rank-{rank}.done").unlink(missing_ok=True)
            (self.path / f"rank-{rank}.jsonl").unlink(missing_ok=True)
        return missed

    def _is_done(self, rank: int) -> bool:
        return (self.path / f"rank-{rank}.done").exists()

    def remove(self) -> None:
        if not self.kept and self.rank.judges:
            shutil.rmtree(self.path, ignore_errors=True)
