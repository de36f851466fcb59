"""report.html: one self-contained page that a colleague can read without us."""

from __future__ import annotations

import re
from collections.abc import Sequence
from importlib import resources
from pathlib import Path
from typing import Any

from dataio.bench.report import charts
from dataio.bench.report.facts import facts, fill_sentence
from dataio.bench.report.origin import machine_rows, method_lines
from dataio.bench.report.sweeps import heat_maps
from dataio.bench.results import Dataset, Loop, Results, Run
from dataio.bench.words import (
    BASELINES,
    bound_sentence,
    byte_words,
    gains_sentence,
    headline,
    plan_words,
    rate_words,
    share_words,
    short_name,
    tells_end,
    time_words,
    told_fill,
)
from dataio.plan import Plan
from dataio.records import write_whole

#: The blank before a unit.
_UNIT = re.compile(r"(?<=\d) (?=%|([kMGT]?B|m?s|min|h|x)\b)")
#: Bars drawn a dataset; a sweep of hundreds of plans is in results.json, and its best are what one looks for.
_MOST_ROWS = 16
#: Steps drawn in the time line: more would be thinner than a pixel on a phone.
_MOST_STEPS = 48


def write_report(results: Results, path: Path) -> None:
    """Writes the page about `results` to `path`, whole or not at all."""
    write_whole(path, render(results).encode())


def render(results: Results) -> str:
    """The page about `results` as HTML text; it needs no other file and no network."""
    import jinja2

    files = resources.files("dataio.bench.report")
    environment = jinja2.Environment(
        autoescape=True, trim_blocks=True, lstrip_blocks=True, undefined=jinja2.StrictUndefined
    )
    template = environment.from_string((files / "page.html").read_text(encoding="utf-8"))
    style = (files / "style.css").read_text(encoding="utf-8")
    # A unit must not start a line of its own on a narrow screen.
    return re.sub(_UNIT, "\N{NO-BREAK SPACE}", template.render(**_context(results, style)))


def _context(results: Results, style: str) -> dict[str, Any]:
    from markupsafe import Markup

    chosen = results.chosen
    dataset = next(dataset for dataset in results.datasets if dataset.name == chosen.data)
    names = ", ".join(dataset.name for dataset in results.datasets)
    return {
        "style": Markup(style),
        "title": f"dataio bench: {names}",
        "subtitle": f"{names} · {results.created[:16].replace('T', ' ')}",
        "verdict": results.verdict,
        "headline": headline(results),
        "explanation": _explanation(results),
        "facts": facts(results, dataset),
        "strips": [strip | {"svg": Markup(strip["svg"])} for strip in _strips(results)],
        "fill": fill_sentence(results),
        "throughput": [_throughput(results, dataset) for dataset in results.datasets],
        "datasets": _dataset_rows(results),
        "forecasts": [
            {
                "name": forecast.name,
                "rate": rate_words(forecast.images_per_second.median),
                "bytes": byte_words(forecast.bytes),
                "time": time_words(forecast.conversion_seconds),
                "sample": f"{forecast.sample_records:,}",
            }
            for forecast in results.forecasts
        ],
        "costs": _costs(results),
        "remedies": [
            {
                "title": remedy.title,
                "rate": None
                if remedy.images_per_second is None
                else f"{rate_words(remedy.images_per_second)} images/s predicted",
                "cost": remedy.cost,
                "how": remedy.how,
            }
            for remedy in results.remedies
        ],
        "heatmaps": heat_maps(results),
        "memory": _memory(results),
        "predicted": _predicted(results),
        "plan": [(name, getattr(chosen.plan, name)) for name in Plan.model_fields if name != "schema_version"],
        "recipe": ", ".join(
            f"{name}={getattr(results.recipe, name)}"
            for name in type(results.recipe).model_fields
            if name != "schema_version"
        ),
        "machine": machine_rows(results),
        "method": method_lines(results),
        "command": results.command,
        "footer": f"Made by dataio {results.versions.get('dataio-tf', '')}. The raw samples are in results.json.",
    }


def _explanation(results: Results) -> list[str]:
    lines = []
    if results.verdict is not None:
        lines.append(_sentence(results.verdict.reason))
        if not results.remedies:  # otherwise they have a part of their own
            lines += [_sentence(advice) for advice in results.verdict.advice]
    if results.forecasts:
        best = max(results.forecasts, key=lambda forecast: forecast.images_per_second.median)
        lines.append(
            f"Of the other ways of storing that were tried, {best.name} is the fastest: "
            f"{rate_words(best.images_per_second.median)} images/s, {byte_words(best.bytes)} on disk."
        )
    gains = gains_sentence(results)
    if gains:
        lines.append(f"Supply of the plan chosen: {gains}.")
    if bound := bound_sentence(results):
        lines.append(f"{bound}.")
    return lines


def _sentence(words: str) -> str:
    return words[:1].upper() + words[1:] + ("" if words.endswith(".") else ".")


def _strips(results: Results) -> list[dict[str, Any]]:
    loops = [loop for loop in results.loops if loop.wait_seconds]
    if not loops:
        return []
    steps = min(_MOST_STEPS, *(len(loop.wait_seconds) for loop in loops))
    spans = [sum(loop.counted_wait_seconds[-steps:]) + sum(loop.step_seconds[-steps:]) for loop in loops]
    return [
        {
            "name": f"Before: {BASELINES['autotune']}"
            if position == 0 and len(loops) > 1
            else f"After: {short_name(loop.run)}",
            "words": f"{steps} steps in {time_words(span)}{_starts(loop)}",
            "steps": steps,
            "svg": charts.timeline(
                loop.counted_wait_seconds[-steps:], loop.step_seconds[-steps:], span_seconds=max(spans)
            ),
            "end": time_words(max(spans)),
        }
        for position, (loop, span) in enumerate(zip(loops, spans, strict=True))
    ]


