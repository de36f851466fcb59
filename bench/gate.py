"""The gate: whether a bench run is worse than an earlier one, by more than the noise of both."""

from __future__ import annotations

from dataclasses import dataclass

from dataio.bench.machine import Machine
from dataio.bench.results import Results, Run
from dataio.bench.stats import ratio_interval
from dataio.errors import LimitExceeded, RecordError
from dataio.stall import Interval

#: A supply this much lower is a regression, if the whole interval of the ratio lies below: 5 %.
#: Source: own measurement: the same plan in two runs of one machine differs by 2 to 8 %, which the rounds of either run
#: alone do not show; where a run's own noise floor is higher, that counts.
LEAST_LOSS = 0.05

#: A stall is a regression when its interval lies this far above the earlier one's: two points, the error that a
#: reported stall may have.
LEAST_STALL = 0.02


@dataclass(frozen=True)
class Comparison:
    """A bench run against an earlier one."""

    supply: Interval
    """The chosen plan's images/s as a multiple of the earlier chosen plan's."""
    same_plans: float | None
    """Median of that multiple over plans of the same name, data and settings in both runs; None without any. Far from
    1: the machine itself was slower or faster, or something below all plans changed."""
    losses: tuple[str, ...]
    """What is really worse, in words; empty when nothing is."""
    notes: tuple[str, ...]
    """What limits the comparison, such as another machine."""


def compare(now: Results, before: Results, *, origin: str = "the baseline") -> Comparison:
    """Compares the chosen plan's supply and the verdict's stall with those of `before`.

    Args:
        now: this run.
        before: the earlier run.
        origin: what messages call the earlier run, usually its file.

    Raises:
        RecordError: the runs cannot be compared: another recipe, split or step.
    """
    for name, ours, theirs in (
        ("recipe", now.recipe, before.recipe),
        ("split", now.split, before.split),
        ("step", now.step and now.step.name, before.step and before.step.name),
    ):
        if ours != theirs:
            raise RecordError(
                f"{origin}: measured with another {name} ({theirs!r}, now {ours!r}): compare like with like"
            )
    supply = ratio_interval(now.chosen.samples, before.chosen.samples, in_turn=False)
    losses = []
    least = max(LEAST_LOSS, now.noise, before.noise)
    if supply.high < 1 - least:
        losses.append(
            f"the chosen plan supplies {now.chosen.images_per_second.median:,.0f} images/s, "
            f"{_less(supply)} less than {before.chosen.images_per_second.median:,.0f} in {origin}"
        )
    if now.verdict and before.verdict and now.verdict.stall.low > before.verdict.stall.high + LEAST_STALL:
        stall, earlier = now.verdict.stall, before.verdict.stall
        losses.append(
            f"the step waits {stall.value:.1%} of the time ({stall.low:.1%} to {stall.high:.1%}), "
            f"{earlier.value:.1%} in {origin}"
        )
    return Comparison(supply, _same_plans(now, before), tuple(losses), tuple(_notes(now, before, origin)))


def check_baseline(now: Results, before: Results, *, origin: str = "the baseline") -> Comparison:
    """The comparison, when nothing is worse by more than noise.

    Raises:
        LimitExceeded: something is; the message says what.
        RecordError: the runs cannot be compared.
    """
    comparison = compare(now, before, origin=origin)
    if comparison.losses:
        same = comparison.same_plans
        machine = f" (plans of both runs are {same:.2f} times as fast as then)" if same is not None else ""
        raise LimitExceeded("; ".join((*comparison.losses, *comparison.notes)) + machine)
    return comparison


def _less(supply: Interval) -> str:
    return f"{1 - supply.value:.0%} ({1 - supply.high:.0%} to {1 - supply.low:.0%})"


def _same_plans(now: Results, before: Results) -> float | None:
    ratios = []
    for run in now.runs:
        earlier = before.run(run.name, run.data)
        if earlier is not None and earlier.plan == run.plan and _median(earlier) > 0:
            ratios.append(_median(run) / _median(earlier))
    ratios.sort()
    return ratios[len(ratios) // 2] if ratios else None


def _median(run: Run) -> float:
    return run.images_per_second.median


def _hardware(machine: Machine) -> tuple[object, ...]:
    return machine.cpu, machine.cores, machine.total_memory_bytes, tuple(gpu.name for gpu in machine.gpus)


def _notes(now: Results, before: Results, origin: str) -> list[str]:
    notes = []
    if _hardware(now.machine) != _hardware(before.machine):
        notes.append(f"{origin} comes from another machine")
    ours = {data.name: data.fingerprint for data in now.datasets}
    changed = [data.name for data in before.datasets if ours.get(data.name, data.fingerprint) != data.fingerprint]
    return [*notes, *(f"{name} has changed since {origin}" for name in changed)]
