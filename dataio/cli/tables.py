"""What `dataio bench` found, as tables and sentences that fit into 80 columns."""

from __future__ import annotations

from collections.abc import Iterator

from rich.console import Console, Group, RenderableType
from rich.padding import Padding
from rich.rule import Rule
from rich.table import Table
from rich.text import Text

from dataio.bench.judging import Verdict
from dataio.bench.results import Dataset, Results, Run
from dataio.bench.words import (
    bound_sentence,
    byte_words,
    chosen_loop,
    gains_sentence,
    gpu_sentence,
    headline,
    loop_of,
    plan_words,
    rate_words,
    share_words,
    short_name,
    time_words,
    told_fill,
)

#: Colours of the outcomes in a terminal.
_STYLES = {"fed": "bold green", "limited": "bold yellow", "starved": "bold red", "inconclusive": "bold"}

#: Plans listed for each dataset besides the baselines; a sweep's whole grid is in results.json.
_MOST_OTHERS = 12


def show_results(results: Results, console: Console) -> None:
    """Prints everything that a reader at the terminal needs, the conclusion last, where the eye is."""
    for dataset in results.datasets:
        console.print(_heading(dataset, results))
        console.print(_plan_table(results, dataset))
    if len(results.datasets) > 1:
        console.print(_dataset_table(results))
    if results.forecasts:
        console.print(_forecast_table(results))
    for refused in results.refused:
        console.print(f"Not run on {refused.data}: {refused.name}: {refused.reason}.", style="yellow")
    console.print(_conclusion(results))


def _heading(dataset: Dataset, results: Results) -> Text:
    machine = results.machine
    cores = f"{machine.cores} core" + ("s" if machine.cores != 1 else "")
    return Text.assemble(
        "\n",
        (dataset.name, "bold"),
        f"  {dataset.format}, {dataset.encoding}: {dataset.records:,} pictures, {byte_words(dataset.bytes)}; ",
        f"{cores} of {machine.cpu}",
    )


def _plan_table(results: Results, dataset: Dataset) -> Table:
    runs = [run for run in results.runs if run.data == dataset.name]
    demand = results.step.images_per_second if results.step else None
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    table.add_column("plan", min_width=20, overflow="fold")
    table.add_column("images/s", justify="right")
    table.add_column("95 % interval", justify="right", no_wrap=True)
    if demand is not None:
        table.add_column("of demand", justify="right", no_wrap=True)
    table.add_column("memory", justify="right", no_wrap=True)
    table.add_column("data", no_wrap=True)
    hidden = 0
    others = sorted((run for run in runs if not run.baseline), key=lambda run: -run.images_per_second.median)
    shown = [run for run in runs if run.baseline]
    for place, run in enumerate(others):
        if place < _MOST_OTHERS or run.chosen:
            shown.append(run)
        else:
            hidden += 1
    for run in shown:
        table.add_row(*_cells(run, demand), style="bold" if run.chosen else "")
    notes = []
    if hidden:
        notes.append(f"and {hidden} slower plans; --out DIR keeps them all")
    if not all(run.steady for run in shown):
        notes.append("^ was still getting faster when its rounds began")
    if notes:
        table.caption = "\n".join(notes)
        table.caption_justify = "left"
    return table


def _cells(run: Run, demand: float | None) -> Iterator[str]:
    rate = run.images_per_second
    name = short_name(run.name)
    yield f"{name} *" if run.chosen else name
    yield rate_words(rate.median)
    yield f"{rate_words(rate.low)} to {rate_words(rate.high)}"
    if demand is not None:
        yield f"{100 * rate.median / demand:.0f} %"
    yield byte_words(run.peak_memory_bytes)
    yield run.state if run.steady else f"{run.state} ^"


