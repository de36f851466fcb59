"""What the GPU does while a step runs: how busy NVML says it is, and how fast batches reach it."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from types import TracebackType
from typing import Any, Protocol, Self

import tensorflow as tf

from dataio.bench.iterating import Clock

#: Seconds between two readings. Source: NVML's reference, nvmlUtilization_t: its own sample period is between 1/6 s and
#: 1 s, depending on the product, so that reading more often gives the same figure again.
SAMPLE_SECONDS = 0.2

#: Seconds that copying batches to the device is timed for.
COPY_SECONDS = 0.3


class Nvml(Protocol):
    """The part of nvidia-ml-py that is needed."""

    @property
    def NVMLError(self) -> type[Exception]: ...

    def nvmlInit(self) -> object: ...
    def nvmlShutdown(self) -> object: ...
    def nvmlDeviceGetHandleByIndex(self, index: int) -> Any: ...
    def nvmlDeviceGetHandleByUUID(self, uuid: str) -> Any: ...
    def nvmlDeviceGetUtilizationRates(self, handle: Any) -> Any: ...


class GpuLoad:
    """The share of time in which the first GPU ran anything while the `with` block ran.

    A GPU with one small kernel at a time counts as busy: a high value does not say that it is used well, a low one says
    that it waited.
    """

    def __init__(self, *, sample_seconds: float = SAMPLE_SECONDS, load_nvml: Callable[[], Nvml | None] | None = None):
        """
        Args:
            sample_seconds: time between two readings.
            load_nvml: gives nvidia-ml-py, or None where it is not installed or TensorFlow uses no GPU.
        """
        self._sample_seconds = sample_seconds
        self._nvml = (load_nvml or import_nvml)()
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None
        self._shares: list[float] = []

    def __enter__(self) -> Self:
        if self._nvml is not None:
            try:
                self._nvml.nvmlInit()
            except self._nvml.NVMLError:  # no NVIDIA driver on this machine
                return self
            self._thread = threading.Thread(target=self._watch, args=(self._nvml,), name="dataio-gpu", daemon=True)
            self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop.set()
        if self._thread is not None and self._nvml is not None:
            self._thread.join()
            self._nvml.nvmlShutdown()

    @property
    def utilisation(self) -> float | None:
        """Mean over the readings, in [0, 1]; None without an NVIDIA GPU or nvidia-ml-py (extra `gpu`)."""
        return sum(self._shares) / len(self._shares) if self._shares else None

    def _watch(self, nvml: Nvml) -> None:
        try:
            handle = _first_visible(nvml)
            while not self._stop.wait(self._sample_seconds):
                self._shares.append(nvml.nvmlDeviceGetUtilizationRates(handle).gpu / 100)
        except nvml.NVMLError:  # the device does not tell its utilisation (some virtual GPUs): what was read stays
            return


def host_to_device_bytes_per_second(
    batch: Any, *, seconds: float = COPY_SECONDS, clock: Clock = time.perf_counter
) -> float | None:
    """How fast the pictures of a batch go to the first GPU, bytes/s; None where TensorFlow sees no GPU.

    Args:
        batch: as the pipeline yields it, on the host; its first part counts.
        seconds: how long to copy.
        clock: seconds, monotonic.
    """
    if not tf.config.list_logical_devices("GPU"):
        return None
    pictures = tf.nest.flatten(batch)[0]
    size = int(tf.size(pictures)) * pictures.dtype.size
    copied, start = 0, clock()
    while copied == 0 or clock() - start < seconds:
        with tf.device("/GPU:0"):
            tf.identity(pictures)
        tf.test.experimental.sync_devices()
        copied += size
    return copied / (clock() - start)


def import_nvml() -> Nvml | None:
    """nvidia-ml-py; None where it is not installed (extra `gpu`), and where TensorFlow uses no GPU: what one then does
    is another program's work."""
    if not tf.config.list_logical_devices("GPU"):
        return None
    try:
        import pynvml
    except ImportError:  # comes with the extra `gpu`
        return None
    nvml: Nvml = pynvml
    return nvml


def _first_visible(nvml: Nvml) -> Any:
    """The device that TensorFlow calls GPU:0. NVML counts all devices of the machine, CUDA those that it may see.

    Source: CUDA C++ Programming Guide, environment variables: CUDA_VISIBLE_DEVICES lists numbers or UUIDs.
    """
    first = os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",")[0].strip()
    if first.startswith(("GPU-", "MIG-")):
        return nvml.nvmlDeviceGetHandleByUUID(first)
    return nvml.nvmlDeviceGetHandleByIndex(int(first) if first.isdecimal() else 0)
