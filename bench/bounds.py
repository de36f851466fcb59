"""Rates that hardware does not let any plan pass, per dataset and recipe."""

from __future__ import annotations

from dataio.bench.bare import Sample, bare_seconds, can_run_bare, take_sample
from dataio.bench.results import Bound
from dataio.bench.storage import Storage
from dataio.bench.words import rate_words
from dataio.data import Data
from dataio.recipe import Recipe

#: Seconds that the bare loop of each way of decoding may take.
BARE_SECONDS = 0.5


def find_bounds(
    data: Data,
    recipe: Recipe,
    *,
    split: str,
    cores: int,
    storage: Storage | None = None,
    sample: Sample | None = None,
) -> tuple[Bound, ...]:
    """The bounds that can be found here, the tightest first.

    - `decoding`: the rate at which one core decodes, cuts, resizes, flips and copies in a bare loop without tf.data,
      by the fastest way the recipe allows, times the cores. Needs the extra `fast`, and fidelity `close`.
    - `storage, cold`, `storage, warm`: bytes per second of one reader by the mean bytes of a record. A cold rate above
      what the device can do means that a cache below this system answered.

    Args:
        data: the dataset.
        recipe: what a picture becomes.
        split: the split.
        cores: cores that the process may use.
        storage: what `describe_storage` found for the dataset.
        sample: records of it, where they are in memory already.
    """
    bounds = []
    if recipe.fidelity == "close" and can_run_bare(data.encoding):
        sample = sample or take_sample(data, split=split)
        seconds, way = fastest_way(sample, recipe)
        bounds.append(
            Bound(
                name="decoding",
                images_per_second=cores / seconds,
                how=f"{rate_words(1 / seconds)} images/s of one core in a bare loop ({way}), times {cores} cores",
            )
        )
    found = data.split(split)
    record_bytes = found.bytes / max(1, found.records)
    for name, rate in (
        ("storage, cold", storage.cold_bytes_per_second if storage else None),
        ("storage, warm", storage.warm_bytes_per_second if storage else None),
    ):
        if rate:
            how = f"{rate / 1e6:,.0f} MB/s read in sequence, {record_bytes / 1000:.0f} kB a record"
            bounds.append(Bound(name=name, images_per_second=rate / record_bytes, how=how))
    return tuple(sorted(bounds, key=lambda bound: bound.images_per_second))


def fastest_way(sample: Sample, recipe: Recipe, *, seconds: float = BARE_SECONDS) -> tuple[float, str]:
    """(seconds a picture, words for it) of the fastest way in which one core makes the sample's pictures."""
    if sample.encoding == "raw":
        return bare_seconds(sample, recipe, fused=False, seconds=seconds), "OpenCV on stored pixels"
    whole = bare_seconds(sample, recipe, fused=False, seconds=seconds)
    fused = bare_seconds(sample, recipe, fused=True, seconds=seconds)
    return (whole, "whole pictures decoded") if whole <= fused else (fused, "decoding fused with cropping")