def _starts(loop: Loop) -> str:
    fill = told_fill(loop)
    if fill is None:
        return ""
    what = "starts and ends" if tells_end(fill) else "starts"
    return f"; {what} of epochs: {share_words(fill.share)} of the time"


def _throughput(results: Results, dataset: Dataset) -> dict[str, Any]:
    runs = [run for run in results.runs if run.data == dataset.name]
    shown = _shown(runs)
    # Bars decide the scale: one wild whisker would flatten them all, so it is cut off at the edge.
    median = max(run.images_per_second.median for run in shown)
    top = min(max(run.images_per_second.high for run in shown), 1.3 * median)
    demand = results.step.images_per_second if results.step else None
    bounds = results.bounds if dataset.name == results.chosen.data else ()
    # A demand or a bound just above the bars belongs into the picture; one far above would flatten the bars.
    reach = [top, *(value for value in (demand, *(bound.images_per_second for bound in bounds)) if value)]
    scale = max(value for value in reach if value <= 2 * top) * 1.03
    rounds = sorted({len(run.samples) for run in shown})
    return {
        "data": dataset.name if len(results.datasets) > 1 else "",
        "rounds": str(rounds[0]) if len(rounds) == 1 else f"{rounds[0]} to {rounds[-1]}",
        "demand": None if demand is None else {"at": 100 * demand / scale, "words": f"{rate_words(demand)} images/s"},
        "bounds": [
            {
                "at": 100 * bound.images_per_second / scale,
                "words": f"bound by {bound.name}: {rate_words(bound.images_per_second)} images/s",
            }
            for bound in bounds
            if bound.images_per_second <= scale
        ],
        "rows": [
            {
                "name": short_name(run.name),
                "chosen": run.chosen,
                "tags": (["chosen"] if run.chosen else []) + (["baseline"] if run.baseline else []),
                "value": f"{rate_words(run.images_per_second.median)} images/s",
                "width": 100 * run.images_per_second.median / scale,
                "low": 100 * run.images_per_second.low / scale,
                "span": 100 * (min(run.images_per_second.high, scale) - run.images_per_second.low) / scale,
                "open": run.images_per_second.high > scale,
                "plan": "" if run.name == plan_words(run.plan) else plan_words(run.plan),
            }
            for run in shown
        ],
    }


def _shown(runs: Sequence[Run]) -> list[Run]:
    """Baselines in their order, then the fastest of the rest, fastest first."""
    others = sorted((run for run in runs if not run.baseline), key=lambda run: -run.images_per_second.median)
    baselines = [run for run in runs if run.baseline]
    kept = others[: max(1, _MOST_ROWS - len(baselines))]
    missing = [run for run in others if run.chosen and run not in kept]
    return baselines + missing + kept


def _dataset_rows(results: Results) -> list[dict[str, Any]]:
    rows = []
    for dataset in results.datasets:
        runs = [run for run in results.runs if run.data == dataset.name]
        best = max(runs, key=lambda run: (run.chosen, run.images_per_second.median))
        cold = [run.cold_images_per_second for run in runs if run.cold_images_per_second is not None]
        rows.append(
            {
                "name": dataset.name,
                "pareto": dataset.pareto,
                "stored": f"{dataset.format}, {dataset.encoding}",
                "rate": rate_words(best.images_per_second.median),
                "cold": rate_words(max(cold)) if cold else "–",
                "bytes": "a sample" if dataset.sample else byte_words(dataset.bytes),
                "picture": byte_words(dataset.bytes / dataset.records),
                "plan": plan_words(best.plan),
            }
        )
    return rows


def _costs(results: Results) -> list[dict[str, Any]]:
    most = max((cost.cpu_milliseconds_per_image for cost in results.costs), default=0.0)
    return [
        {
            "stage": cost.stage,
            "value": f"{cost.cpu_milliseconds_per_image:.3f} ms · {share_words(cost.share)}",
            "width": 100 * cost.cpu_milliseconds_per_image / most if most else 0,
            "slowest": cost.cpu_milliseconds_per_image == most,
        }
        for cost in results.costs
    ]


def _memory(results: Results) -> list[dict[str, Any]]:
    shown = _shown([run for run in results.runs if run.data == results.chosen.data])
    most = max(run.peak_memory_bytes for run in shown)
    return [
        {
            "name": short_name(run.name),
            "chosen": run.chosen,
            "value": byte_words(run.peak_memory_bytes),
            "width": 100 * run.peak_memory_bytes / most if most else 0,
        }
        for run in shown
    ]


def _predicted(results: Results) -> dict[str, Any] | None:
    from markupsafe import Markup

    pairs = [(run, run.predicted) for run in results.runs if run.predicted is not None]
    pairs = [(run, guess) for run, guess in pairs if guess.value > 0 and run.images_per_second.median > 0]
    if len(pairs) < 2:
        return None
    errors = sorted(
        abs(guess.value - run.images_per_second.median) / run.images_per_second.median for run, guess in pairs
    )
    points = [
        (run.images_per_second.median, guess.value, guess.low, guess.high, run.name, run.chosen) for run, guess in pairs
    ]
    return {
        "words": f"{len(pairs)} plans were predicted before they were measured; half of the predictions were within "
        f"{share_words(errors[len(errors) // 2])}, the worst was {share_words(errors[-1])} off.",
        "svg": Markup(charts.scatter(points, x_title="measured, images/s", y_title="predicted, images/s")),
    }
