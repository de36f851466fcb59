"""Figures and plans in words, for the terminal and the report alike."""

from __future__ import annotations

import math
from collections.abc import Sequence

from dataio.bench.filling import FirstFill
from dataio.bench.gains import Gain, gain
from dataio.bench.judging import Verdict
from dataio.bench.results import Loop, Results, Run
from dataio.plan import Plan
from dataio.stall import LIMITED_FROM

#: Outcome of a verdict as a sentence about the device.
OUTCOMES = {
    "fed": "The device is fed",
    "limited": "The device is limited by input",
    "starved": "The device starves",
    "inconclusive": "The measurement does not decide",
}

#: Share of an epoch's time from which on what lies between two epochs is told beside the stall, which leaves it out.
#: Source: the line from which a stall makes a step `limited`.
TOLD_FILL = LIMITED_FROM

#: The end of an epoch is told from this share of the gap between two epochs on, and from this many seconds: below, it
#: is what any iterator takes to go. Source: autotuning's thread sleeps 10 ms at least.
TOLD_END, TOLD_END_SECONDS = 0.1, 0.01

#: Why ends of epochs are long, and what helps: for a plan of ours, and for a pipeline that somebody else built.
_HELD_UP = "TensorFlow's autotuning thread holds up the end of epochs now and then"
HELD_UP_PLAN = (
    f"{_HELD_UP}; a plan with autotune=False and fixed num_parallel_calls, cycle_length and prefetch is not held up"
)
HELD_UP_PIPELINE = (
    f"{_HELD_UP}; with options.autotune.enabled = False, and numbers in place of every tf.data.AUTOTUNE, it does not"
)

#: The baselines that a gain is told over, by the name of their run.
BASELINES = {
    "autotune": "the pipeline of TensorFlow's guide (all AUTOTUNE)",
    "autotune_fused": "that pipeline with decode and crop in one op",
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
    ("cache=disk", "cached on disk"),
    ("cache=decoded_disk", "decoded on disk"),
    ("cache=none", "uncached"),
    ("deterministic=False", "any order"),
    ("autotune_algorithm=stage_based", "stage_based"),
)


def short_name(name: str) -> str:
    """A run's name for a narrow column: `calls 3, prefetch 2, opencv` for what `plan_words` says in field names."""
    for long, short in _SHORT:
        name = name.replace(long, short)
    return name


def ratio_words(gain: Gain) -> str:
    """A gain's interval: `1.05 to 1.40`, or `0.70 or more` where it has no upper end."""
    low, high = (f"{value:.2f}" if value < 10 else f"{value:,.0f}" for value in (gain.low, gain.high))
    return f"{low} or more" if gain.high == math.inf else f"{low} to {high}"


def gain_words(run: Run, baseline: Run, noise: float) -> str:
    """The gain over a baseline with its interval, told as a tie where it is within the noise."""
    times = gain(run, baseline, noise=noise)
    if run is baseline or times is None:
        return "the same plan"
    tie = ", within the noise," if times.is_noise else ""
    return f"{times.value:.2f} x ({ratio_words(times)}){tie}"


def gains_sentence(results: Results) -> str:
    """What tuning brought over AUTOTUNE's pipeline and over the same with fused decode-and-crop, both always told.

    The second is told so that what a kernel gains is not sold as tuning.
    """
    chosen = results.chosen
    parts = []
    for name, words in BASELINES.items():
        baseline = results.run(name, chosen.data)
        if baseline is not None:
            told = gain_words(chosen, baseline, results.noise)
            parts.append(f"{told} as {words}" if baseline is chosen else f"{told} against {words}")
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
    return (
        f"It reaches {share_words(share)} of the bound by {bound.name}, {rate_words(bound.images_per_second)} images/s"
    )


def chosen_loop(results: Results) -> Loop | None:
    """The loop with the step on the plan chosen; None without a step."""
    return loop_of(results, results.chosen.name)


def loop_of(results: Results, name: str) -> Loop | None:
    """The loop on the plan `name` of the data chosen; None where none ran."""
    loops = [loop for loop in results.loops if (loop.run, loop.data) == (name, results.chosen.data)]
    return loops[-1] if loops else None


