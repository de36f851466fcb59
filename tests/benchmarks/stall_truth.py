"""The reported stall against truth by construction; prints the tables of docs/stall-truth.md.

    python -m tests.benchmarks.stall_truth [built|low|high|thresholds|pipelines|decoding|overhead] ...

A pipeline of known rate (TensorFlow's C++ sleeper: private, exact to 2 %, free of Python's lock) feeds a step of known
length. The truth is not what was built but

    truth = 1 - T(ready batches) / T(pipeline)

the wall time of the same steps with batches that are always ready and with the pipeline, both in a bare loop that
measures nothing. Each round runs those two and then the measured loop, and is compared with its own truth, so that
neither what getting a ready batch costs nor drift of the machine enters it. Of the ready steps the slowest tenth is
left out: there a hiccup of the machine delays the loop, where a pipeline that is behind absorbs it. Exits 1 when a case
misses: the median error of its rounds above 2 points, or any wrong outcome more than 3 points from a threshold.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import tensorflow as tf
from tensorflow.python.data.experimental.ops import testing

import dataio
from dataio.bench.iterating import LivePipeline
from dataio.bench.stalling import measure_stall
from dataio.bench.step import SimulatedAccelerator, Step
from dataio.cli.demo_pictures import draw_pictures
from dataio.stall import LIMITED_FROM, STARVED_FROM, Stall, classify

Build = Callable[[], tf.data.Dataset]

#: Seconds that the sleeper takes for a batch: a batch of 64 at 1,600 images/s. At half of that the loop's own costs and
#: the machine's hiccups weigh twice as much.
PRODUCER_SECONDS = 0.040
BATCH = 16
DECODED_BATCH = 32
TOLERANCE = 0.02
BORDER = 0.03
ROUNDS = 2


@dataclass(frozen=True)
class Round:
    """One truth and what was reported right after it."""

    truth: float
    stall: Stall
    steps: int

    @property
    def error(self) -> float:
        return self.stall.value - self.truth

    @property
    def wrong(self) -> bool:
        right = "fed" if self.truth < LIMITED_FROM else "limited" if self.truth < STARVED_FROM else "starved"
        near = min(abs(self.truth - LIMITED_FROM), abs(self.truth - STARVED_FROM)) <= BORDER
        return classify(self.stall) not in (right, "inconclusive") and not near


@dataclass(frozen=True)
class Case:
    """One pipeline against one step, in several rounds."""

    name: str
    built: float
    rounds: tuple[Round, ...]
    seconds: float

    @property
    def error(self) -> float:
        return float(np.median([one.error for one in self.rounds]))

    @property
    def missed(self) -> bool:
        return abs(self.error) > TOLERANCE or any(one.wrong for one in self.rounds)


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


def run_case(
    name: str, built: float, build: Build, step_seconds: float, *, skipped: int = 10, budget_seconds: float = 8
) -> Case:
    """Measures one case in turn with its truth, half of which is taken before and half after.

    `skipped` steps must be enough for a buffer that filled at the start to empty again.
    """
    start = time.perf_counter()
    batch = next(iter(build().take(1)))
    steps = max(25, int(0.6 / step_seconds))
    always = lambda: tf.data.Dataset.from_tensors(batch).repeat().prefetch(2)  # noqa: E731
    rounds = []
    for _ in range(ROUNDS):
        ready, real = _bare_halves(always, build, step_seconds, steps, skipped)
        samples = measure_stall(
            build, SimulatedAccelerator(step_seconds), batch_size=BATCH, budget_seconds=budget_seconds
        )
        more_ready, more_real = _bare_halves(always, build, step_seconds, steps, skipped)
        usual = np.sort(ready + more_ready)[: -steps // 10]
        truth = 1 - float(np.mean(usual) / np.mean(real + more_real))
        rounds.append(Round(max(0.0, truth), samples.stall, samples.counted_steps))
    return Case(name, built, tuple(rounds), time.perf_counter() - start)


def _bare_halves(
    always: Build, build: Build, step_seconds: float, steps: int, skipped: int
) -> tuple[list[float], list[float]]:
    ready = bare_seconds(always, SimulatedAccelerator(step_seconds), steps // 2, 10)
    return ready, bare_seconds(build, SimulatedAccelerator(step_seconds), 40, skipped)


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
    with tempfile.TemporaryDirectory() as folder:
        draw_pictures(Path(folder), splits={"train": 640})
        data = dataio.open(folder)
        recipe = dataio.Recipe(image_size=224, batch_size=DECODED_BATCH, dtype="uint8")
        plan = dataio.Plan(num_parallel_calls=2, prefetch=0)

        def build() -> tf.data.Dataset:
            # One iterator without end: borders of epochs weigh the same in the bare loops and in the measured one.
            return dataio.build(data, recipe, plan).repeat().prefetch(2)

        free = SimulatedAccelerator(1e-6)
        alone = float(np.mean(bare_seconds(build, free, 60, 10)))
        for stall in (0.1, 0.5, 0.8):
            yield run_case(
                f"decoding, {stall:.0%} aimed at", stall, build, step_for(stall, alone), skipped=20, budget_seconds=15
            )


def overhead_rows() -> list[tuple[float, float]]:
    """(step seconds, share) for several step times: what measuring adds to a loop whose batches are always ready."""
    batch = next(iter(sleeper().take(1)))
    build = lambda: tf.data.Dataset.from_tensors(batch).repeat().prefetch(2)  # noqa: E731
    rows = []
    for step_seconds in (0.010, 0.020, 0.035, 0.070):
        bare, measured = [], []
        for _ in range(4):
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
    print("| case | built | truth | reported | interval's width | error, points | outcomes | steps |")
    print("|---|---|---|---|---|---|---|---|")
    for case in cases:
        measured.append(case)
        truths, reported = [one.truth for one in case.rounds], [one.stall.value for one in case.rounds]
        outcomes = Counter(classify(one.stall) for one in case.rounds)
        print(
            f"| {case.name} | {case.built:.0%} | {np.median(truths):.1%} | {np.median(reported):.1%} | "
            f"{100 * np.median([one.stall.width for one in case.rounds]):.1f} | {100 * case.error:+.1f} "
            f"({', '.join(f'{100 * one.error:+.1f}' for one in case.rounds)}) | "
            f"{', '.join(f'{count} {outcome}' for outcome, count in outcomes.items())} | "
            f"{np.median([one.steps for one in case.rounds]):.0f} |",
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
            "low": lambda: built_cases([0.0, 0.1, 0.2, 0.3, 0.4]),
            "high": lambda: built_cases([0.5, 0.6, 0.7, 0.8, 0.9]),
            "thresholds": lambda: built_cases([0.02, 0.08, 0.17, 0.23]),
            "pipelines": pipeline_cases,
            "decoding": decoding_cases,
        }[part]()
        cases += table(part.capitalize(), found)
    missed = [case for case in cases if case.missed]
    for case in missed:
        print(f"missed: {case.name}: {case.rounds}", file=sys.stderr)
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
