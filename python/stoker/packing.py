"""Packs a data set into another format, as `stoker pack` does."""

import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple

from stoker import _stoker
from stoker._arguments import whole
from stoker.dataset import Dataset, joined, parts_of
from stoker.dataset import open as open_dataset
from stoker.errors import InvalidArgument

Progress = Callable[[str, int, int, int], object]


class PackResult(NamedTuple):
    """The packed data set. `path` opens it."""

    path: str
    format: str
    samples: int
    bytes_in: int
    bytes_out: int
    shards: int
    codecs: dict[str, int]  # samples by codec
    fields: list[str]
    kept: dict[str, int]  # images that are not in the requested codec, by reason
    exif_lost: int
    skipped: list[tuple[str, str]]  # key and reason of bad samples
    resumed_samples: int  # packed by an earlier run
    nothing_to_do: bool  # the data set was complete before


def pack(
    source: Dataset | Sequence[Dataset] | str | os.PathLike[str],
    target: str | os.PathLike[str],
    *,
    codec: Literal["keep", "jpeg", "dct", "dct-zstd", "dct-ans", "raw"] | None = None,
    resize_shorter: int = 0,
    quality: int = 0,
    first_frame: bool = False,
    shard_size: int = 256 << 20,
    workers: int | Literal["auto"] = "auto",
    skip_bad: bool = False,
    progress: Progress | bool = True,
) -> PackResult:
    """Writes `source` as `target`, whose ending chooses the format: .stk, .tar, x-{000000..}.tar, .lmdb, .h5, .npz.

    Order, keys, labels, pixels and fields are kept. The result is read back and verified. An interrupted packing is
    resumed by the same call. A list of data sets of the same classes is packed as one, with keys as in stoker.Loader.

    codec: of the images; None: the default of the format. "dct" decodes faster than JPEG, with the same pixels.
    resize_shorter: reduces larger images until their shorter side has this many pixels; not with masks or boxes.
    quality: encodes every image again as a JPEG of this quality, 1 to 100.
    first_frame: takes the first frame of an animation, which is a bad sample otherwise.
    shard_size: in bytes, for formats with shards.
    workers: threads; "auto": the cores that this process may use.
    skip_bad: leaves bad samples out and lists them; otherwise the first one raises DataError.
    progress: True: a bar of tqdm, where that is installed; or a function of (phase, done, total, bytes), called about
        ten times a second.

    Raises InvalidArgument for another ending, or a target inside of the source's folder, and IoError for a full disk.
    """
    dataset = _opened(source)
    target = os.fspath(target)
    for part in parts_of(dataset):
        _check_outside(Path(target), Path(part.path))
    bar = _Bar() if progress is True else None
    report = bar.update if bar is not None else progress if callable(progress) else None
    threads = None if workers == "auto" else whole("workers", workers, 1, 10)
    shard = whole("shard_size", shard_size, 1, 62)
    try:
        done = _stoker.pack(
            dataset._handle, target, codec, resize_shorter, quality, first_frame, shard, threads, skip_bad, report
        )
    finally:
        if bar is not None:
            bar.close()
    return PackResult(**done)


def _opened(source: Any) -> Dataset:
    if isinstance(source, Dataset):
        return source
    if isinstance(source, (list, tuple)) and source:
        return joined(source)
    if not isinstance(source, (str, os.PathLike)):
        expected = "a path, a URL, a data set of stoker.open or a list of these"
        raise InvalidArgument(f"[source] expected {expected}, got {type(source).__name__}")
    return open_dataset(source)


def _check_outside(target: Path, source: Path) -> None:
    folder = source.resolve()
    if source.is_dir() and folder in (target.resolve(), *target.resolve().parents):
        raise InvalidArgument(f"[{target}] expected a target outside of the data set's folder, got one in {source}")


class _Bar:
    """A bar of tqdm for each phase; nothing where tqdm is not installed."""

    def __init__(self) -> None:
        self._bar: Any = None
        self._phase = ""
        try:
            from tqdm.auto import tqdm
        except ImportError:
            tqdm = None
        self._make = tqdm

    def update(self, phase: str, done: int, total: int, _bytes: int) -> None:
        if self._make is None:
            return
        if phase != self._phase:
            self.close()
            self._phase = phase
            self._bar = self._make(total=total, desc=phase, unit="samples", file=sys.stderr)
        self._bar.update(done - self._bar.n)

    def close(self) -> None:
        if self._bar is not None:
            self._bar.close()
            self._bar = None
