"""The folder of a cache on disk: whose it is, how much may be written, and that it goes when its owner does."""

from __future__ import annotations

import atexit
import contextlib
import fcntl
import os
import resource
import shutil
import sys
import tempfile
import threading
import weakref
from pathlib import Path

from dataio.errors import DestinationError
from dataio.stages.closing import drop_iterators

#: Name of the environment variable that says where caches on disk lie.
ENVIRONMENT = "DATAIO_CACHE_DIR"

#: Share of the free disk space that a cache may take: a disk that is full stops more than the cache.
DISK_SHARE = 0.9

#: Beginning of the folders' names, by which those that a killed process left are found.
_PREFIX = "dataio-cache-"
#: File in a folder that its owner keeps locked: the kernel lets go of the lock however the owner ends.
_OWNER = "owner.lock"
#: Name of tf.data's file in the folder of one attempt to write it.
_FILE = "records"

#: Bytes that tf.data may hold back before it writes them. Source: buffer of TensorFlow's BundleWriter.
_UNWRITTEN_BYTES = 8 << 20

_REMEDY = (
    f"name a folder with more room (build(cache_dir=...), or {ENVIRONMENT} in the environment), or build without the "
    "cache: plan.replace(cache='none')"
)


def cache_parent(cache_dir: str | Path | None = None) -> Path:
    """The folder that caches on disk are made in.

    Args:
        cache_dir: a folder; None takes the environment's DATAIO_CACHE_DIR, else the system's for temporary files.
    """
    return Path(cache_dir or os.environ.get(ENVIRONMENT) or tempfile.gettempdir())


def cache_room_bytes(parent: Path) -> int:
    """Bytes that a cache in `parent` may take: `DISK_SHARE` of what is free, or of what one file may hold.

    Of a folder that does not exist yet, the nearest that does counts. Source: statvfs(3), RLIMIT_FSIZE in getrlimit(2).
    """
    existing = next((folder for folder in (parent, *parent.absolute().parents) if folder.exists()), Path("/"))
    return int(DISK_SHARE * min(shutil.disk_usage(existing).free, _largest_file()))


