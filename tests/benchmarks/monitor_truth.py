"""StarvationMonitor in real fits and loops against truth by construction; prints the table of docs/monitor.md.

    python -m tests.benchmarks.monitor_truth [fit|starved|short|epochs|executions|mirrored|loop|decoding] ...

A pipeline of known rate (TensorFlow's C++ sleeper) feeds a model whose training step sleeps for a known time. The truth
is

    truth = 1 - T(ready batches) / T(pipeline)

the time of a step in the same fit without a monitor, once over batches that are always ready and once over the
pipeline, in turn with the monitored fit. It is taken several times; the table has its median and its range. A step that
follows a wait is itself 1 to 3 ms slower than one that does not (the threads slept, the caches and the core are cold),
which counts as stall. Exits 1 at errors above 3 points, and where the truth itself ranges over more than 6.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import keras
import numpy as np
import tensorflow as tf

from dataio import StarvationMonitor
from dataio.monitor import MonitorSummary
from tests.dataio.monitor.sleeping import make_model, make_sleeper

PRODUCER_SECONDS = 0.100
SHORT_SECONDS = 0.020
TOLERANCE = 0.03
STEPS = 100
BARE_STEPS = 30
SKIPPED = 10
ROUNDS = 3


class BareClock(keras.callbacks.Callback):  # type: ignore[misc]
    """Times at which executions began, one list an epoch, and nothing else."""

    async_safe = True

    def __init__(self) -> None:
        super().__init__()
        self.epochs: list[list[float]] = []

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        self.epochs.append([])

    def on_train_batch_begin(self, batch: int, logs: Any = None) -> None:
        self.epochs[-1].append(time.perf_counter())

    def seconds(self, skipped: int) -> list[float]:
        """Seconds of each execution, the first `skipped` of each epoch left out."""
        return [float(one) for begins in self.epochs for one in np.diff(begins)[skipped:]]


@dataclass(frozen=True)
class Case:
    """A way to train, a built stall, the truth, and what the monitor said."""

    name: str
    built: float
    truths: list[float]
    summary: MonitorSummary

    @property
    def truth(self) -> float:
        return float(np.median(self.truths))

    @property
    def error(self) -> float | None:
        return self.summary.stall.value - self.truth if self.summary.stall is not None else None


def truth_of(ready: list[float], real: list[float]) -> float:
    """The stall of steps that take `real` seconds, and `ready` over ready batches."""
    return max(0.0, 1 - float(np.mean(ready)) / float(np.mean(real)))


def step_for(stall: float, producer_seconds: float = PRODUCER_SECONDS) -> float:
    """Step time that leaves the producer the given stall; at 0 the step is a fifth slower than the producer."""
    return producer_seconds * (1 - stall) if stall else producer_seconds * 1.2


def run_fit(
    name: str,
    built: float,
    *,
    build: Callable[[int], tf.data.Dataset] = lambda batches: make_sleeper(PRODUCER_SECONDS, batches),
    step_seconds: float | None = None,
    executions: int = 1,
    epochs: int = 1,
    steps: int = STEPS,
    rounds: int = ROUNDS,
    strategy: tf.distribute.Strategy | None = None,
    **fit_options: Any,
) -> Case:
    """One case: fits over ready batches, over the pipeline, and over the watched pipeline, in turn."""
    scope = strategy or tf.distribute.get_strategy()
    truths: list[float] = []
    batch = next(iter(build(1)))
    monitor = StarvationMonitor(warn=False)

    def fit(data: tf.data.Dataset, callback: keras.callbacks.Callback, epochs: int) -> None:
        with scope.scope() if strategy is not None else tf.name_scope("plain"):
            model = make_model(step_seconds or step_for(built), steps_per_execution=executions)
        model.build((None, 4))
        model.fit(data, epochs=epochs, callbacks=[callback], verbose=0, **fit_options)

    for number in range(rounds):
        clock = BareClock()
        fit(tf.data.Dataset.from_tensors(batch).repeat(BARE_STEPS * executions).prefetch(2 * executions), clock, 1)
        ready = clock.seconds(5)
        clock = BareClock()
        fit(build(BARE_STEPS * executions), clock, 1)
        truths.append(truth_of(ready, clock.seconds(SKIPPED)))
        if number == rounds // 2:
            fit(monitor.watch(build(steps * executions)), monitor, epochs)
    return Case(name, built, truths, monitor.summary())


def fit_cases() -> Iterator[Case]:
    """fit as it is by default."""
    for stall in (0.0, 0.1, 0.2, 0.3):
        yield run_fit("fit", stall)


def starved_cases() -> Iterator[Case]:
    """The same, starved."""
    for stall in (0.5, 0.7, 0.8, 0.9):
        yield run_fit("fit", stall)


def short_cases() -> Iterator[Case]:
    """The same with batches every 20 ms, where a step slowed by its wait weighs five times as much."""
    for stall in (0.0, 0.2, 0.5, 0.9):
        yield run_fit(
            "fit, 20 ms",
            stall,
            build=lambda batches: make_sleeper(SHORT_SECONDS, batches),
            step_seconds=step_for(stall, SHORT_SECONDS),
            steps=3 * STEPS,
            rounds=7,
        )


def epoch_cases() -> Iterator[Case]:
    """Several epochs, with validation between them, and other ways to feed the same loop."""
    validation = make_sleeper(0.05, 5)
    for stall in (0.1, 0.3):
        yield run_fit("fit, 3 epochs, validation", stall, epochs=3, steps=60, validation_data=validation)
    yield run_fit("fit, prefetch 16", 0.3, build=lambda n: make_sleeper(PRODUCER_SECONDS, n, prefetch=16))
    for stall in (0.0, 0.3):
        yield run_fit("fit, autotuning off", stall, build=lambda n: make_sleeper(PRODUCER_SECONDS, n, autotune=False))


def execution_cases() -> Iterator[Case]:
    """steps_per_execution 4."""
    for stall in (0.0, 0.1, 0.3, 0.6, 0.9):
        yield run_fit(
            "fit, steps_per_execution 4",
            stall,
            executions=4,
            steps=120,
            build=lambda n: make_sleeper(SHORT_SECONDS, n),
            step_seconds=step_for(stall, SHORT_SECONDS),
        )


def mirrored_cases() -> Iterator[Case]:
    """MirroredStrategy over two logical CPUs, whose steps run one after the other: half of the time each."""
    strategy = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])
    for stall in (0.0, 0.3, 0.6):
        yield run_fit("fit, MirroredStrategy", stall, step_seconds=step_for(stall) / 2, strategy=strategy)


def loop_cases() -> Iterator[Case]:
    """A loop of one's own."""
    for stall in (0.0, 0.1, 0.3, 0.7):
        step = step_for(stall)
        batch = next(iter(make_sleeper(0.001, 1)))
        always = tf.data.Dataset.from_tensors(batch).repeat(BARE_STEPS).prefetch(2)

        def seconds(data: Any, skipped: int, step: float = step) -> list[float]:
            begins = []
            for _ in data:
                begins.append(time.perf_counter())
                time.sleep(step)
            return [float(one) for one in np.diff(begins)[skipped:]]

        monitor = StarvationMonitor(warn=False)
        truths: list[float] = []
        for number in range(ROUNDS):
            ready = seconds(always, 5)
            truths.append(truth_of(ready, seconds(make_sleeper(PRODUCER_SECONDS, BARE_STEPS), SKIPPED)))
            if number == ROUNDS // 2:
                seconds(monitor.watch(make_sleeper(PRODUCER_SECONDS, STEPS)), 0)
        yield Case("loop", stall, truths, monitor.summary())


