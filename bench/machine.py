"""The machine that a measurement was made on: processor, cores, memory, GPUs and the storage under the data."""

from __future__ import annotations

import os
import platform
from collections.abc import Sequence
from importlib import metadata
from pathlib import Path

import psutil

from dataio.bench.storage import Storage, describe_storage
from dataio.machine import cpu_model, usable_cores, usable_memory_bytes
from dataio.records import Record

#: Distributions whose version can change a rate or a picture.
_PACKAGES = ("dataio-tf", "tensorflow", "numpy", "h5py", "lmdb", "pillow", "opencv-python-headless", "simplejpeg")


class Gpu(Record):
    """One accelerator that TensorFlow can use."""

    name: str
    """As the driver names it, such as `NVIDIA A100-SXM4-80GB`."""
    memory_bytes: int | None
    """Its memory; None where neither NVML nor TensorFlow tells."""


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