class CacheFolder:
    """A folder for one pipeline's cache. It is removed with this object, at the process's end, or, where that was
    killed, by the next `create` in the same place.

    tf.data's own file cache fails when a second iterator comes while the first still writes, and the second one's end
    then deletes the first one's file. Hence each iterator asks `claim` which file is its own.
    """

    def __init__(self, path: Path, descriptor: int, floor_bytes: int) -> None:
        self.path = path
        """Where it lies."""
        self.floor_bytes = floor_bytes
        """Bytes that are to stay free on the disk, and below the largest size that a file may have."""
        self._lock = threading.Lock()
        self._attempts = 0
        self._newest: Path | None = None
        end = weakref.finalize(self, _remove, path, descriptor, os.getpid())
        end.atexit = False  # in an order of its own; the hook below first ends those that may still write
        atexit.register(_remove_at_exit, end)

    @classmethod
    def create(cls, cache_dir: str | Path | None = None, *, needed_bytes: int) -> CacheFolder:
        """A new folder in `cache_dir`, after what dead processes left there is gone.

        Args:
            cache_dir: as in `cache_parent`; made when it is missing.
            needed_bytes: least bytes that the cache will take.

        Raises:
            DestinationError: the place cannot be written, or has too little room.
        """
        parent = cache_parent(cache_dir)
        try:
            parent.mkdir(parents=True, exist_ok=True)
            remove_leftovers(parent)
            room = cache_room_bytes(parent)
            if needed_bytes > room:
                free, largest = shutil.disk_usage(parent).free, _largest_file()
                limit = "that are free" if free < largest else "that a file may have (`ulimit -f`)"
                raise DestinationError(
                    f"{parent}: the cache needs {needed_bytes / 1e9:.3g} GB, and it may take {room / 1e9:.3g} GB there "
                    f"({DISK_SHARE:.0%} of the {min(free, largest) / 1e9:.3g} GB {limit}); {_REMEDY}"
                )
            path, descriptor = _own_folder(parent)
        except DestinationError:
            raise
        except OSError as error:
            raise DestinationError(
                f"{parent}: a cache on disk cannot be kept there: {error.strerror or error}; {_REMEDY}"
            ) from error
        return cls(path, descriptor, round((1 - DISK_SHARE) / DISK_SHARE * room))

    def claim(self) -> str:
        """The file that a new iterator takes: the finished one, one to write, or "" while another iterator writes.

        A writer that ends early deletes everything that begins with its file's name and `_0`, which is how `_writing`
        knows that it has gone. Source: TensorFlow's cache_dataset_ops.cc, `~FileWriterIterator`.
        """
        with self._lock:
            if self._newest is not None:
                if _marker(self._newest).exists():
                    return ""
                if _file(self._newest, ".index").exists():
                    return str(_file(self._newest))
            self._attempts += 1
            attempt = self.path / str(self._attempts)
            try:
                attempt.mkdir()
                _marker(attempt).touch()
            except OSError as error:
                raise DestinationError(
                    f"{attempt}: the cache cannot be written: {error.strerror}; {_REMEDY}"
                ) from error
            self._newest = attempt
            return str(_file(attempt))

    def check_room(self) -> None:
        """Raises DestinationError when the disk is fuller, or the file that is being written larger, than it may be."""
        free, largest = shutil.disk_usage(self.path).free, _largest_file()
        written = _UNWRITTEN_BYTES + (_written(self._newest) if self._newest is not None else 0)
        if free < self.floor_bytes:
            found = (
                f"only {free / 1e9:.3g} GB are left on the disk and {self.floor_bytes / 1e9:.3g} GB are to stay free"
            )
        elif written > largest - self.floor_bytes:
            found = f"it nears the {largest / 1e9:.3g} GB that a file may have (`ulimit -f`)"
        else:
            return
        raise DestinationError(f"{self.path}: writing the cache stopped, since {found}; {_REMEDY}")


def remove_leftovers(parent: Path) -> None:
    """Removes the folders of caches in `parent` whose owners are dead, and leaves those of the living."""
    for folder in parent.glob(f"{_PREFIX}*"):
        try:
            descriptor = os.open(folder / _OWNER, os.O_RDWR)
        except OSError:
            continue  # being made, being removed, or another user's
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            continue  # its owner lives
        else:
            shutil.rmtree(folder, ignore_errors=True)
        finally:
            os.close(descriptor)


def _own_folder(parent: Path) -> tuple[Path, int]:
    """A new folder and the descriptor that holds its lock."""
    while True:
        path = Path(tempfile.mkdtemp(prefix=_PREFIX, dir=parent)).absolute()
        descriptor = os.open(path / _OWNER, os.O_RDWR | os.O_CREAT, 0o600)
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        if (path / _OWNER).exists():
            return path, descriptor
        os.close(descriptor)  # somebody who looked for leftovers came between making and locking it


def _remove_at_exit(end: weakref.finalize[[Path, int, int], CacheFolder]) -> None:
    if end.alive:
        drop_iterators()
        end()


def _remove(path: Path, descriptor: int, owner: int) -> None:
    if os.getpid() != owner:
        return  # a forked child ends: the folder is its parent's
    shutil.rmtree(path, ignore_errors=True)
    with contextlib.suppress(OSError):
        os.close(descriptor)


def _largest_file() -> int:
    """Bytes that a file of this process may have."""
    most, _ = resource.getrlimit(resource.RLIMIT_FSIZE)
    return sys.maxsize if most == resource.RLIM_INFINITY else most


def _written(attempt: Path) -> int:
    return sum(entry.stat().st_size for entry in os.scandir(attempt))


def _file(attempt: Path, suffix: str = "") -> Path:
    return attempt / f"{_FILE}{suffix}"


def _marker(attempt: Path) -> Path:
    return _file(attempt, "_0.claimed")
