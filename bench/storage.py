"""The storage under a dataset: what it is, how fast it reads cold and warm, and how to make it cold.

Source: proc(5) on /proc/mounts, the kernel's sysfs-block documentation (queue/rotational), posix_fadvise(2).
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Literal

import psutil

from dataio.records import Record

_MIB = 1 << 20

#: Filesystems whose bytes come over a network or from memory, so that no block device says what they are.
_NETWORK = {"nfs", "nfs4", "cifs", "smb3", "lustre", "beegfs", "ceph", "glusterfs", "fuse.gcsfuse", "fuse.s3fs", "9p"}
_MEMORY = {"tmpfs", "ramfs"}


class Storage(Record):
    """The place under one dataset, and how fast it gave bytes just now."""

    path: str
    """The dataset."""
    filesystem: str
    """Type of the filesystem, such as `ext4`."""
    device: str
    """What is mounted there, such as `/dev/nvme0n1p1` or `server:/export`."""
    kind: Literal["ssd", "disk", "virtual", "memory", "network", "unknown"]
    """`disk` turns. `virtual`: a hypervisor's block device, which does not say what is behind it."""
    cold_bytes_per_second: float | None
    """One sequential reader after the kernel was told to forget the files (posix_fadvise DONTNEED). None where it
    cannot be told. Far above the device's own rate: a cache below this system (hypervisor, storage server) answered."""
    warm_bytes_per_second: float | None
    """The same bytes again, from the page cache. None: there was nothing to read."""
    sampled_bytes: int
    """Bytes that each of the two figures rests on."""


def describe_storage(path: Path, *, seconds: float = 1.0, clock: Callable[[], float] = time.perf_counter) -> Storage:
    """What lies under `path`, and its read rate cold and warm over a sample of its files.

    Args:
        path: a dataset: a file, or a folder whose files are read in the order in which the folder lists them.
        seconds: most time spent reading, both passes together.
        clock: seconds, monotonic.
    """
    path = path.resolve()
    filesystem, device = _mount(path)
    files = list(_files(path, most=512, most_bytes=256 * _MIB))
    # Writing back first: the kernel forgets only pages that are clean.
    cold_possible = hasattr(os, "posix_fadvise") and filesystem not in _MEMORY and all(map(_forget, files))
    cold, cold_bytes = _read_rate(files, seconds=seconds * 0.7, clock=clock)
    warm, warm_bytes = _read_rate(files, seconds=seconds * 0.3, clock=clock, most_bytes=cold_bytes)
    return Storage(
        path=str(path),
        filesystem=filesystem,
        device=device,
        kind=_kind(filesystem, device),
        cold_bytes_per_second=cold if cold_possible and cold_bytes else None,
        warm_bytes_per_second=warm if warm_bytes else None,
        sampled_bytes=cold_bytes,
    )


def storage_kind(path: Path) -> Literal["ssd", "disk", "virtual", "memory", "network", "unknown"]:
    """`Storage.kind` of a path that need not exist yet, without reading anything."""
    return _kind(*_mount(path.resolve()))


def _files(path: Path, *, most: int | None, most_bytes: int | None) -> Iterator[Path]:
    if path.is_file():
        yield path
        return
    count, total = 0, 0
    for folder, _, names in os.walk(path):
        for name in names:
            file = Path(folder, name)
            if not (file.is_file() and os.access(file, os.R_OK)):
                continue
            if (most is not None and count >= most) or (most_bytes is not None and total >= most_bytes):
                return
            count += 1
            total += file.stat().st_size
            yield file


def forget_pages(path: Path) -> bool:
    """Drops a dataset's files from the page cache, so that the next reading is cold; whether that was possible.

    Pages that are dirty or mapped stay. On a memory filesystem nothing is ever cold.
    """
    path = path.resolve()
    if not hasattr(os, "posix_fadvise") or _mount(path)[0] in _MEMORY:
        return False
    forgotten = [_forget(file) for file in _files(path, most=None, most_bytes=None)]
    return all(forgotten)


def _forget(path: Path) -> bool:
    try:
        descriptor = os.open(path, os.O_RDONLY)
    except OSError:
        return False
    try:
        os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
    except OSError:
        return False
    finally:
        os.close(descriptor)
    return True


def _read_rate(
    files: Sequence[Path], *, seconds: float, clock: Callable[[], float], most_bytes: int | None = None
) -> tuple[float, int]:
    """(bytes per second, bytes read) of one reader that takes the files in turn until the time is up."""
    start, total = clock(), 0
    for file in files:
        with file.open("rb", buffering=0) as handle:
            while chunk := handle.read(_MIB):
                total += len(chunk)
                if clock() - start > seconds or (most_bytes is not None and total >= most_bytes):
                    break
        if clock() - start > seconds or (most_bytes is not None and total >= most_bytes):
            break
    elapsed = clock() - start
    return (total / elapsed if elapsed > 0 else 0.0), total


def _mount(path: Path) -> tuple[str, str]:
    """(filesystem, device) of the mount that holds `path`."""
    best = ("unknown", "unknown")
    longest = -1
    for partition in psutil.disk_partitions(all=True):
        mount = Path(partition.mountpoint)
        if (path == mount or mount in path.parents) and len(mount.parts) > longest:
            longest = len(mount.parts)
            best = (partition.fstype or "unknown", partition.device or "unknown")
    return best


def _kind(filesystem: str, device: str) -> Literal["ssd", "disk", "virtual", "memory", "network", "unknown"]:
    if filesystem in _NETWORK:
        return "network"
    if filesystem in _MEMORY:
        return "memory"
    name = Path(device).resolve().name
    if name.startswith(("vd", "xvd")):  # virtio and Xen set `rotational` whatever is behind them
        return "virtual"
    block = Path("/sys/class/block") / name
    for folder in (block, block.resolve().parent):  # a partition's flag stands with its disk
        try:
            return "disk" if (folder / "queue/rotational").read_text().strip() == "1" else "ssd"
        except OSError:
            continue
    return "unknown"
