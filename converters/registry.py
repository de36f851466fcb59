"""All formats: which there are, and which of them lies at a path."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import cast

from dataio.converters.format import Format, WritableFormat
from dataio.converters.manifest import MANIFEST, WORK_FOLDER, Manifest
from dataio.data import Data
from dataio.errors import DataNotFound

#: Module and class of every format, in the order in which a path is shown to them. The plain folder is last: it would
#: take nearly anything.
_FORMATS = {
    "tfrecord": ("dataio.converters.formats.tfrecord", "TFRecordFormat"),
    "hdf5": ("dataio.converters.formats.hdf5", "HDF5Format"),
    "lmdb": ("dataio.converters.formats.lmdb", "LMDBFormat"),
    "tfds": ("dataio.converters.formats.tfds", "TfdsFormat"),
    "folder": ("dataio.converters.formats.folder", "FolderFormat"),
}

#: Formats that `dataio convert` writes.
WRITABLE = ("tfrecord", "hdf5", "lmdb")

#: All formats.
FORMATS = tuple(_FORMATS)


def get_format(name: str) -> Format:
    """The format called `name`; its module is imported now.

    Raises:
        DataNotFound: there is none of that name.
    """
    if name not in _FORMATS:
        raise DataNotFound(f"no format named {name!r}; there are: {', '.join(_FORMATS)}")
    module, kind = _FORMATS[name]
    return cast(Format, getattr(import_module(module), kind)())


def get_writable_format(name: str) -> WritableFormat:
    """The format called `name`, which must be one that dataio writes.

    Raises:
        DataNotFound: there is none of that name, or it is only read.
    """
    if name not in WRITABLE:
        raise DataNotFound(f"no format named {name!r} can be written; there are: {', '.join(WRITABLE)}")
    return cast(WritableFormat, get_format(name))


def open_data(path: Path) -> Data:
    """The dataset at `path`, whatever its format.

    Raises:
        DataNotFound: nothing is there, or nothing that any format knows.
        DataDamaged: a dataset whose manifest or files are broken.
    """
    check_exists(path)
    return find_format(path).open(path)


def check_exists(path: Path) -> None:
    """Raises DataNotFound where nothing lies at `path` or where that cannot be learnt, and says why."""
    try:
        path.stat()
    except (FileNotFoundError, NotADirectoryError):
        raise DataNotFound(f"{path}: nothing is there") from None
    except OSError as problem:
        raise DataNotFound(f"{path}: cannot be read: {problem.strerror}") from None


def find_format(path: Path) -> Format:
    """The format of what lies at `path`.

    Raises:
        DataNotFound: no format knows it.
        DataDamaged: a manifest is there and broken.
    """
    if (path / MANIFEST).exists():
        return get_format(Manifest.open(path).format)
    if (path / WORK_FOLDER).is_dir():
        raise DataNotFound(
            f"{path}: an unfinished conversion; repeat its command to finish it, or add --overwrite to start anew"
        )
    for name in FORMATS:
        if name not in WRITABLE and get_format(name).recognises(path):
            return get_format(name)
    raise DataNotFound(
        f"{path}: neither a converted dataset ({MANIFEST}), nor a TFDS folder (dataset_info.json), "
        "nor a folder of pictures"
    )