def decoding_cases() -> Iterator[Case]:
    """A pipeline that really decodes, on one thread, against steps that sleep."""
    noise = np.random.default_rng(0).integers(0, 255, (60, 80, 3), np.uint8)
    jpeg = tf.io.encode_jpeg(np.array(tf.image.resize(noise, (375, 500)), np.uint8))

    def build(batches: int) -> tf.data.Dataset:
        pictures = (
            tf.data.Dataset.from_tensors(jpeg)
            .repeat(batches * 8)
            .map(lambda one: tf.image.resize(tf.io.decode_jpeg(one, channels=3), (224, 224)))
        )
        whole = pictures.batch(8, drop_remainder=True).map(lambda x: (x[:, 0, :4, 0], x[:, 0, 0, :1]))
        options = tf.data.Options()
        options.experimental_optimization.map_parallelization = False
        return whole.prefetch(2).with_options(options)

    start = time.perf_counter()
    for _ in build(60):
        pass
    alone = (time.perf_counter() - start) / 60
    for stall in (0.3, 0.6):
        yield run_fit("fit, decoding JPEGs", stall, build=build, step_seconds=alone * (1 - stall))


GROUPS: dict[str, Callable[[], Iterator[Case]]] = {
    "fit": fit_cases,
    "starved": starved_cases,
    "short": short_cases,
    "epochs": epoch_cases,
    "executions": execution_cases,
    "mirrored": mirrored_cases,
    "loop": loop_cases,
    "decoding": decoding_cases,
}


def main(chosen: list[str]) -> int:
    """Runs the groups asked for and prints their table; 1 when one of them misses."""
    cpu = tf.config.list_physical_devices("CPU")[0]
    tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2)
    missed = False
    print("| training | built | truth | its range | reported | interval | error, points | method |")
    print("|---|---|---|---|---|---|---|---|")
    for name in chosen or list(GROUPS):
        for case in GROUPS[name]():
            stall, error = case.summary.stall, case.error
            least, most = min(case.truths), max(case.truths)
            missed |= most - least > 2 * TOLERANCE
            if stall is None or error is None:
                shown, interval, off = "not observable", "", ""
            else:
                under = case.summary.indistinguishable
                shown = f"under {stall.high:.1%}" if under else f"{stall.value:.1%}"
                interval, off = f"{stall.low:.1%} to {stall.high:.1%}", f"{100 * error:+.1f}"
                missed |= abs(error) > TOLERANCE
            print(
                f"| {case.name} | {case.built:.0%} | {case.truth:.1%} | {least:.1%} to {most:.1%} | {shown} "
                f"| {interval} | {off} | {case.summary.method} |",
                flush=True,
            )
    return int(missed)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
