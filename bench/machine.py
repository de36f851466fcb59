"""Describes the machine that a measurement was made on: processor, cores, memory, GPUs and the storage under the data.

Source of the storage facts: proc(5) /proc/mounts and the kernel's sysfs-block documentation (queue/rotational).
"""

from __future__ import annotations

import os
import platform
import time
from collections.abc import Callable, Iterator, Sequence
from importlib import metadata
from pathlib import Path
from typing import Literal

import psutil

from dataio.machine import cpu_model, usable_cores, usable_memory_bytes
from dataio.records import Record

_MIB = 1 << 20

#: Filesystems whose bytes come over a network or from memory, so that no block device says what they are.
_NETWORK = {"nfs", "nfs4", "cifs", "smb3", "lustre", "beegfs", "ceph", "glusterfs", "fuse.gcsfuse", "fuse.s3fs", "9p"}
_MEMORY = {"tmpfs", "ramfs"}

#: Distributions whose version can change a rate or a picture.
_PACKAGES = ("dataio-tf", "tensorflow", "numpy", "h5py", "lmdb", "pillow", "opencv-python-headless", "simplejpeg")


class Gpu(Record):
    """One accelerator that TensorFlow can use."""

    name: str
    """As the driver names it, such as `NVIDIA A100-SXM4-80GB`."""
    memory_bytes: int | None
    """Its memory; None where neither NVML nor TensorFlow tells."""


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


class Machine(Record):
    """Where a measurement was made."""

    cpu: str
    """Name of the processor."""
    cores: int
    """Cores this process may keep busy, by affinity and cgroup quota."""
    logical_cores: int
    """Cores that the machine has, hyper-threads counted."""
    memory_bytes: int
    """Memory that this process could still take when it was asked (MemAvailable and cgroup limit)."""
    total_memory_bytes: int
    """Memory that the machine has."""
    gpus: tuple[Gpu, ...] = ()
    """Accelerators that TensorFlow sees; empty: everything ran on the processor."""
    storage: tuple[Storage, ...] = ()
    """One entry a dataset measured."""
    system: str
    """Operating system and kernel."""
    python: str
    """Python's version."""


def describe_machine(paths: Sequence[Path] = (), *, storage_seconds: float = 1.0, gpus: bool = True) -> Machine:
    """What this process runs on.

    Args:
        paths: datasets whose storage to describe and to read from.
        storage_seconds: at most this long is spent reading from each dataset, cold and warm together.
        gpus: whether to ask TensorFlow for accelerators, which imports it.
    """
    return Machine(
        cpu=cpu_model(),
        cores=usable_cores(),
        logical_cores=os.cpu_count() or 1,
        memory_bytes=usable_memory_bytes(),
        total_memory_bytes=int(psutil.virtual_memory().total),
        gpus=find_gpus() if gpus else (),
        storage=tuple(describe_storage(path, seconds=storage_seconds) for path in paths),
        system=f"{platform.system()} {platform.release()}",
        python=platform.python_version(),
    )


def versions() -> dict[str, str]:
    """Installed versions of the packages that a figure may depend on; packages that are absent are left out."""
    found = {}
    for package in _PACKAGES:
        try:
            found[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            continue  # optional, or a checkout that was never installed
    if "dataio-tf" not in found:
        from dataio import __version__

        found["dataio-tf"] = __version__
    return found


def find_gpus() -> tuple[Gpu, ...]:
    """The GPUs that TensorFlow sees, with names and memory from NVML where nvidia-ml-py is installed."""
    import tensorflow as tf

    devices = tf.config.list_physical_devices("GPU")
    if not devices:
        return ()
    from_driver = _nvml_gpus()
    if len(from_driver) == len(devices):
        return from_driver
    # CUDA_VISIBLE_DEVICES hides some from TensorFlow: its own names are right, NVML's order is not.
    details = [tf.config.experimental.get_device_details(device) for device in devices]
    return tuple(Gpu(name=str(detail.get("device_name", "GPU")), memory_bytes=None) for detail in details)


def _nvml_gpus() -> tuple[Gpu, ...]:
    try:
        import pynvml
    except ImportError:  # comes with the extra `gpu`
        return ()
    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError:  # no driver on this machine
        return ()
    try:
        handles = [pynvml.nvmlDeviceGetHandleByIndex(number) for number in range(pynvml.nvmlDeviceGetCount())]
        return tuple(
            Gpu(
                name=str(pynvml.nvmlDeviceGetName(handle)),
                memory_bytes=int(pynvml.nvmlDeviceGetMemoryInfo(handle).total),
            )
            for handle in handles
        )
    finally:
        pynvml.nvmlShutdown()


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


def _files(path: Path, *, most: int, most_bytes: int) -> Iterator[Path]:
    if path.is_file():
        yield path
        return
    count, total = 0, 0
    for folder, _, names in os.walk(path):
        for name in names:
            file = Path(folder, name)
            if not (file.is_file() and os.access(file, os.R_OK)):
                continue
            if count >= most or total >= most_bytes:
                return
            count += 1
            total += file.stat().st_size
            yield file


def _forget(path: Path) -> bool:
    """Tells the kernel to drop the file's pages; whether it took the advice."""
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
