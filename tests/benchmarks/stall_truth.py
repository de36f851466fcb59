"""The reported stall against truth by construction; prints the tables of docs/stall-truth.md.

    python -m tests.benchmarks.stall_truth [built|thresholds|pipelines|decoding|overhead] ...

A pipeline of known rate (TensorFlow's C++ sleeper: private, exact to 2 %, free of Python's lock) feeds a step of known
length. The truth is not what was built but

    truth = 1 - T(ready batches) / T(pipeline)

the wall time of the same steps with batches that are always ready and with the pipeline, both in a bare loop that
measures nothing, in turn with the measured loop: otherwise what getting a ready batch costs, and drift, enter the truth.
Exits 1 when a case misses: error above 2 points, or a wrong outcome more than 3 points from a threshold.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import tensorflow as tf
from tensorflow.python.data.experimental.ops import testing

from dataio.bench.iterating import LivePipeline
from dataio.bench.stalling import StallSamples, measure_stall
from dataio.bench.step import SimulatedAccelerator, Step
from dataio.stall import LIMITED_FROM, STARVED_FROM, classify

Build = Callable[[], tf.data.Dataset]

#: Seconds that the sleeper takes for a batch; small ones make the loop's own costs weigh most.
PRODUCER_SECONDS = 0.020
BATCH = 16
TOLERANCE = 0.02
BORDER = 0.03
ROUNDS = 3


@dataclass(frozen=True)
class Case:
    """One pipeline, one step, and what came out."""

    name: str
    built: float
    truth: float
    samples: StallSamples
    seconds: float

    @property
    def error(self) -> float:
        return self.samples.stall.value - self.truth

    @property
    def expected(self) -> str:
        return "fed" if self.truth < LIMITED_FROM else "limited" if self.truth < STARVED_FROM else "starved"

    @property
    def near_a_threshold(self) -> bool:
        return min(abs(self.truth - LIMITED_FROM), abs(self.truth - STARVED_FROM)) <= BORDER

    @property
    def missed(self) -> bool:
        wrong = classify(self.samples.stall) != self.expected and not self.near_a_threshold
        return abs(self.error) > TOLERANCE or wrong


def sleeper(seconds: float = PRODUCER_SECONDS, *, prefetch: int = 2, batches: int = 10**6) -> tf.data.Dataset:
    """A pipeline that makes a batch every `seconds`."""
    zeros = tf.zeros([BATCH, 32, 32, 3], tf.uint8)
    slow = tf.data.Dataset.range(batches).map(lambda _: zeros).apply(testing.sleep(int(seconds * 1e6)))
    return slow.prefetch(prefetch) if prefetch else slow


def bare_seconds(build: Build, step: Step, steps: int, skipped: int) -> list[float]:
    """Wall time of each of `steps` steps in a loop that measures nothing else, after `skipped` others."""
    walls = []
    with LivePipeline(build) as live:
        live.advance()
        iterator = live.iterator
        assert iterator is not None
        before = time.perf_counter()
        for number in range(skipped + steps):
            step(next(iterator))
            after = time.perf_counter()
            if number >= skipped:
                walls.append(after - before)
            before = after
    return walls


def run_case(name: str, built: float, build: Build, step_seconds: float, *, skipped: int = 10) -> Case:
    """Measures one case in turn with its truth.

    `skipped` steps must be enough for a buffer that filled at the start to empty again.
    """
    start = time.perf_counter()
    batch = next(iter(build().take(1)))
    ready: list[float] = []
    real: list[float] = []
    steps = max(20, int(0.5 / step_seconds))
    always = lambda: tf.data.Dataset.from_tensors(batch).repeat().prefetch(2)  # noqa: E731
    samples = None
    for number in range(ROUNDS):
        ready += bare_seconds(always, SimulatedAccelerator(step_seconds), steps, 10)
        real += bare_seconds(build, SimulatedAccelerator(step_seconds), 50, skipped)
        if number == 0:
            samples = measure_stall(build, SimulatedAccelerator(step_seconds), batch_size=BATCH, budget_seconds=10)
    assert samples is not None
    truth = max(0.0, 1 - float(np.mean(ready)) / float(np.mean(real)))
    return Case(name, built, truth, samples, time.perf_counter() - start)


def step_for(stall: float, producer_seconds: float = PRODUCER_SECONDS) -> float:
    """Step time that leaves a producer the given stall; at 0 the step is a fifth slower than the producer."""
    return producer_seconds * (1 - stall) if stall else producer_seconds * 1.2


def built_cases(stalls: list[float]) -> Iterator[Case]:
    """The sleeper against steps that leave it the given stalls."""
    for stall in stalls:
        yield run_case(f"{stall:.0%} built", stall, sleeper, step_for(stall))


def pipeline_cases() -> Iterator[Case]:
    """Pipelines that tell less, or whose buffers are large or torn down often."""

    def untold() -> tf.data.Dataset:
        options = tf.data.Options()
        options.autotune.enabled = False
        return sleeper().with_options(options)

    def unbuffered() -> tf.data.Dataset:
        options = tf.data.Options()
        options.experimental_optimization.inject_prefetch = False
        return sleeper(prefetch=0).with_options(options)

    for stall in (0.0, 0.3):
        seconds = step_for(stall)
        yield run_case("buffer of 16", stall, lambda: sleeper(prefetch=16), seconds)
        yield run_case("AUTOTUNE's buffer", stall, lambda: sleeper(prefetch=tf.data.AUTOTUNE), seconds)
        yield run_case("autotuning off: state not told", stall, untold, seconds)
    # Without a prefetch the producer works only while the step waits.
    yield run_case("no prefetch at all", 1 / (1 + 0.7), unbuffered, step_for(0.3))


def decoding_cases() -> Iterator[Case]:
    """A real pipeline: photographs decoded, cut and resized, against steps that leave it 10, 50 and 80 % of stall."""
    from tests.benchmarks.photographs import decoding_pipeline

    with tempfile.TemporaryDirectory() as folder:
        build = decoding_pipeline(Path(folder), batch_size=BATCH)
        free = SimulatedAccelerator(1e-6)
        alone = float(np.mean(bare_seconds(build, free, 200, 50)))
        for stall in (0.1, 0.5, 0.8):
            yield run_case(f"decoding, {stall:.0%} aimed at", stall, build, step_for(stall, alone), skipped=40)


def overhead_rows() -> list[tuple[float, float]]:
    """(step seconds, share) for several step times: what measuring adds to a loop whose batches are always ready."""
    batch = next(iter(sleeper().take(1)))
    build = lambda: tf.data.Dataset.from_tensors(batch).repeat().prefetch(2)  # noqa: E731
    rows = []
    for step_seconds in (0.005, 0.010, 0.020, 0.035, 0.070):
        bare, measured = [], []
        for _ in range(5):
            steps = max(20, int(1.0 / step_seconds))
            bare.append(float(np.mean(bare_seconds(build, SimulatedAccelerator(step_seconds), steps, 10))))
            samples = measure_stall(
                build, SimulatedAccelerator(step_seconds), batch_size=BATCH, budget_seconds=1.5 + 80 * step_seconds
            )
            walls = np.array(samples.wait_seconds) + np.array(samples.step_seconds)
            measured.append(float(np.mean(walls)))
        rows.append((step_seconds, float(np.median(np.array(measured) / np.array(bare))) - 1))
    return rows


def table(title: str, cases: Iterator[Case]) -> list[Case]:
    """Prints the cases as a Markdown table, row by row as they are measured; returns them."""
    measured = []
    print(f"\n### {title}\n")
    print("| case | built | truth | reported | 95 % interval | error, points | outcome | steps | seconds |")
    print("|---|---|---|---|---|---|---|---|---|")
    for case in cases:
        measured.append(case)
        stall = case.samples.stall
        outcome = classify(stall)
        right = "" if outcome == case.expected else f" (truth: {case.expected})"
        print(
            f"| {case.name} | {case.built:.1%} | {case.truth:.1%} | {stall.value:.1%} | {stall.low:.1%} to "
            f"{stall.high:.1%} | {100 * case.error:+.1f} | {outcome}{right} | {case.samples.counted_steps} | "
            f"{case.seconds:.1f} |",
            flush=True,
        )
    return measured


def main(parts: list[str]) -> int:
    cases: list[Case] = []
    for part in parts or ["built", "thresholds", "pipelines", "decoding", "overhead"]:
        if part == "overhead":
            print("\n### Overhead of measuring\n\n| step | added |\n|---|---|")
            for seconds, share in overhead_rows():
                print(f"| {seconds * 1e3:g} ms | {share:+.2%} |", flush=True)
            continue
        found = {
            "built": lambda: built_cases([number / 10 for number in range(10)]),
            "thresholds": lambda: built_cases([0.02, 0.04, 0.06, 0.08, 0.17, 0.19, 0.21, 0.23]),
            "pipelines": pipeline_cases,
            "decoding": decoding_cases,
        }[part]()
        cases += table(part.capitalize(), found)
    missed = [case for case in cases if case.missed]
    for case in missed:
        print(f"missed: {case.name}: truth {case.truth:.1%}, reported {case.samples.stall}", file=sys.stderr)
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
