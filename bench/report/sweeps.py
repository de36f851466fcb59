"""Heat maps of a sweep: two plan fields against each other, the best over all the others."""

from __future__ import annotations

from itertools import combinations
from typing import Any

from dataio.bench.results import Results
from dataio.bench.words import rate_words

#: Maps drawn at most; three fields swept give three pairs.
_MOST_MAPS = 6


def heat_maps(results: Results) -> list[dict[str, Any]]:
    """The maps of a sweep for the chosen run's data, as the page's template takes them; none without a sweep."""
    fields = [name for name, values in results.sweep.items() if len(values) > 1]
    pairs: list[tuple[str | None, str]] = [(None, fields[0])] if len(fields) == 1 else []
    pairs += list(combinations(fields, 2))[:_MOST_MAPS]
    return [_heat_map(results, down, across) for down, across in pairs]


def _heat_map(results: Results, down: str | None, across: str) -> dict[str, Any]:
    data = results.chosen.data
    columns = results.sweep[across]
    lines: tuple[Any, ...] = results.sweep[down] if down else (None,)
    best: dict[tuple[Any, Any], float] = {}
    for run in results.runs:
        if run.data != data or run.baseline:
            continue
        cell = (getattr(run.plan, down) if down else None, getattr(run.plan, across))
        best[cell] = max(best.get(cell, 0.0), run.images_per_second.median)
    top, bottom = max(best.values(), default=0.0), min(best.values(), default=0.0)

    def cell_of(line: Any, column: Any) -> dict[str, Any]:
        value = best.get((line, column))
        if value is None:
            return {"words": "–", "shade": 0, "best": False}
        depth = (value - bottom) / (top - bottom) if top > bottom else 1.0
        # Never darker than half: the figure must stay readable on its cell, in light and in dark.
        return {"words": rate_words(value), "shade": round(0.04 + 0.46 * depth, 3), "best": value == top}

    return {
        "title": f"{down} against {across}" if down else across,
        "down": down or "",
        "across": across,
        "columns": columns,
        "rows": [
            {"name": "" if line is None else line, "cells": [cell_of(line, column) for column in columns]}
            for line in lines
        ],
    }
