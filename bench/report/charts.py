"""The report's drawings: inline SVG whose colours come from the page's style, so that it follows light and dark."""

from __future__ import annotations

import math
from collections.abc import Sequence
from html import escape

#: Width and height of a timeline in its own units; the page stretches it to the width there is.
_STRIP_WIDTH, _STRIP_HEIGHT = 1000.0, 40.0
_SCATTER_SIDE, _SCATTER_MARGIN = 420.0, 52.0
#: Least distance of two ticks: `10,000` in the size of the labels is 38 wide.
_TICK_DISTANCE = 46.0


def timeline(wait_seconds: Sequence[float], step_seconds: Sequence[float], *, span_seconds: float) -> str:
    """A strip of time: waits and steps in turn, as wide as they were long.

    Args:
        wait_seconds: how long each step waited.
        step_seconds: how long each step took.
        span_seconds: time that the whole width stands for, so that several strips can share one scale.
    """
    scale = _STRIP_WIDTH / span_seconds if span_seconds > 0 else 0.0
    paths: dict[str, list[str]] = {"wait": [], "step": []}
    now = 0.0
    for wait, step in zip(wait_seconds, step_seconds, strict=True):
        for kind, length in (("wait", wait), ("step", step)):
            paths[kind].append(f"M{now * scale:.2f} 0h{length * scale:.2f}v{_STRIP_HEIGHT:g}h{-length * scale:.2f}z")
            now += length
    drawn = "".join(f'<path class="{kind}" d="{"".join(parts)}"/>' for kind, parts in paths.items())
    return (
        f'<svg viewBox="0 0 {_STRIP_WIDTH:g} {_STRIP_HEIGHT:g}" preserveAspectRatio="none" role="img" '
        f'aria-label="time line of waiting and stepping">{drawn}</svg>'
    )


def scatter(points: Sequence[tuple[float, float, float, float, str, bool]], *, x_title: str, y_title: str) -> str:
    """Points on two logarithmic axes of the same range, with the line on which x equals y.

    Args:
        points: (x, y, lowest y, highest y, name, whether to emphasise it), all figures above 0.
        x_title: words under the x axis.
        y_title: words beside the y axis.
    """
    values = [value for x, y, low, high, _, _ in points for value in (x, y, low, high) if value > 0]
    first, last = math.log10(min(values)) - 0.06, math.log10(max(values)) + 0.06
    inner = _SCATTER_SIDE - 2 * _SCATTER_MARGIN

    def along(value: float) -> float:
        return (math.log10(max(value, 1e-9)) - first) / (last - first) * inner

    def x_of(value: float) -> float:
        return _SCATTER_MARGIN + along(value)

    def y_of(value: float) -> float:
        return _SCATTER_SIDE - _SCATTER_MARGIN - along(value)

    low_edge, high_edge = _SCATTER_MARGIN, _SCATTER_SIDE - _SCATTER_MARGIN
    parts = [
        f'<path class="axis" d="M{low_edge:g} {low_edge:g}V{high_edge:g}H{high_edge:g}"/>',
        f'<path class="ideal" d="M{low_edge:g} {high_edge:g}L{high_edge:g} {low_edge:g}"/>',
        f'<text x="{_SCATTER_SIDE / 2:g}" y="{_SCATTER_SIDE - 12:g}" text-anchor="middle">{escape(x_title)}</text>',
        f'<text x="{low_edge:g}" y="{low_edge - 14:g}">{escape(y_title)}</text>',
    ]
    drawn = -math.inf
    for tick in _ticks(10**first, 10**last):
        if along(tick) < drawn + _TICK_DISTANCE:
            continue
        drawn = along(tick)
        parts.append(f'<text x="{x_of(tick):.1f}" y="{high_edge + 18:g}" text-anchor="middle">{tick:,.0f}</text>')
        parts.append(f'<text x="{low_edge - 6:g}" y="{y_of(tick) + 4:.1f}" text-anchor="end">{tick:,.0f}</text>')
    for x, y, low, high, name, emphasised in points:
        kind = "dot chosen" if emphasised else "dot"
        parts.append(f'<path class="error" d="M{x_of(x):.1f} {y_of(low):.1f}V{y_of(high):.1f}"/>')
        parts.append(
            f'<circle class="{kind}" cx="{x_of(x):.1f}" cy="{y_of(y):.1f}" r="5"><title>{escape(name)}</title></circle>'
        )
    return (
        f'<svg viewBox="0 0 {_SCATTER_SIDE:g} {_SCATTER_SIDE:g}" role="img" '
        f'aria-label="{escape(y_title)} against {escape(x_title)}">{"".join(parts)}</svg>'
    )


def _ticks(low: float, high: float) -> list[float]:
    """Round figures between two rates, at least two of them where possible."""
    found = [
        digit * 10.0**power
        for power in range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
        for digit in (1, 1.5, 2, 3, 5, 7)
        if low <= digit * 10.0**power <= high
    ]
    return found if len(found) >= 2 else [low, high]