def told_fill(loop: Loop | None) -> FirstFill | None:
    """What lies between the epochs of this loop, where that is worth telling beside the stall."""
    fill = loop.first_fill if loop is not None else None
    return fill if fill is not None and fill.share > TOLD_FILL else None


def tells_end(fill: FirstFill) -> bool:
    """Whether the end of an epoch is worth telling beside its start."""
    return fill.end_seconds >= max(TOLD_END * (fill.seconds + fill.end_seconds), TOLD_END_SECONDS)


def gap_words(fill: FirstFill, of: str = "") -> str:
    """What start and end of an epoch take: `the start takes 400 ms`; `of` comes after start and end."""
    start, end = time_words(fill.seconds), time_words(fill.end_seconds)
    if not tells_end(fill):
        return f"the start{of} takes {start}"
    if fill.seconds == 0:
        return f"the end{of} takes {end} on average"
    return f"start and end{of} take {start} and, on average, {end}"


def fill_words(fill: FirstFill | None, *, reason: str = "") -> str:
    """What lies between two epochs, where that is worth telling beside the stall; empty otherwise.

    Args:
        fill: what was measured.
        reason: `HELD_UP_PLAN` or `HELD_UP_PIPELINE`, told with a long end; empty where autotuning is off.
    """
    if fill is None or fill.share <= TOLD_FILL:
        return ""
    gap = gap_words(fill, f" of every epoch of {fill.epoch_batches:,} batches")
    told = f"besides, {gap}: {share_words(fill.share)} of the time"
    return f"{told}. {reason}" if reason and tells_end(fill) else told


def with_fill(verdict: Verdict, fill: FirstFill | None, *, reason: str = "") -> Verdict:
    """The verdict with what lies between two epochs told after its reason: its stall leaves that out, and a loop that
    is fed within epochs may still lose time there."""
    words = fill_words(fill, reason=reason)
    return verdict.replace(reason=f"{verdict.reason}; {words}") if words else verdict


def gpu_sentence(loop: Loop | None) -> str:
    """What the GPU did while the loop ran; empty where nothing was told about it."""
    if loop is None:
        return ""
    parts = []
    if loop.gpu_utilisation is not None:
        parts.append(f"the GPU was busy {share_words(loop.gpu_utilisation)} of the time while the step ran (NVML)")
    if loop.host_to_device_bytes_per_second is not None:
        rate = byte_words(loop.host_to_device_bytes_per_second)
        parts.append(f"pictures of a batch are copied to the GPU at {rate}/s")
    return "; ".join(parts)


def headline(results: Results) -> str:
    """The result in one sentence, for somebody who reads nothing else."""
    chosen, verdict = results.chosen, results.verdict
    supply = f"{rate_words(chosen.images_per_second.median)} images/s"
    if verdict is None:
        where = f" from {chosen.data}" if len(results.datasets) > 1 else ""
        return f"The best plan found supplies {supply}{where}."
    waits = f"waits for input {share_words(verdict.stall.value)} of its time"
    if fill := told_fill(chosen_loop(results)):
        where = "between them" if tells_end(fill) else "at their starts"
        waits += f" within epochs, and {share_words(fill.share)} {where}"
    before = results.verdict_before
    if verdict.outcome == "inconclusive":
        low, high = share_words(verdict.stall.low), share_words(verdict.stall.high)
        return f"The measurement does not decide: the stall lies between {low} and {high}."
    sentence = f"{OUTCOMES[verdict.outcome]}: with the plan chosen it {waits}"
    if before is not None and before.outcome not in (verdict.outcome, "inconclusive"):
        return f"{sentence}; with TensorFlow's guide (all AUTOTUNE) it waited {share_words(before.stall.value)}."
    return f"{sentence}."


def label(run: Run, runs: Sequence[Run]) -> str:
    """The run's name, with its data in front where `runs` spans several datasets."""
    return f"{run.data} · {run.name}" if len({other.data for other in runs}) > 1 else run.name
