"""Exceptions of Stoker. Each message is one line: the place, the expectation, the finding and a hint."""


class Error(Exception):
    """The base class of all others; also raised directly."""


class InvalidArgument(Error, ValueError):
    """An impossible argument, or a name that the data do not have."""


class IoError(Error, OSError):
    """The operating system or a server reported a failure: a missing path, a full disk, no memory left."""


class Unsupported(Error):
    """Valid input that this version does not support."""


class DataError(Error, ValueError):
    """Data that violate their format."""

    path: str = ""
    key: str = ""
    index: int | None = None  # of the sample in its data set
    offset: int | None = None  # of the damage, in bytes


class TooManyBadSamples(DataError):
    """An epoch has more bad samples than `bad_samples` allows."""
