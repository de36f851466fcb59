"""What keeps uncached plans below the bound: one core's bare loop in one and two processes, in threads, and pipelines.

    python -m tests.benchmarks.reach DATA [--fused]

images/s of the same work (recipe: 224, random-resized crop, flip, batch 64, uint8; OpenCV), all in turn. What two
processes reach together is what two cores can do without sharing an interpreter. Takes a minute and a half on 2 cores.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import dataio
from dataio import Plan, Recipe
from dataio.bench.bare import Sample, bare_seconds, take_sample
from dataio.bench.supply import LiveSupply
from dataio.machine import usable_cores

RECIPE = Recipe(image_size=224, batch_size=64, dtype="uint8")
ROUNDS = 7
ROUND_SECONDS = 1.0


def loop(sample: Sample, *, fused: bool) -> float:
    """images/s of one thread: passes over the sample until a round is over."""
    passes, start = 0, time.perf_counter()
    while time.perf_counter() < start + ROUND_SECONDS:
        bare_seconds(sample, RECIPE, fused=fused, seconds=0)  # two passes
        passes += 2
    return passes * len(sample.index) / (time.perf_counter() - start)


def in_threads(sample: Sample, count: int, *, fused: bool) -> float:
    """images/s of `count` loops side by side in this process."""
    rates: list[float] = []
    threads = [threading.Thread(target=lambda: rates.append(loop(sample, fused=fused))) for _ in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return sum(rates)


def in_processes(children: list[subprocess.Popen[str]]) -> float:
    """images/s of a loop in each of `children` at once."""
    for child in children:
        assert child.stdin is not None
        child.stdin.write("\n")
        child.stdin.flush()
    return sum(float(child.stdout.readline()) for child in children if child.stdout is not None)


def serve(sample: Sample, *, fused: bool) -> None:
    """A child: a round for every line that comes in."""
    loop(sample, fused=fused)
    print("ready", flush=True)
    for _ in sys.stdin:
        print(loop(sample, fused=fused), flush=True)


def measure(path: Path, *, fused: bool) -> dict[str, list[float]]:
    """images/s of every round, by what ran."""
    data, cores = dataio.open(path), usable_cores()
    sample = take_sample(data, split="train")
    command = [sys.executable, "-m", "tests.benchmarks.reach", str(path), "--child", *(["--fused"] if fused else [])]
    children = [
        subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) for _ in range(cores)
    ]
    try:
        for child in children:
            assert child.stdout is not None and child.stdout.readline() == "ready\n"
        ways: dict[str, Callable[[], float]] = {
            "1 process": lambda: in_processes(children[:1]),
            f"{cores} processes": lambda: in_processes(children),
            "1 thread": lambda: in_threads(sample, 1, fused=fused),
            f"{cores} threads": lambda: in_threads(sample, cores, fused=fused),
        }
        rates: dict[str, list[float]] = {name: [] for name in ways}
        plan = Plan(prefetch=2, kernel="opencv", fused_decode_and_crop=fused)
        with LiveSupply(batch_size=RECIPE.batch_size, warm_up_seconds=1.6) as live:
            pipelines = {f"pipeline, calls {calls}": calls for calls in (1, cores, cores + 1)}
            for name, calls in pipelines.items():
                live.add(name, lambda calls=calls: dataio.build(data, RECIPE, plan.replace(num_parallel_calls=calls)))  # type: ignore[misc]
            for _ in range(ROUNDS):
                for name, run in ways.items():
                    time.sleep(0.5)  # the pipeline that was read last fills its buffers
                    rates[name].append(run())
                for name in pipelines:
                    live.run_round(name, ROUND_SECONDS)
            for name in pipelines:
                rates[name] = list(live.samples(name, latest=ROUNDS).round_images_per_second)
    finally:
        for child in children:
            child.communicate()
    rates["bound: best pass x cores"] = [cores / bare_seconds(sample, RECIPE, fused=fused, seconds=1.0)]
    return rates


def main() -> None:
    """Runs the benchmark and prints its table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("--fused", action="store_true")
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.child:
        serve(take_sample(dataio.open(arguments.data), split="train"), fused=arguments.fused)
        return
    print("| | images/s | lowest to highest |\n|---|---|---|")
    for name, rates in measure(arguments.data, fused=arguments.fused).items():
        print(f"| {name} | {statistics.median(rates):,.0f} | {min(rates):,.0f} to {max(rates):,.0f} |")


if __name__ == "__main__":
    main()
