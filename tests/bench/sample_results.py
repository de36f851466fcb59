"""A complete results record with invented figures, for tests of what is made out of results."""

from __future__ import annotations

import random

from dataio.bench.judging import Verdict
from dataio.bench.machine import Machine
from dataio.bench.results import (
    Bound,
    Dataset,
    Forecast,
    Loop,
    Prediction,
    Rate,
    Remedy,
    Results,
    Run,
    StageCost,
    StepDescription,
)
from dataio.bench.storage import Storage
from dataio.plan import Plan
from dataio.recipe import Recipe
from dataio.stall import Stall

PLANS = {
    "naive": (Plan(num_parallel_calls=1, prefetch=0, autotune=False), 512.0),
    "cores": (Plan(num_parallel_calls=2, cycle_length=2, prefetch=2), 931.0),
    "autotune": (Plan(), 958.0),
    "autotune_fused": (Plan(fused_decode_and_crop=True), 1404.0),
    "num_parallel_calls=2, prefetch=2": (Plan(num_parallel_calls=2, prefetch=2), 1000.0),
    "num_parallel_calls=2, prefetch=4": (Plan(num_parallel_calls=2, prefetch=4), 1031.0),
    "num_parallel_calls=4, prefetch=2": (
        Plan(num_parallel_calls=4, prefetch=2, fused_decode_and_crop=True),
        1523.0,
    ),
    "num_parallel_calls=4, prefetch=4": (
        Plan(num_parallel_calls=4, prefetch=4, fused_decode_and_crop=True),
        1490.0,
    ),
}


def sample_results(*, step: bool = True, sweep: bool = True, everything: bool = True) -> Results:
    """Results of one dataset with baselines, candidates and a chosen plan."""
    noise = random.Random(3)
    runs = []
    for name, (plan, rate) in PLANS.items():
        samples = tuple(rate * noise.gauss(1, 0.02) for _ in range(5))
        ordered = sorted(samples)
        runs.append(
            Run(
                name=name,
                data="photos-tfrecord",
                plan=plan,
                images_per_second=Rate(median=ordered[2], low=ordered[0], high=ordered[4]),
                state="warm",
                peak_memory_bytes=int(rate * 5e4),
                samples=samples,
                predicted=None
                if rate == 512.0 or not everything
                else Prediction(value=rate * noise.gauss(1, 0.04), low=rate * 0.9, high=rate * 1.1),
                baseline=name in ("naive", "cores", "autotune", "autotune_fused"),
                chosen=name == "num_parallel_calls=4, prefetch=2",
            )
        )
    before = [noise.expovariate(1 / 0.03) for _ in range(200)]
    after = [noise.choice([0, 0, 0, 0.004]) for _ in range(200)]
    return Results(
        created="2026-11-30T14:02:00+00:00",
        command="dataio bench photos-tfrecord --batch-size 64 --image-size 224 --accelerator a100-resnet50 --out bench",
        recipe=Recipe(),
        split="train",
        step=StepDescription(
            name="a100-resnet50",
            step_seconds=64 / 1200,
            images_per_second=1200.0,
            source="MLPerf Storage, resnet50 on an A100.",
        )
        if step
        else None,
        datasets=(
            Dataset(
                name="photos-tfrecord",
                path="/data/photos-tfrecord",
                format="tfrecord",
                encoding="jpeg",
                records=1800,
                bytes=162_000_000,
                fingerprint="f",
            ),
        ),
        runs=tuple(runs),
        verdict=Verdict(
            outcome="fed",
            stall=Stall(value=0.013, low=0.006, high=0.021),
            supply_images_per_second=1523,
            demand_images_per_second=1200,
            reason="the step waits 1.3 % (0.6 % to 2.1 %) of the time: the pipeline delivers 1,523 images/s",
        )
        if step
        else None,
        verdict_before=Verdict(
            outcome="starved",
            stall=Stall(value=0.36, low=0.34, high=0.39),
            supply_images_per_second=958,
            demand_images_per_second=1200,
            reason="decoding takes all 2 cores",
            advice=("use the plan chosen",),
        )
        if step
        else None,
        loops=(
            Loop(run="autotune", data="photos-tfrecord", wait_seconds=tuple(before), step_seconds=(64 / 1200,) * 200),
            Loop(
                run="num_parallel_calls=4, prefetch=2",
                data="photos-tfrecord",
                wait_seconds=tuple(after),
                step_seconds=(64 / 1200,) * 200,
            ),
        )
        if step
        else (),
        noise=0.02,
        bounds=(Bound(name="decoding", images_per_second=1650, how="2 cores times one core's rate in a bare loop."),)
        if everything
        else (),
        costs=(
            StageCost(stage="decode and crop", cpu_milliseconds_per_image=0.81, share=0.55),
            StageCost(stage="resize", cpu_milliseconds_per_image=0.31, share=0.21),
            StageCost(stage="op overhead", cpu_milliseconds_per_image=0.14, share=0.1),
            StageCost(stage="read", cpu_milliseconds_per_image=0.05, share=0.04),
        )
        if everything
        else (),
        remedies=(
            Remedy(
                title="Store the pictures at 256 px",
                images_per_second=2900,
                cost="40 MB on disk instead of 162 MB; converting takes 12 s; pixels change.",
                how="dataio convert photos photos-256 --to tfrecord --short-side 256",
            ),
        )
        if everything
        else (),
        forecasts=(
            Forecast(
                name="hdf5-raw@256",
                sample_records=300,
                bytes=390_000_000,
                conversion_seconds=14.0,
                images_per_second=Rate(median=6800, low=6500, high=7000),
                run="photos-tfrecord",
            ),
        )
        if everything
        else (),
        sweep={"num_parallel_calls": (2, 4), "prefetch": (2, 4)} if sweep else {},
        machine=Machine(
            cpu="AMD EPYC 7B13",
            cores=2,
            logical_cores=2,
            memory_bytes=24_000_000_000,
            total_memory_bytes=25_000_000_000,
            storage=(
                Storage(
                    path="/data/photos-tfrecord",
                    filesystem="ext4",
                    device="/dev/nvme0n1",
                    kind="ssd",
                    cold_bytes_per_second=2.5e8,
                    warm_bytes_per_second=3.8e9,
                    sampled_bytes=47_000_000,
                ),
            ),
            system="Linux 6.18",
            python="3.11.7",
        ),
        versions={"tensorflow": "2.21.0", "dataio-tf": "0.1.0"},
        seconds=58.0,
    )
