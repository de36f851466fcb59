"""What a StarvationMonitor costs a step; prints the table of docs/monitor.md.

    python -m tests.benchmarks.monitor_overhead

The same fit, or loop, over batches that are always ready, with and without a monitor, in turn. The mean time of a step
in the fastest round of either kind: what other work on the machine adds is not the monitor's. Exits 1 when a step costs
0.3 ms more, or 1 % at 30 steps/s.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import numpy as np
import tensorflow as tf

from dataio import StarvationMonitor
from tests.benchmarks.monitor_truth import BareClock
from tests.dataio.monitor.sleeping import make_model

ROUNDS = 11
MOST_SECONDS = 0.0003
MOST_SHARE = 0.01


def ready(steps: int) -> tf.data.Dataset:
    """Batches that are always ready."""
    batch = (tf.zeros([8, 4]), tf.zeros([8, 1]))
    return tf.data.Dataset.from_tensors(batch).repeat(steps).prefetch(2)


def fit(step_seconds: float, steps: int, executions: int, *, watched: bool) -> float:
    """Mean seconds of an execution in a fit."""
    model = make_model(step_seconds, steps_per_execution=executions)
    model.build((None, 4))
    clock, monitor = BareClock(), StarvationMonitor(warn=False)
    data = monitor.watch(ready(steps * executions)) if watched else ready(steps * executions)
    callbacks = [clock, monitor] if watched else [clock]
    model.fit(data, callbacks=callbacks, verbose=0)
    return float(np.mean(clock.seconds(5)))


def loop(step_seconds: float, steps: int, executions: int, *, watched: bool) -> float:
    """Mean seconds of a step in a loop of one's own."""
    data = StarvationMonitor(warn=False).watch(ready(steps)) if watched else ready(steps)
    begins = []
    for _ in data:
        begins.append(time.perf_counter())
        if step_seconds:
            time.sleep(step_seconds)
    return float(np.mean(np.diff(begins)[5:]))


CASES: list[tuple[str, Callable[..., float], float, int, int]] = [
    ("fit", fit, 0.0, 400, 1),
    ("fit at 30 steps/s", fit, 0.0325, 25, 1),
    ("fit, steps_per_execution 4", fit, 0.0, 200, 4),
    ("loop", loop, 0.0, 2000, 1),
    ("loop at 30 steps/s", loop, 0.033, 25, 1),
]


def main() -> int:
    """Prints the table; 1 when a case costs too much."""
    missed = False
    print("| training | ms a step without | with | overhead, ms | share |")
    print("|---|---|---|---|---|")
    for name, run, step_seconds, steps, executions in CASES:
        plain, monitored = [], []
        for _ in range(ROUNDS):
            plain.append(run(step_seconds, steps, executions, watched=False))
            monitored.append(run(step_seconds, steps, executions, watched=True))
        before, after = min(plain), min(monitored)
        overhead = after - before
        share = overhead / before
        print(
            f"| {name} | {1e3 * before:.3f} | {1e3 * after:.3f} | {1e3 * overhead:+.3f} | {100 * share:+.2f} % |",
            flush=True,
        )
        missed |= overhead > MOST_SECONDS or (before > 0.03 and share > MOST_SHARE)
    return int(missed)


if __name__ == "__main__":
    sys.exit(main())
