"""Where and how the figures of a report were measured."""

from __future__ import annotations

from dataio.bench.results import Results
from dataio.bench.words import byte_words, share_words, time_words


def machine_rows(results: Results) -> list[tuple[str, str]]:
    """The machine, as names and what there is."""
    machine = results.machine
    rows = [
        ("processor", f"{machine.cpu}, {machine.cores} of {machine.logical_cores} cores usable"),
        ("memory", f"{byte_words(machine.memory_bytes)} free of {byte_words(machine.total_memory_bytes)}"),
        ("accelerator", ", ".join(gpu.name for gpu in machine.gpus) or "none used"),
        ("system", f"{machine.system}, Python {machine.python}"),
    ]
    for storage in machine.storage:
        rates = [
            f"{words} {byte_words(rate)}/s"
            for words, rate in (("cold", storage.cold_bytes_per_second), ("warm", storage.warm_bytes_per_second))
            if rate is not None
        ]
        detail = ", ".join([storage.kind, storage.filesystem, *rates])
        rows.append(("storage", f"{storage.path}: {detail}"))
    rows.append(("versions", ", ".join(f"{name} {version}" for name, version in results.versions.items())))
    return rows


def method_lines(results: Results) -> list[str]:
    """How it was measured, in sentences."""
    lines = [
        f"Each plan ran alone after a warm-up, in rounds of mixed order; intervals are 95 % intervals of the median. "
        f"Differences below {share_words(results.noise)} are noise here. "
        f"The whole run took {time_words(results.seconds)}."
    ]
    if results.step is not None:
        lines.append(
            f"Step: {results.step.name}, {time_words(results.step.step_seconds)} a batch of "
            f"{results.recipe.batch_size}. {results.step.source}"
        )
    if results.skipped:
        lines.append(
            f"{len(results.skipped)} more plans were predicted and not run, because even the best that could be "
            "expected of them was slower, or because time ended; results.json lists them."
        )
    lines += [f"Not run on {plan.data}: {plan.name}: {plan.reason}" for plan in results.refused]
    lines += [f"Bound by {bound.name}: {bound.how}" for bound in results.bounds]
    return lines
