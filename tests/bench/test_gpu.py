"""GPU load, with a stand-in for NVML; copying needs a GPU and tells nothing without."""

from __future__ import annotations

import threading
from types import SimpleNamespace
from typing import Any

import pytest
import tensorflow as tf

from dataio.bench.gpu import GpuLoad, host_to_device_bytes_per_second


class FakeNvml:
    """Says 20, 60, 40 % and then, that it was read."""

    class NVMLError(Exception):
        pass

    def __init__(self, *, driver: bool = True) -> None:
        self.driver = driver
        self.percents = [40, 60, 20]
        self.all_read = threading.Event()
        self.open = 0

    def nvmlInit(self) -> None:
        if not self.driver:
            raise self.NVMLError
        self.open += 1

    def nvmlShutdown(self) -> None:
        self.open -= 1

    def nvmlDeviceGetHandleByIndex(self, index: int) -> int:
        return index

    def nvmlDeviceGetUtilizationRates(self, handle: int) -> Any:
        if not self.percents:
            self.all_read.set()
            raise self.NVMLError
        return SimpleNamespace(gpu=self.percents.pop())


def test_the_utilisation_is_the_mean_of_the_readings() -> None:
    nvml = FakeNvml()
    with GpuLoad(sample_seconds=0.001, load_nvml=lambda: nvml) as load:
        assert nvml.all_read.wait(5)
    assert load.utilisation == pytest.approx(0.4)
    assert nvml.open == 0


@pytest.mark.parametrize("nvml", [None, FakeNvml(driver=False)])
def test_without_nvml_or_driver_nothing_is_told(nvml: FakeNvml | None) -> None:
    with GpuLoad(sample_seconds=0.001, load_nvml=lambda: nvml) as load:
        pass
    assert load.utilisation is None


def test_readings_end_when_the_block_raises() -> None:
    nvml = FakeNvml()
    with pytest.raises(ZeroDivisionError), GpuLoad(sample_seconds=0.001, load_nvml=lambda: nvml):
        raise ZeroDivisionError
    assert nvml.open == 0
    assert "dataio-gpu" not in {thread.name for thread in threading.enumerate()}


def test_copying_tells_a_rate_only_where_there_is_a_gpu() -> None:
    rate = host_to_device_bytes_per_second((tf.zeros([8, 64, 64, 3], tf.uint8), tf.zeros([8])), seconds=0.01)
    assert (rate is None) == (not tf.config.list_logical_devices("GPU"))
