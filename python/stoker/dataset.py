"""Data sets of any format that Stoker reads (docs/data.md), with random access to single samples."""

import operator
import os
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Literal, NamedTuple, overload

from stoker import _stoker
from stoker._arguments import one_of, printable, whole
from stoker._program import name_pyarrow
from stoker._tables import Table, is_table, table_and_rows
from stoker.errors import InvalidArgument


class Field(NamedTuple):
    """A field that samples have in addition to image and label."""

    name: str
    kind: str  # value, label, image, mask, boxes, tokens or bytes
    dtype: str  # of its elements; uint8 for images and masks
    shape: tuple[int, ...]  # of one sample; a first side of -1 means any length; () also for images and masks


# Handles that are never freed in a forked child: that would wait for the parent's threads.
_of_parents: list[_stoker.Dataset] = []

OPEN_EACH = "write [stoker.open(p) for p in paths]"  # for messages about a list

# "mask", or the field's name in the data and its kind, if they are not those that the format chooses.
Fields = Sequence[str] | Mapping[str, str | tuple[str, str]]


class Dataset:
    """An open data set, made by stoker.open. Indexing reads and decodes; slices and lists of indices give subsets.

    A sample is a dict: "image" (uint8 (H, W, C), of clips (T, H, W, C); RGB for encoded images), "label" (-1: none), "index" (in this data
    set), "key" (the sample's stable name), and the further fields: arrays of their shape, masks as uint8 (H, W), bytes.
    Arrays are NumPy arrays.
    """

    def __init__(self, handle: _stoker.Dataset, opened: tuple[Any, ...]) -> None:
        self._own_handle = handle
        self._opened = opened  # the arguments of stoker.open, or the data sets that are joined, for pickle
        self._process = os.getpid()

    def __len__(self) -> int:
        return self._handle.size()

    @overload
    def __getitem__(self, index: int) -> dict[str, Any]: ...
    @overload
    def __getitem__(self, index: slice | Iterable[int]) -> "Dataset": ...
    def __getitem__(self, index: int | slice | Iterable[int]) -> "dict[str, Any] | Dataset":
        """The sample, or a subset. Raises IndexError, InvalidArgument for a mask, and DataError for a sample that cannot be decoded."""
        if isinstance(index, slice):
            return self._subset(range(*index.indices(len(self))))
        if isinstance(index, Iterable) and getattr(index, "ndim", 1) != 0:  # an array of no dimension is one index
            return self._subset([self._checked(i) for i in index])
        sample = self._handle.sample(self._checked(index))
        return {name: _numpy(value) for name, value in sample.items()}

    def __iter__(self) -> Iterator[dict[str, Any]]:
        return (self[i] for i in range(len(self)))

    def __repr__(self) -> str:
        fields = "".join(f", {field.name}: {field.kind}" for field in self.fields)
        return f"stoker.Dataset({self.path!r}: {len(self)} samples, {self.format}, {len(self.classes)} classes{fields})"

    def __reduce__(self) -> tuple[Any, ...]:
        return _reopen, (self._opened, self._handle.indices(), self._handle.hashes())

    @property
    def path(self) -> str:
        """The path or URL that was opened, without secrets."""
        return self._handle.path()

    @property
    def format(self) -> str:
        """The name of the format, such as "image_folder"."""
        return self._handle.format()

    @property
    def fields(self) -> list[Field]:
        """The fields other than image and label that the data set was opened with."""
        return [Field(*field) for field in self._handle.fields()]

    @property
    def stored_fields(self) -> list[Field]:
        """The fields that the data hold, asked for or not, under their names in the data. May read the files again."""
        return [Field(*field) for field in self._handle.stored_fields()]

    @property
    def classes(self) -> list[str]:
        """The names of the classes by label; empty where there are none."""
        return self._handle.classes()

    @property
    def class_to_idx(self) -> dict[str, int]:
        """The label of each class by name, as ImageFolder has it."""
        return {name: label for label, name in enumerate(self.classes)}

    @property
    def has_image(self) -> bool:
        """False for samples without an image, such as windows of a token stream."""
        return self._handle.has_image()

    def key(self, index: int) -> str:
        """The sample's stable name, such as "cat/001.jpg"."""
        return self._handle.key(self._checked(index))

    def label(self, index: int) -> int | None:
        """The sample's class index (-1: none), if it is known without reading the sample; otherwise None."""
        return self._handle.label(self._checked(index))

    def split(self, share: float) -> tuple["Dataset", "Dataset"]:
        """(rest, share of each class), by a hash of the keys: the same on every machine and in any order."""
        if isinstance(share, str) or not hasattr(share, "__float__"):
            raise InvalidArgument(f"[share] expected a number between 0 and 1, got {share!r}")
        rest, part = self._handle.split(float(share))
        return Dataset(rest, self._opened), Dataset(part, self._opened)

    @property
    def _handle(self) -> _stoker.Dataset:
        """A forked child has the parent's connections and locks, and none of its threads: it opens remote data again."""
        if self._process != os.getpid():
            parents = self._own_handle
            if "://" in parents.path():
                _of_parents.append(parents)
                self._own_handle = _reopen(self._opened, parents.indices(), parents.hashes())._own_handle
            self._process = os.getpid()
        return self._own_handle

    def _checked(self, index: Any) -> int:
        if isinstance(index, bool) or str(getattr(index, "dtype", "")).endswith("bool"):
            raise InvalidArgument(f"[{self.path}] expected indices, got truth values; numpy.flatnonzero makes indices")
        number = operator.index(index)
        size = len(self)
        if not -size <= number < size:
            raise IndexError(f"[{self.path}] expected an index from {-size} to {size - 1}, got {number}")
        return number % size

    def _subset(self, indices: Sequence[int]) -> "Dataset":
        return Dataset(self._handle.subset(list(indices)), self._opened)


