"""How what differs from what was written is told: line by line, and no more lines than somebody reads."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dataio.converters.format import Damage

#: Differences that are told one by one; `--json` has all of them.
_MOST_LINES = 20


def damage_lines(damages: Sequence[Damage]) -> Iterator[str]:
    """A line for each of the first damages, and how many more there are."""
    from dataio.converters.verification import describe

    yield from map(describe, damages[:_MOST_LINES])
    if len(damages) > _MOST_LINES:
        yield f"… and {len(damages) - _MOST_LINES} more"
