"""What lies between two epochs, which a stall leaves out: an iterator's end, and its successor's first fill."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import numpy as np
from pydantic import Field

from dataio.records import Record

if TYPE_CHECKING:
    from dataio.bench.stalling import StallSamples


class FirstFill(Record):
    """What the start of an epoch costs, while its buffers are empty, and its end, while its iterator goes: once an
    epoch, and no part of a stall."""

    epoch_batches: Annotated[int, Field(gt=0)]
    """Batches in an epoch."""
    seconds: Annotated[float, Field(ge=0)]
    """From asking for an epoch's iterator to its first batch, median over the epochs after the first. 0 where
    epochs are so short that their starts are part of the stall."""
    end_seconds: Annotated[float, Field(ge=0)] = 0.0
    """How long the iterator takes to go when an epoch is over, for which a training loop waits: mean over the ends that
    were seen, since few are held up, and those for long."""
    share: Annotated[float, Field(ge=0, le=1)]
    """Of both in the time of a whole epoch. High: epochs are short, the pipeline is slow to start, or its ends are held
    up."""

    @property
    def end_share(self) -> float:
        """The end's part of the time of a whole epoch, in [0, 1]."""
        gap = self.seconds + self.end_seconds
        return self.share * self.end_seconds / gap if gap else 0.0


def first_fill(samples: StallSamples) -> FirstFill | None:
    """What start and end of an epoch take, and their share of a whole epoch.

    An epoch is its first fill, the step after it, (batches - 1) times what a batch and its step take at the mean within
    epochs, and its end. The share does so not depend on how many epochs happened to begin while the loop ran.

    Args:
        samples: of a loop with a step.

    Returns:
        None where no epoch after the first began: its start opens files and traces functions, so that it does not
        stand for others. Where epochs are short, whose fills are part of the stall, what their ends take; None where
        that is nothing.
    """
    starts = samples.first_batch_seconds[1:]
    within = [
        wait + step
        for wait, step, position in zip(samples.wait_seconds, samples.step_seconds, samples.position, strict=True)
        if position > 0
    ]
    if not starts or not within or samples.epoch_batches is None:
        return None
    end = float(np.mean(samples.end_of_epoch_seconds or (0.0,)))
    start, step = float(np.median(starts)), float(np.mean(samples.step_seconds))
    rest = (samples.epoch_batches - 1) * float(np.mean(within)) + step
    told = 0.0 if samples.short_epochs else start
    if samples.short_epochs and end == 0:
        return None
    return FirstFill(
        epoch_batches=samples.epoch_batches,
        seconds=told,
        end_seconds=end,
        share=(told + end) / (start + rest + end),
    )
