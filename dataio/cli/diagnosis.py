"""`dataio bench --dataset MODULE:FUNCTION`: looks at a tf.data pipeline that dataio did not build."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from dataio.errors import LimitExceeded
from dataio.recipe import Recipe

if TYPE_CHECKING:
    import tensorflow as tf

    from dataio.bench.diagnosing import Diagnosis
    from dataio.bench.step import Step


def bench_dataset(
    spec: str,
    *,
    make_step: Callable[..., Step | None],
    batch_size: int | None = None,
    budget: float = 60.0,
    out: Path | None = None,
    limit: float | None = None,
    json: bool = False,
) -> Diagnosis:
    """Diagnoses the pipeline that the function `spec` makes, and prints what was found.

    Args:
        spec: "package.module:function"; the function takes nothing and returns a tf.data.Dataset of batches.
        make_step: makes the step (or None) from a recipe with the batch and picture size of the dataset.
        batch_size: pictures a batch, where the dataset's shape does not tell.
        budget: seconds.
        out: folder for diagnosis.json.
        limit: stall above which LimitExceeded is raised, in [0, 1].
        json: print the diagnosis as JSON and nothing else.

    Raises:
        StepError: the dataset or the step cannot be had.
        LimitExceeded: the stall is above `limit`.
    """
    from dataio.cli.quiet_start import import_tensorflow

    import_tensorflow()
    from dataio.bench.diagnosing import diagnose, load_dataset
    from dataio.bench.diagnosis_text import describe_diagnosis

    make = load_dataset(spec)
    step = make_step(recipe_of(make(), batch_size))
    diagnosis = diagnose(make, name=spec, step=step, batch_size=batch_size, budget_seconds=budget)
    if out is not None:
        diagnosis.save(out / "diagnosis.json")
    sys.stdout.write(diagnosis.to_json() if json else describe_diagnosis(diagnosis))
    verdict = diagnosis.verdict
    if limit is not None and verdict is not None and verdict.stall.value > limit:
        stall = verdict.stall
        raise LimitExceeded(
            f"the stall is {stall.value:.1%} ({stall.low:.1%} to {stall.high:.1%}), above --max-stall {limit:.1%}"
        )
    return diagnosis


def recipe_of(dataset: tf.data.Dataset, batch_size: int | None = None) -> Recipe:
    """A recipe with the batch and picture size of somebody else's dataset, as far as its shapes tell."""
    import tensorflow as tf

    first = tf.nest.flatten(dataset.element_spec)[0]
    shape = list(first.shape) if first.shape.rank is not None else []
    changes: dict[str, object] = {}
    size = batch_size or (shape[0] if shape else None)
    if size:
        changes["batch_size"] = size
    if len(shape) == 4 and shape[1] and shape[2]:
        changes["image_size"] = (shape[1], shape[2])
    return Recipe(**changes)
