"""A diagnosis in plain text, for the terminal."""

from __future__ import annotations

from collections.abc import Iterator

from dataio.bench.diagnosing import Diagnosis
from dataio.bench.operators import Tuned

#: Operators that take less than this share of the work are left out of the table.
_SMALL_SHARE = 0.005


def describe_diagnosis(diagnosis: Diagnosis) -> str:
    """Everything that a diagnosis found, as lines of text with a newline at the end."""
    return "\n".join(_lines(diagnosis)) + "\n"


def _lines(diagnosis: Diagnosis) -> Iterator[str]:
    supply = diagnosis.supply_images_per_second
    yield (
        f"{diagnosis.dataset} delivers {supply.value:,.0f} images/s ({supply.low:,.0f} to {supply.high:,.0f}) "
        f"in batches of {diagnosis.batch_size}; the first batch takes {diagnosis.first_batch_seconds:.2f} s"
    )
    yield f"limit: {diagnosis.limit}"
    if diagnosis.verdict is not None:
        yield f"verdict: {diagnosis.verdict.outcome} - {diagnosis.verdict.reason}"
    for note in diagnosis.notes:
        yield f"note: {note}"
    yield ""
    yield from _traps(diagnosis)
    yield from _operators(diagnosis)
    yield from _tuned(diagnosis.tuned)


def _traps(diagnosis: Diagnosis) -> Iterator[str]:
    if not diagnosis.traps:
        yield "no known trap in the way it is written"
        return
    yield f"{len(diagnosis.traps)} known trap{'s' if len(diagnosis.traps) > 1 else ''}:"
    for trap in diagnosis.traps:
        cost = {"wrong": "changes the data", "speed": "costs speed", "memory": "costs memory"}[trap.cost]
        yield f"  {trap.name} ({cost}), {trap.operator}"
        yield f"    {trap.finding}"
        yield f"    fix: {trap.fix}"


def _operators(diagnosis: Diagnosis) -> Iterator[str]:
    shown = [load for load in diagnosis.operators if load.share >= _SMALL_SHARE]
    if not shown:
        return
    yield ""
    yield f"{'operator':<28}{'CPU ms/image':>13}{'share':>8}{'threads':>9}{'busy':>7}{'kB/image':>11}"
    for load in shown:
        yield (
            f"{'  ' * min(load.depth - 1, 4) + load.name:<28}{load.cpu_milliseconds_per_image:>13.3f}"
            f"{100 * load.share:>6.0f} %{load.threads:>9}{100 * load.busy:>5.0f} %{load.bytes_per_image / 1e3:>11.1f}"
        )
    yield f"{diagnosis.busy_cores:.1f} of {diagnosis.cores} cores busy"


def _tuned(choices: tuple[Tuned, ...]) -> Iterator[str]:
    if not choices:
        return
    yield ""
    yield "chosen by AUTOTUNE, or fixed:"
    for choice in choices:
        steps = ", ".join(f"{value} at {when:.1f} s" for when, value in zip(choice.seconds, choice.values, strict=True))
        yield f"  {choice.operator} {choice.parameter}: {steps if len(choice.values) > 1 else choice.values[0]}"