def _dataset_table(results: Results) -> RenderableType:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    table.add_column("dataset", overflow="fold")
    for title in ("images/s", "cold", "on disk", "a picture"):
        table.add_column(title, justify="right", no_wrap=True)
    table.add_column("worth it")
    for dataset in results.datasets:
        runs = [run for run in results.runs if run.data == dataset.name]
        best = max(runs, key=lambda run: (run.chosen, run.images_per_second.median))
        cold = [run.cold_images_per_second for run in runs if run.cold_images_per_second is not None]
        table.add_row(
            dataset.name,
            rate_words(best.images_per_second.median),
            rate_words(max(cold)) if cold else "-",
            "a sample" if dataset.sample else byte_words(dataset.bytes),
            byte_words(dataset.bytes / dataset.records),
            "yes" if dataset.pareto else "no",
        )
    note = Text("worth it: no other one is at least as fast in as few bytes a picture", style="dim")
    return Group(Text("\nDatasets side by side, each with its best plan", style="bold"), table, note)


def _forecast_table(results: Results) -> RenderableType:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    table.add_column("store as", overflow="fold")
    for title in ("images/s", "times now", "on disk", "to convert"):
        table.add_column(title, justify="right", no_wrap=True)
    now = results.chosen.images_per_second.median
    for forecast in results.forecasts:
        rate = forecast.images_per_second.median
        table.add_row(
            forecast.name,
            rate_words(rate),
            f"{rate / now:.2f} x" if now else "-",
            byte_words(forecast.bytes),
            time_words(forecast.conversion_seconds),
        )
    pictures = max(forecast.sample_records for forecast in results.forecasts)
    title = f"\nWhat storing all pictures in another way would bring, from a sample of {pictures:,}"
    return Group(Text(title, style="bold"), table)


def _conclusion(results: Results) -> RenderableType:
    chosen = results.chosen
    lines: list[RenderableType] = [Rule(style="dim")]
    if results.verdict is not None:
        style = _STYLES[results.verdict.outcome]
        lines.append(Text.assemble((f"{results.verdict.outcome.upper()}  ", style), (headline(results), "bold")))
        lines.append(_stall_table(results, results.verdict))
        lines.append(Text(sentence(results.verdict.reason)))
        lines += [Text(f"- {sentence(advice)}") for advice in results.verdict.advice]
    else:
        lines.append(Text(headline(results), style="bold"))
    gains = gains_sentence(results)
    if gains:
        lines.append(Text(f"What tuning changed: {gains}."))
    lines.append(Text(f"The plan chosen (*): {plan_words(chosen.plan)}."))
    if gpu := gpu_sentence(chosen_loop(results)):
        lines.append(Text(sentence(gpu)))
    if bound := bound_sentence(results):
        lines.append(Text(f"{bound}."))
    if chosen.cold_images_per_second is not None:
        lines.append(
            Text(
                f"With its files not in the page cache, once: {rate_words(chosen.cold_images_per_second)} images/s, "
                "without an interval."
            )
        )
    lines.append(
        Text(
            f"Differences below {share_words(results.noise)} are noise here. Took {time_words(results.seconds)}.",
            style="dim",
        )
    )
    return Group(*lines)


def _stall_table(results: Results, verdict: Verdict) -> RenderableType:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    table.add_column("")
    before = results.verdict_before
    rows = [("the plan chosen", verdict, chosen_loop(results))]
    if before is not None and before != verdict:
        rows.insert(0, ("autotune", before, loop_of(results, "autotune")))
    gaps = any(told_fill(loop) for _, _, loop in rows)
    for title in ("stall", "95 % interval", *(["epoch gaps"] if gaps else []), "supply", "demand"):
        table.add_column(title, justify="right", no_wrap=True)
    table.add_column("")
    for name, one, loop in rows:
        stall = one.stall
        fill = loop.first_fill if loop is not None else None
        table.add_row(
            name,
            share_words(stall.value),
            f"{share_words(stall.low)} to {share_words(stall.high)}",
            *([share_words(fill.share) if fill else "-"] if gaps else []),
            rate_words(one.supply_images_per_second),
            rate_words(one.demand_images_per_second),
            one.outcome,
        )
    return Padding(table, (0, 0, 0, 2))


def sentence(words: str) -> str:
    """Words with a capital at the start and a full stop at the end."""
    return words[:1].upper() + words[1:] + ("" if words.endswith(".") else ".")