def open(
    path: str | os.PathLike[str] | Any,
    *,
    split: Literal["train", "test", "validation"] = "train",
    fields: Fields = (),
    image: str = "",
    label: str = "",
    context: int = 0,
    clips: bool = False,
    labels: Any = None,
) -> Dataset:
    """Opens a data set: a folder of images, a .csv table, .npz, .h5, .lmdb, .tar, .tfrecord, .parquet, .stk, a URL, ... (docs/data.md).

    path: or a table in memory, which is used without a copy: a datasets.Dataset, a pyarrow.Table, whatever has
        __arrow_c_stream__.
    split: of data that have several, such as MNIST's files; validation and test are the same unless data have both.
    fields: further fields of each sample: names, or {name: name in the data} or {name: (name in the data, kind)}.
    image, label: the names of these fields in the data, where they are not the usual ones.
    context: the number of tokens in a sample of a token stream, which needs it; documents of any length are joined to
        rows of so many (docs/data.md).
    clips: samples are clips or volumes: arrays of three sides are (T, H, W), and each folder of images within a class is
        one. Arrays of four sides are clips also without it.
    labels: the samples of a folder of images, as a table with a row for each: a DataFrame (pandas, polars, pyarrow), a
        dict of columns, or a .csv or .parquet file. Its columns are those of a table of images (docs/data.md): paths in
        the folder, classes, and further fields; others may hold anything.

    Warns of files that are left out, such as images of another format, of files that are slow to read, and, by the first
    image of local data, of images of 16 bits, which are reduced to 8.

    Raises IoError for a missing path, DataError or Unsupported for one that holds nothing readable, and InvalidArgument
    for a field that the data do not have.
    """
    further = _field_tuples(fields)
    one_of("split", split, ("train", "test", "validation"))
    whole("context", context, 0)
    if is_table(path):
        if split != "train" or context != 0 or labels is not None:
            raise InvalidArgument("[path] expected neither split, context nor labels with a table in memory, got one")
        table, rows = table_and_rows(path)
        in_memory = (Table(table, os.getcwd(), image, label, further, clips),)
        whole_table = Dataset(_open_again(in_memory), in_memory)
        return whole_table if rows is None else whole_table._subset(rows)
    folder = _path_text(path)
    if labels is None:
        opened: tuple[Any, ...] = (folder, split, image, label, further, context, clips)
    else:
        from stoker._labels import csv_text

        if split != "train" or context != 0 or clips:
            raise InvalidArgument("[labels] expected neither split, context nor clips with a table of labels, got one")
        opened = (folder, csv_text(labels, folder, image, label, further), image, label, further)
    handle = _open_again(opened)
    if context == 0 and (advice := handle.advice()):  # of rows of documents it says how much is padding
        warnings.warn(printable(f"[{handle.path()}] {advice}"), stacklevel=2)
    return Dataset(handle, (_from_anywhere(folder), *opened[1:]))


