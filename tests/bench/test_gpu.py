"""GPU load, with a stand-in for NVML; copying needs a GPU and tells nothing without."""

from __future__ import annotations

import sys
import threading
import time
from types import SimpleNamespace
from typing import Any

import pytest
import tensorflow as tf

from dataio.bench import gpu, stalling
from dataio.bench.gpu import GpuLoad, host_to_device_bytes_per_second, import_nvml
from dataio.bench.recording import loop_record
from dataio.bench.stalling import measure_stall
from dataio.bench.step import SimulatedAccelerator


class FakeNvml:
    """Says 20, 60, 40 % and then, that it was read."""

    class NVMLError(Exception):
        pass

    def __init__(self, *, driver: bool = True) -> None:
        self.driver = driver
        self.percents = [40, 60, 20]
        self.all_read = threading.Event()
        self.open = 0
        self.asked: list[int | str] = []

    def nvmlInit(self) -> None:
        if not self.driver:
            raise self.NVMLError
        self.open += 1

    def nvmlShutdown(self) -> None:
        self.open -= 1

    def nvmlDeviceGetHandleByIndex(self, index: int) -> int:
        self.asked.append(index)
        return index

    def nvmlDeviceGetHandleByUUID(self, uuid: str) -> str:
        self.asked.append(uuid)
        return uuid

    def nvmlDeviceGetUtilizationRates(self, handle: int | str) -> Any:
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


@pytest.mark.parametrize(("visible", "asked"), [("", 0), ("3,1", 3), ("GPU-8f1c,GPU-22aa", "GPU-8f1c")])
def test_the_device_read_is_the_first_that_the_process_may_see(
    monkeypatch: pytest.MonkeyPatch, visible: str, asked: int | str
) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    nvml = FakeNvml()
    with GpuLoad(sample_seconds=0.001, load_nvml=lambda: nvml):
        assert nvml.all_read.wait(5)
    assert nvml.asked == [asked]


def test_the_load_of_a_gpu_that_tensorflow_does_not_use_is_not_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", FakeNvml())
    monkeypatch.setattr(tf.config, "list_logical_devices", lambda kind: [])
    assert import_nvml() is None
    monkeypatch.setattr(tf.config, "list_logical_devices", lambda kind: ["GPU:0"])
    assert isinstance(import_nvml(), FakeNvml)


class TrainedStep:
    """A step whose length only measuring tells, as a real one; it lasts until the GPU's load has been read."""

    name = "a model"
    step_seconds = None

    def __init__(self, nvml: FakeNvml) -> None:
        self._nvml = nvml

    def __call__(self, batch: Any) -> None:
        if self._nvml.open:
            assert self._nvml.all_read.wait(5)
        else:
            time.sleep(0.001)


@pytest.fixture
def nvml(monkeypatch: pytest.MonkeyPatch) -> FakeNvml:
    nvml = FakeNvml()
    monkeypatch.setattr(gpu, "import_nvml", lambda: nvml)
    monkeypatch.setattr(stalling, "host_to_device_bytes_per_second", lambda batch: 9.5e9)
    return nvml


def test_load_and_copying_rate_of_a_loop_get_into_the_results(nvml: FakeNvml) -> None:
    dataset = tf.data.Dataset.from_tensors(tf.zeros([4, 8, 8, 3], tf.uint8)).repeat(200).prefetch(2)
    samples = measure_stall(lambda: dataset, TrainedStep(nvml), batch_size=4, budget_seconds=0.5)
    loop = loop_record("autotune", "photos", samples)
    assert loop.gpu_utilisation == pytest.approx(0.4)
    assert loop.host_to_device_bytes_per_second == 9.5e9


def test_a_simulated_step_tells_no_load_because_it_leaves_the_gpu_alone(nvml: FakeNvml) -> None:
    dataset = tf.data.Dataset.from_tensors(tf.zeros([4, 8, 8, 3], tf.uint8)).repeat(200).prefetch(2)
    samples = measure_stall(lambda: dataset, SimulatedAccelerator(0.02), batch_size=4, budget_seconds=2)
    assert samples.gpu_utilisation is not None
    loop = loop_record("autotune", "photos", samples)
    assert loop.gpu_utilisation is None
    assert loop.host_to_device_bytes_per_second == 9.5e9


def test_copying_tells_a_rate_only_where_there_is_a_gpu() -> None:
    rate = host_to_device_bytes_per_second((tf.zeros([8, 64, 64, 3], tf.uint8), tf.zeros([8])), seconds=0.01)
    assert (rate is None) == (not tf.config.list_logical_devices("GPU"))
