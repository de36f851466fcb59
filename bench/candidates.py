"""Plans that a search may try: every choice that the recipe, the data and what is installed allow."""

from __future__ import annotations

from collections.abc import Callable
from importlib.util import find_spec

from dataio.bench.cache_disk import DECODED_BYTES_PER_SECOND, cache_bytes_per_second
from dataio.bench.footprint import predict_footprint, refusal
from dataio.data import Data
from dataio.machine import usable_memory_bytes
from dataio.plan import Plan
from dataio.recipe import Recipe
from dataio.stages.cache_folder import cache_parent

#: Finished batches kept ready: two hide the change from one to the next; more only take memory unless batches vary.
#: Source: own measurement: supply with 0, 2 and 4 differs by less than its noise.
PREFETCH = 2


def kernel_plans(data: Data, recipe: Recipe, cores: int) -> list[Plan]:
    """One plan a way of making pictures, TensorFlow's own first. Each has one call more than cores, so that the next is
    there when one ends."""
    base = Plan(num_parallel_calls=cores + 1, prefetch=PREFETCH)
    plans = [base]
    if recipe.fidelity == "exact":
        return plans
    jpeg = data.encoding == "jpeg"
    if jpeg:
        plans.append(base.replace(fused_decode_and_crop=True))
    if find_spec("cv2") is None or data.encoding == "png":
        return plans
    if not jpeg or find_spec("simplejpeg") is not None:
        plans.append(base.replace(kernel="opencv"))
    if jpeg:
        plans.append(base.replace(kernel="opencv", fused_decode_and_crop=True))
    return plans


def decoded_once(
    data: Data,
    recipe: Recipe,
    cores: int,
    *,
    split: str | None = None,
    free_bytes: int | None = None,
    disk_bytes_per_second: Callable[[], float] | None = None,
) -> list[Plan]:
    """The plan that keeps decoded pictures, with the kernel that is fastest once nothing is decoded: OpenCV where it
    may be used. None for pixels that are stored raw.

    Where they do not fit into memory, the same with them on disk comes too, if they fit there and the disk gives pixels
    faster than all cores decode them.

    Args:
        data: the dataset.
        recipe: what a batch is.
        cores: cores that the process may use.
        split: the split; the largest when None.
        free_bytes: memory that may still be taken; found out when None.
        disk_bytes_per_second: measures the disk; that of the folder for caches when None.
    """
    if data.encoding == "raw":
        return []
    ways = [plan for plan in kernel_plans(data, recipe, cores) if not plan.fused_decode_and_crop]
    plans = [ways[-1].replace(cache="decoded")]
    split = split or max(data.splits, key=lambda name: data.splits[name].records)
    free_bytes = usable_memory_bytes() if free_bytes is None else free_bytes
    if refusal(predict_footprint(data, recipe, plans[0], split=split, cores=cores), free_bytes=free_bytes) is None:
        return plans
    on_disk = ways[-1].replace(cache="decoded_disk")
    if refusal(predict_footprint(data, recipe, on_disk, split=split, cores=cores), free_bytes=free_bytes) is None:
        measure = disk_bytes_per_second or (lambda: cache_bytes_per_second(cache_parent()))
        if measure() > cores * DECODED_BYTES_PER_SECOND:
            plans.append(on_disk)
    return plans


def variants(plan: Plan, cores: int) -> list[Plan]:
    """Plans that make pictures as `plan` does and differ in one or two other choices, the most promising first."""
    changes: list[dict[str, object]] = [
        {"cache": "memory"},
        {"cycle_length": 1},
        {"num_parallel_calls": 2 * cores, "threads": 2 * cores},
        {"deterministic": False},
        {"num_parallel_calls": cores},
        {"num_parallel_calls": "auto", "prefetch": "auto"},
        {"cache": "memory", "deterministic": False},
        {"num_parallel_calls": 2 * cores},
        {"cycle_length": cores},
    ]
    return [plan.replace(**change) for change in changes]


def thrifty(plan: Plan, cores: int) -> list[Plan]:
    """Plans that use fewer cores than there are, the cheapest first; for steps that do not need them all."""
    few = [count for count in (1, 2, *range(4, cores, 4)) if count < cores]
    return [
        plan.replace(num_parallel_calls=count, cycle_length=1 if count == 1 else plan.cycle_length) for count in few
    ]
