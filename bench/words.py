"""Figures and plans in words, for the terminal and the report alike."""

from __future__ import annotations

from collections.abc import Sequence

from dataio.bench.results import Rate, Results, Run
from dataio.plan import Plan

#: Outcome of a verdict as a sentence about the device.
OUTCOMES = {
    "fed": "The device is fed",
    "limited": "The device is limited by input",
    "starved": "The device starves",
    "inconclusive": "The measurement does not decide",
}


def rate_words(value: float) -> str:
    """A rate with a comma for thousands and no digits that the measurement does not carry: `1,430`, `38.2`."""
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def share_words(value: float) -> str:
    """A share of 1 in per cent: `0.4 %`, `37 %`."""
    percent = 100 * value
    return f"{percent:.1f} %" if percent < 9.95 else f"{percent:.0f} %"


def byte_words(value: float) -> str:
    """Bytes in decimal units: `112 kB`, `1.4 GB`."""
    for unit in ("B", "kB", "MB", "GB", "TB"):
        if abs(value) < 999.5 or unit == "TB":
            break
        value /= 1000
    return f"{value:.0f} {unit}" if value >= 99.5 or unit == "B" else f"{value:.3g} {unit}"


def time_words(seconds: float) -> str:
    """A duration that reads at a glance: `12 ms`, `42 s`, `3 min 20 s`, `5 h 10 min`."""
    if seconds < 1:
        return f"{1000 * seconds:.3g} ms"
    if seconds < 120:
        return f"{seconds:.0f} s" if seconds >= 10 else f"{seconds:.2g} s"
    whole = round(seconds)
    if whole < 7200:
        return f"{whole // 60} min {whole % 60} s"
    return f"{whole // 3600} h {whole % 3600 // 60} min"


def plan_words(plan: Plan) -> str:
    """What a plan sets apart from AUTOTUNE throughout, in its own field names: `num_parallel_calls=2, prefetch=4`."""
    default = Plan()
    parts = []
    for name in Plan.model_fields:
        value = getattr(plan, name)
        if value == getattr(default, name):
            continue
        if isinstance(value, bool):
            parts.append(name if value else f"{name}=False")
        else:
            parts.append(f"{name}={value}")
    return ", ".join(parts) or "everything left to AUTOTUNE"


#: How a plan's fields are told where there is little room.
_SHORT = (
    ("fused_decode_and_crop", "fused"),
    ("num_parallel_calls=", "calls "),
    ("cycle_length=", "readers "),
    ("block_length=", "block "),
    ("prefetch=", "prefetch "),
    ("threads=", "threads "),
    ("kernel=opencv", "opencv"),
    ("cache=memory", "cached"),
    ("cache=none", "uncached"),
    ("deterministic=False", "any order"),
    ("autotune_algorithm=stage_based", "stage_based"),
)


def short_name(name: str) -> str:
    """A run's name for a narrow column: `calls 3, prefetch 2, opencv` for what `plan_words` says in field names."""
    for long, short in _SHORT:
        name = name.replace(long, short)
    return name


def gain(run: Run, baseline: Run | None) -> float | None:
    """How many times as fast `run` is as `baseline`; None without one."""
    if baseline is None or baseline.images_per_second.median == 0:
        return None
    return run.images_per_second.median / baseline.images_per_second.median


def gain_words(run: Run, baseline: Run, noise: float) -> str:
    """The gain over a baseline, told as a tie where the two intervals overlap or the noise floor exceeds it."""
    times = gain(run, baseline)
    if run is baseline or times is None:
        return "the same plan"
    if overlap(run.images_per_second, baseline.images_per_second) or abs(times - 1) <= noise:
        return f"{times:.2f} x, within the noise"
    return f"{times:.2f} x"


def overlap(one: Rate, other: Rate) -> bool:
    """Whether two intervals share a value."""
    return one.low <= other.high and other.low <= one.high


def gains_sentence(results: Results) -> str:
    """What tuning brought over AUTOTUNE's pipeline and over the same with fused decode-and-crop, both always told.

    The second is told so that what a kernel gains is not sold as tuning.
    """
    chosen = results.chosen
    parts = []
    for name, words in (("autotune", "AUTOTUNE's guide pipeline"), ("autotune_fused", "the same with fused crop")):
        baseline = results.run(name, chosen.data)
        if baseline is not None:
            parts.append(f"{gain_words(chosen, baseline, results.noise)} against {words}")
    return "; ".join(parts)


def bound_sentence(results: Results) -> str:
    """How much of the tightest bound the plan chosen reaches; empty where no bound is known."""
    rate = results.chosen.images_per_second.median
    # A plan that keeps records or pictures in memory passes bounds of work that it no longer does; a tenth is noise.
    holding = [bound for bound in results.bounds if bound.images_per_second >= 0.9 * rate > 0]
    if not holding:
        return ""
    bound = min(holding, key=lambda bound: bound.images_per_second)
    share = rate / bound.images_per_second
    return f"It reaches {share:.0%} of the bound by {bound.name}, {rate_words(bound.images_per_second)} images/s"


def headline(results: Results) -> str:
    """The result in one sentence, for somebody who reads nothing else."""
    chosen, verdict = results.chosen, results.verdict
    supply = f"{rate_words(chosen.images_per_second.median)} images/s"
    if verdict is None:
        where = f" from {chosen.data}" if len(results.datasets) > 1 else ""
        return f"The best plan found supplies {supply}{where}."
    waits = f"waits for input {share_words(verdict.stall.value)} of its time"
    before = results.verdict_before
    if verdict.outcome == "inconclusive":
        low, high = share_words(verdict.stall.low), share_words(verdict.stall.high)
        return f"The measurement does not decide: the stall lies between {low} and {high}."
    sentence = f"{OUTCOMES[verdict.outcome]}: with the plan chosen it {waits}"
    if before is not None and before.outcome not in (verdict.outcome, "inconclusive"):
        return f"{sentence}; with AUTOTUNE's guide pipeline it waited {share_words(before.stall.value)}."
    return f"{sentence}."


def label(run: Run, runs: Sequence[Run]) -> str:
    """The run's name, with its data in front where `runs` spans several datasets."""
    return f"{run.data} · {run.name}" if len({other.data for other in runs}) > 1 else run.name
