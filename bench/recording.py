"""From what was measured to the records of results.json."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from dataio.bench.choosing import Candidate
from dataio.bench.costs import Costs
from dataio.bench.filling import first_fill
from dataio.bench.measuring import StallSamples
from dataio.bench.predicting import Predictor
from dataio.bench.results import (
    Dataset,
    Loop,
    Prediction,
    Rate,
    Refused,
    Run,
    Skipped,
    StageCost,
    StepDescription,
)
from dataio.bench.stage_names import STAGE_WORDS
from dataio.bench.step import ACCELERATORS, Step
from dataio.data import Data
from dataio.stall import Interval


@dataclass
class Measured:
    """What was measured on one dataset."""

    name: str
    """Its name in the results."""
    data: Data
    """The dataset."""
    whole: float = 1.0
    """How many times as large the whole is, where this is a sample."""
    candidates: dict[str, Candidate] = field(default_factory=dict)
    """Every plan that was measured, baselines first."""
    baselines: set[str] = field(default_factory=set)
    """Names of the baselines."""
    chosen: str = ""
    """Name of the plan to take on this dataset."""
    predicted: dict[str, Interval] = field(default_factory=dict)
    """What had been predicted of plans before they were measured, images/s."""
    skipped: dict[str, Interval] = field(default_factory=dict)
    """Plans that their prediction ruled out."""
    refused: dict[str, str] = field(default_factory=dict)
    """Plans that cannot run here, with the reason."""
    costs: Costs | None = None
    """What the stages cost, where that was measured."""
    predictor: Predictor | None = None
    """What was learned about these data."""
    cold_images_per_second: float | None = None
    """Supply of the chosen plan with the files out of the page cache, where that was measured."""

    @property
    def best(self) -> Candidate:
        """The plan to take."""
        return self.candidates[self.chosen]


def dataset_records(measured: Sequence[Measured], split: str) -> tuple[Dataset, ...]:
    """The datasets, those marked that no other one beats in both speed and bytes a picture."""
    rates = [one.best.samples.images_per_second.value for one in measured]
    splits = [one.data.split(split) for one in measured]
    sizes = [part.bytes / part.records for part in splits]

    def beaten(position: int) -> bool:
        return any(
            rates[other] >= rates[position]
            and sizes[other] <= sizes[position]
            and (rates[other], sizes[other]) != (rates[position], sizes[position])
            for other in range(len(measured))
        )

    return tuple(
        Dataset(
            name=one.name,
            path=str(one.data.path.resolve()),
            format=one.data.format,
            encoding=one.data.encoding,
            records=splits[position].records,
            bytes=splits[position].bytes,
            fingerprint=one.data.fingerprint,
            pareto=not beaten(position),
            sample=one.whole > 1,
        )
        for position, one in enumerate(measured)
    )


def run_records(one: Measured, *, chosen: bool) -> list[Run]:
    """The runs on one dataset; `chosen` says whether its best plan is the one that was chosen of all."""
    runs = []
    for name, candidate in one.candidates.items():
        samples = candidate.samples
        rate, guess = samples.images_per_second, one.predicted.get(name)
        cached = candidate.plan.cache != "none"
        runs.append(
            Run(
                name=name,
                data=one.name,
                plan=candidate.plan,
                images_per_second=Rate(median=rate.value, low=rate.low, high=rate.high),
                state="cached" if cached else "warm",
                first_epoch_images_per_second=samples.first_epoch_images_per_second if cached else None,
                cold_images_per_second=one.cold_images_per_second if name == one.chosen else None,
                peak_memory_bytes=max(0, samples.peak_memory_bytes),
                samples=samples.round_images_per_second,
                steady=samples.steady,
                predicted=None if guess is None else _prediction(guess),
                baseline=name in one.baselines,
                chosen=chosen and name == one.chosen,
            )
        )
    return runs


def skipped_records(measured: Sequence[Measured]) -> tuple[Skipped, ...]:
    """Plans that were not worth running."""
    return tuple(
        Skipped(name=name, data=one.name, predicted=_prediction(guess))
        for one in measured
        for name, guess in one.skipped.items()
    )


def refused_records(measured: Sequence[Measured]) -> tuple[Refused, ...]:
    """Plans that cannot run here."""
    return tuple(
        Refused(name=name, data=one.name, reason=reason) for one in measured for name, reason in one.refused.items()
    )


def cost_records(costs: Costs | None) -> tuple[StageCost, ...]:
    """Cost by stage, in the order in which a picture passes them."""
    if costs is None:
        return ()
    return tuple(
        StageCost(
            stage=STAGE_WORDS[stage.stage],
            cpu_milliseconds_per_image=1000 * stage.seconds_per_image,
            bytes_per_image=stage.bytes_per_image,
            share=stage.share,
        )
        for stage in costs.stages
    )


def loop_record(name: str, data: str, samples: StallSamples) -> Loop:
    """The loop with a step that a verdict rests on."""
    return Loop(
        run=name,
        data=data,
        wait_seconds=samples.wait_seconds,
        ready=samples.ready,
        step_seconds=samples.step_seconds,
        first_fill=first_fill(samples),
        # A simulated step leaves the GPU alone: what it then does is another program's.
        gpu_utilisation=samples.gpu_utilisation if samples.known_step_seconds is None else None,
        host_to_device_bytes_per_second=samples.host_to_device_bytes_per_second,
    )


def step_record(step: Step, samples: StallSamples) -> StepDescription:
    """What consumed the batches."""
    preset = ACCELERATORS.get(step.name)
    source = preset.source if preset else "As given." if step.step_seconds else "Measured with batches ready."
    demand = samples.demand_images_per_second
    return StepDescription(
        name=step.name, step_seconds=samples.batch_size / demand, images_per_second=demand, source=source
    )


def merge(into: Measured, candidates: Mapping[str, Candidate]) -> None:
    """Adds plans that were measured, whose names must be new."""
    for name, candidate in candidates.items():
        if name in into.candidates:
            raise ValueError(f"two plans named {name!r}")
        into.candidates[name] = candidate


def _prediction(guess: Interval) -> Prediction:
    value = max(0.0, guess.value)
    return Prediction(value=value, low=max(0.0, guess.low), high=max(value, guess.high))
