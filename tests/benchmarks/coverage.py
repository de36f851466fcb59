"""Whether the stall's interval holds the truth: simulated loops, coverage and error by window; for docs/stall-truth.md.

    python -m tests.benchmarks.coverage [fixed|growing] ...

A producer of random service time (gamma, coefficient of variation 0.3) fills a buffer that a step of constant length
empties. The truth is the stall of a very long run. `fixed`: windows of given length. `growing`: the procedure of
`measure_stall`, which looks again and again and stops when the interval is narrow enough. Exits 1 when an interval with
a known buffer holds the truth in less than 90 % of the windows, or a wrong outcome comes out in more than 2 % of the
windows more than 3 points from a threshold.
"""

from __future__ import annotations

import heapq
import sys
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from dataio.bench.stopping import LOOK_CONFIDENCE, StoppingRule
from dataio.stall import LIMITED_FROM, STARVED_FROM, Stall, classify, estimate_stall

Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]

VARIATION = 0.3
WINDOWS = 300
LONG_RUN = 200_000


@dataclass(frozen=True)
class Loop:
    """A simulated loop; the unit of time is the step."""

    waits: Floats
    ready: Integers
    """Batches ready when each step asked."""


def simulate(steps: int, *, load: float, buffer: int, workers: int, seed: int) -> Loop:
    """A loop of `steps` steps of length 1.

    Args:
        steps: how many, after 500 that are left out.
        load: mean time between batches that the producer could keep up, in steps; above 1 the step must wait.
        buffer: finished batches that it holds at most.
        workers: batches made at the same time, delivered in order.
        seed: of the service times.
    """
    skipped = 500
    total = skipped + steps + 1
    shape = 1 / VARIATION**2
    service = np.random.default_rng(seed).gamma(shape, load * workers / shape, total).tolist()
    free = [0.0] * workers
    delivered: list[float] = []
    taken: list[float] = []
    waits: list[float] = []
    now = last = 0.0
    for number in range(total):
        room = number - buffer - (workers - 1)  # a worker begins when what it makes will find a place
        begin = max(heapq.heappop(free), taken[room] if room >= 0 else 0.0)
        end = begin + service[number]
        heapq.heappush(free, end)
        last = max(end, last, taken[number - buffer] if number >= buffer else 0.0)
        delivered.append(last)
        wait = max(0.0, last - now)
        waits.append(wait)
        taken.append(now + wait)
        now += wait + 1.0
    asked = np.array(taken) - np.array(waits)
    ready = np.searchsorted(np.array(delivered), asked, side="right") - np.arange(total)
    return Loop(np.array(waits)[skipped:-1], ready[skipped:])


def fixed_window(loop: Loop, start: int, steps: int, *, told: bool, buffer: int, confidence: float = 0.95) -> Stall:
    """The stall estimated from `steps` steps; `told`: with the buffer's state."""
    ready = loop.ready[start : start + steps + 1].astype(np.float64)
    return estimate_stall(
        loop.waits[start : start + steps],
        np.ones(steps),
        drained_batches=ready[:-1] - ready[1:] if told else None,
        buffer_batches=buffer,
        confidence=confidence,
        resamples=400,
    )


def growing_window(loop: Loop, start: int, most: int, *, told: bool, buffer: int) -> Stall:
    """The stall as `measure_stall` would report it, with a budget of `most` steps."""
    rule = StoppingRule()
    for steps in range(most + 1):
        if rule.is_due(steps) or steps == most:
            stall = fixed_window(loop, start, steps, told=told, buffer=buffer, confidence=LOOK_CONFIDENCE)
            if rule.is_enough(stall, steps):
                break
    return stall


def share(loop: Loop) -> float:
    return float(loop.waits.sum() / (loop.waits.sum() + len(loop.waits)))


def main(parts: list[str]) -> int:
    bad = 0
    for part in parts or ["fixed", "growing"]:
        print(f"\n### {part.capitalize()} windows\n")
        print("| buffer, workers | true stall | steps | told: coverage | error, sd | width | wrong outcomes | ", end="")
        print("not told: coverage | width |\n|---|---|---|---|---|---|---|---|---|")
        for buffer, workers in ((2, 1), (16, 1), (4, 4)):
            for load in (0.9, 1.0, 1.03, 1.06, 1.11, 1.25, 2.0, 10.0):
                truth = share(simulate(LONG_RUN, load=load, buffer=buffer, workers=workers, seed=1))
                near = min(abs(truth - LIMITED_FROM), abs(truth - STARVED_FROM)) <= 0.03
                right = "fed" if truth < LIMITED_FROM else "limited" if truth < STARVED_FROM else "starved"
                for steps in (60, 100, 200, 800) if part == "fixed" else (1500,):
                    loop = simulate(WINDOWS * steps, load=load, buffer=buffer, workers=workers, seed=2)
                    columns = []
                    for told in (True, False):
                        window = fixed_window if part == "fixed" else growing_window
                        stalls = [
                            window(loop, number * steps, steps, told=told, buffer=buffer) for number in range(WINDOWS)
                        ]
                        covered = np.mean([stall.low <= truth <= stall.high for stall in stalls])
                        error = np.std([stall.value - truth for stall in stalls])
                        width = np.mean([stall.width for stall in stalls])
                        wrong = np.mean([classify(stall) not in (right, "inconclusive") for stall in stalls])
                        columns.append((covered, error, width, wrong))
                    (covered, error, width, wrong), (untold, _, wide, _) = columns
                    shown = "near a threshold" if near else f"{wrong:.1%}"
                    bad += covered < 0.90 or (wrong > 0.02 and not near)
                    print(
                        f"| {buffer}, {workers} | {truth:.1%} | {steps} | {covered:.0%} | {100 * error:.1f} | "
                        f"{100 * width:.1f} | {shown} | {untold:.0%} | {100 * wide:.1f} |",
                        flush=True,
                    )
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