def joined(datasets: Sequence[Dataset]) -> Dataset:
    """One data set with the samples of all, which have the same classes and fields, one data set after the other."""
    opened = tuple(datasets)
    others = [type(part).__name__ for part in opened if not isinstance(part, Dataset)]
    if others:
        got = f"{others[0]} among them"
        raise InvalidArgument(f"[source] expected data sets of stoker.open alone in a list, got {got}; {OPEN_EACH}")
    return Dataset(_open_again(opened), opened)


def parts_of(dataset: Dataset) -> list[Dataset]:
    """The data sets that are joined in it, or it alone."""
    opened = dataset._opened
    return [inner for part in opened for inner in parts_of(part)] if isinstance(opened[0], Dataset) else [dataset]


def _open_again(opened: tuple[Any, ...]) -> _stoker.Dataset:
    if isinstance(opened[0], Dataset):
        return _stoker.concat([part._handle for part in opened])
    if isinstance(opened[0], Table):
        return opened[0].open()
    name_pyarrow()
    return _stoker.open(*opened) if len(opened) == 7 else _stoker.open_table(*opened)


def _reopen(
    opened: tuple[Any, ...], indices: list[int] | None, hashes: tuple[float, float] | None = None
) -> Dataset:
    handle = _open_again(opened)
    return Dataset(handle if indices is None else handle.subset(indices, hashes), opened)


def _field_tuples(fields: Fields) -> list[tuple[str, str, str]]:
    if isinstance(fields, str) or not isinstance(fields, Iterable):
        raise InvalidArgument(f"[fields] expected a list of names or a dict, got {fields!r}")
    made = []
    for name, of in fields.items() if isinstance(fields, Mapping) else [(name, "") for name in fields]:
        parts = (of, "") if isinstance(of, str) else tuple(of) if isinstance(of, Sequence) else ()
        if len(parts) != 2 or not all(isinstance(part, str) for part in (name, *parts)):
            raise InvalidArgument(
                f"[fields] expected a name in the data or (name, kind) for each field, got {of!r} for {name!r}"
            )
        made.append((name, *parts))
    return made


def _path_text(path: Any) -> str:
    try:
        text = os.fsdecode(path)
        text.encode()
        return text
    except TypeError:
        raise InvalidArgument(f"[path] expected a path or a URL, got {type(path).__name__}") from None
    except UnicodeEncodeError:
        raise InvalidArgument(f"[path] expected a path in UTF-8, got {path!r}") from None


def _from_anywhere(path: str) -> str:
    """What names the same data from another working directory."""
    absolute = "://" in path or path.startswith("synth:") or os.path.isabs(path)
    return path if absolute else os.path.join(os.getcwd(), path)


def _numpy(value: Any) -> Any:
    """Arrays of the extension as NumPy arrays over the same memory."""
    if isinstance(value, (int, str, bytes)):
        return value
    import numpy

    return numpy.asarray(value)
