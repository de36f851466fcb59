"""What the starts of epochs cost: the first fill of the buffers, which a stall leaves out."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import numpy as np
from pydantic import Field

from dataio.records import Record

if TYPE_CHECKING:
    from dataio.bench.stalling import StallSamples


class FirstFill(Record):
    """What the start of an epoch costs, while its buffers are empty: once an epoch, and no part of a stall."""

    epoch_batches: Annotated[int, Field(gt=0)]
    """Batches in an epoch."""
    seconds: Annotated[float, Field(ge=0)]
    """From asking for an epoch's iterator to its first batch, median over the epochs after the first."""
    share: Annotated[float, Field(ge=0, le=1)]
    """Of the time of a whole epoch. High: epochs are short, or the pipeline is slow to start."""


def first_fill(samples: StallSamples) -> FirstFill | None:
    """What the start of an epoch takes, and its share of a whole epoch.

    An epoch is its first fill, the step after it, and (batches - 1) times what a batch and its step take at the mean
    within epochs. The share does so not depend on how many epochs happened to begin while the loop ran.

    Args:
        samples: of a loop with a step.

    Returns:
        None where no epoch after the first began (its start opens files and traces functions, so that it does not
        stand for others), and where epochs are short, whose fills are part of the stall.
    """
    starts = samples.first_batch_seconds[1:]
    within = [
        wait + step
        for wait, step, position in zip(samples.wait_seconds, samples.step_seconds, samples.position, strict=True)
        if position > 0
    ]
    if not starts or not within or samples.epoch_batches is None or samples.short_epochs:
        return None
    start = float(np.median(starts))
    rest = (samples.epoch_batches - 1) * float(np.mean(within)) + float(np.mean(samples.step_seconds))
    return FirstFill(epoch_batches=samples.epoch_batches, seconds=start, share=start / (start + rest))
