"""What to do about a stall, ranked, each with what it is predicted to bring and what it costs.

The prediction starts from what the plan at hand supplies and scales it by the work that a remedy saves:

    rate after = rate now * work now / work after

where the work of a picture is that of the serial calibration. How much less a picture costs that is stored smaller is
measured on a sample, stored that way in memory, in the bare loop. Where pixels are not decoded any more, carrying them
costs as much as cutting and resizing: there the plan itself is run, on raw pixels of the sample or with a cache of a
part of the pictures.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

from dataio.bench.bare import Sample, bare_seconds, can_run_bare, decoded, stored_raw, stored_smaller, take_sample
from dataio.bench.cache_disk import cache_bytes_per_second
from dataio.bench.choosing import HEADROOM
from dataio.bench.footprint import predict_footprint, refusal
from dataio.bench.predicting import CACHED_SECONDS, MOST_READING, Predictor, calls_at_once
from dataio.bench.results import Remedy
from dataio.bench.storage import storage_kind
from dataio.bench.trial import try_cache, try_raw
from dataio.bench.words import byte_words, plan_words, rate_words
from dataio.data import Data
from dataio.plan import Plan
from dataio.recipe import Recipe
from dataio.stages.cache_folder import cache_parent

#: Side of smaller stores, pixels: what a crop of 224 is commonly taken from.
#: Source: He et al. 2015, "Deep residual learning", section 3.4: short side 256.
SMALL_SIDE = 256
#: Records that are stored anew in memory to see what it would bring. One takes 5 to 10 ms.
TRIAL_RECORDS = 64
#: Seconds that each bare loop over them may take.
TRIAL_SECONDS = 0.3
#: Seconds a record from a packed file takes per byte and besides: TFRecord and HDF5 blocks, page cache warm.
#: Source: own measurement, serial: 25 us for 26 kB, 45 us for 90 kB, 75 us for 197 kB.
PACKED_SECONDS = 17e-6
PACKED_SECONDS_PER_BYTE = 0.3e-9
#: Seconds a byte that one thread spends on copying records into batches while the calls are at work, which slows
#: copying down. It limits large records that are cached as stored.
#: Source: own measurement: 5,400 to 5,700 images/s of 197 kB on 2 cores, uncached.
COLLECT_SECONDS_PER_BYTE = 0.7e-9
#: Seconds a byte of decoded picture that taking it out of a cache on disk and copying it into a batch add to the bare
#: loop. Source: own measurement, 2 cores, from a cache in memory that copied as well: 1,640 and 1,910 images/s of
#: 990 kB in two runs, from 1,370 and 1,340 with decoding.
UNPACK_SECONDS_PER_BYTE = 0.65e-9
#: Share of what less decoding saves in the bare loop that a pipeline on all cores, which share memory and caches, gets.
#: Source: own measurement, 2 cores: between 0.86 and 1 in three runs with JPEGs of 256 px and raw pixels.
SAVED_SHARE = 0.93
#: A remedy that promises less than this gain is not worth its trouble, nor above the noise of a measurement.
WORTHWHILE = 1.05
#: Beyond this many machines a remote input service is not proposed: its network is no longer free.
MOST_WORKERS = 64


@dataclass(frozen=True)
class Situation:
    """What is known when remedies are sought."""

    data: Data
    """The dataset."""
    recipe: Recipe
    """What a batch is."""
    split: str
    """The split."""
    plan: Plan
    """The plan at hand."""
    images_per_second: float
    """What it supplies."""
    predictor: Predictor
    """What was learned about these data."""
    cores: int
    """Cores that the process may use."""
    free_bytes: int
    """Memory that may still be taken."""
    demand_images_per_second: float | None = None
    """What the step takes."""
    tuned: tuple[Plan, float] | None = None
    """The plan that a search chose and its measured supply."""


def find_remedies(situation: Situation, *, sample: Sample | None = None) -> tuple[Remedy, ...]:
    """Remedies that promise a gain, the greatest first; more cores and a remote service come after what is free.

    Args:
        situation: what is known.
        sample: records of the dataset in memory; read when None and needed.
    """
    remedies = [*_plan_change(situation), *_cache(situation), *_packed(situation)]
    remedies += _stored_anew(situation, sample)
    worth = [
        remedy
        for remedy in remedies
        if remedy.images_per_second is not None and remedy.images_per_second >= WORTHWHILE * situation.images_per_second
    ]
    worth.sort(key=lambda remedy: -(remedy.images_per_second or 0.0))
    return (*worth, *_more_cores(situation))


def cores_needed(situation: Situation) -> float | None:
    """Cores that feed the step with a tenth to spare, by what one core supplies now; None without a demand."""
    if situation.demand_images_per_second is None:
        return None
    used = calls_at_once(situation.plan, situation.cores)
    return HEADROOM * situation.demand_images_per_second / (situation.images_per_second / used)


def _plan_change(situation: Situation) -> list[Remedy]:
    if situation.tuned is None or situation.tuned[0] == situation.plan:
        return []
    plan, rate = situation.tuned
    arguments = ", ".join(
        f"{name}={getattr(plan, name)!r}" for name in Plan.model_fields if getattr(plan, name) != getattr(Plan(), name)
    )
    return [
        Remedy(
            title=f"Use the plan that was found: {plan_words(plan)}.",
            images_per_second=rate,
            cost="nothing; pixels within the recipe's fidelity",
            how=f"dataio.build(data, recipe, dataio.Plan({arguments}))",
        )
    ]


def _cache(situation: Situation) -> list[Remedy]:
    if situation.plan.cache != "none":
        return []
    cached = situation.plan.replace(cache="memory")
    footprint = predict_footprint(
        situation.data, situation.recipe, cached, split=situation.split, cores=situation.cores
    )
    if refusal(footprint, free_bytes=situation.free_bytes) is not None:
        return _cache_on_disk(situation)
    work = situation.predictor.work_seconds(situation.plan)
    saved = work / situation.predictor.work_seconds(cached)
    return [
        Remedy(
            title="Keep the encoded records in memory after the first epoch.",
            images_per_second=situation.images_per_second * saved,
            cost=f"{byte_words(footprint.cache_bytes)} of the {byte_words(situation.free_bytes)} that are free",
            how='plan.replace(cache="memory")',
        )
    ]


def _cache_on_disk(situation: Situation) -> list[Remedy]:
    """Records that do not fit into memory, kept on this machine: where they come over a network or from a disk that
    turns, and the folder for caches lies on something better."""
    parent = cache_parent()
    found = situation.data.split(situation.split)
    better = {"network": ("ssd", "virtual", "disk"), "disk": ("ssd", "virtual")}.get(
        storage_kind(situation.data.path), ()
    )
    plan = situation.plan.replace(cache="disk")
    footprint = predict_footprint(situation.data, situation.recipe, plan, split=situation.split, cores=situation.cores)
    if storage_kind(parent) not in better or refusal(footprint, free_bytes=situation.free_bytes) is not None:
        return []
    record_bytes = found.bytes / max(1, found.records)
    return [
        Remedy(
            title="Keep the encoded records on this machine's disk after the first epoch.",
            images_per_second=min(
                _rate_after(situation, picture_share=1.0, record_bytes=record_bytes),
                cache_bytes_per_second(parent) / record_bytes,
            ),
            cost=f"{byte_words(footprint.disk_bytes)} in {parent}, which goes when training ends",
            how='plan.replace(cache="disk"), and build(cache_dir=...) or DATAIO_CACHE_DIR for another folder',
        )
    ]


def _packed(situation: Situation) -> list[Remedy]:
    data = situation.data
    if data.format != "folder" or situation.plan.cache != "none":
        return []
    found = data.split(situation.split)
    record_bytes = found.bytes / max(1, found.records)
    return [
        Remedy(
            title="Convert the folder to packed files.",
            images_per_second=_rate_after(situation, picture_share=1.0, record_bytes=record_bytes),
            cost=f"{byte_words(found.bytes)} on disk; pictures stay as they are, byte for byte",
            how=f"dataio convert {data.path} {data.path}-tfrecord --to tfrecord",
        )
    ]


def _stored_anew(situation: Situation, sample: Sample | None) -> list[Remedy]:
    """Stores that change pixels: smaller JPEGs, raw pixels. Only where pictures are JPEGs."""
    data, recipe = situation.data, situation.recipe
    if data.encoding != "jpeg" or situation.plan.caches_decoded or not can_run_bare("jpeg"):
        return []
    sample = sample or take_sample(data, split=situation.split, records=TRIAL_RECORDS)
    fused = situation.plan.fused_decode_and_crop
    now = bare_seconds(sample, recipe, fused=fused, seconds=TRIAL_SECONDS)
    records = data.split(situation.split).records
    side = max(SMALL_SIDE, *(math.ceil(side * SMALL_SIDE / 224 / 32) * 32 for side in recipe.height_width))
    small, raw = stored_smaller(sample, side), stored_raw(sample, side)
    remedies = _decoded_cache(situation, sample, bare_now=now)
    for title, store, flags, format_name in (
        (f"Store JPEGs with {side} px on the short side", small, f"--encoding jpeg --short-side {side}", "tfrecord"),
        (f"Store raw pixels, {side} x {side}", raw, f"--encoding raw --size {side}x{side}", "hdf5"),
    ):
        source = data.path if data.format == "folder" else "SRC"  # what the packed files were made of is not known
        where = f"{data.path}-{'raw' if store.encoding == 'raw' else ''}{side}"
        remedies.append(
            Remedy(
                title=f"{title}.",
                images_per_second=_rate_of_store(situation, store, bare_now=now),
                cost=f"{byte_words(records * store.record_bytes)} on disk; changes pixels, so judge accuracy first",
                how=f"dataio convert {source} {where} --to {format_name} {flags}",
            )
        )
    return remedies


def _rate_of_store(situation: Situation, store: Sample, *, bare_now: float) -> float:
    """images/s of the plan at hand from data that are stored like `store`."""
    recipe, plan = situation.recipe, situation.plan
    if store.encoding == "raw" and plan.cache == "none":
        whole = plan.replace(fused_decode_and_crop=False)
        return try_raw(situation.data, store, recipe, whole, split=situation.split)
    fused = plan.fused_decode_and_crop and store.encoding == "jpeg"
    after = bare_seconds(store, recipe, fused=fused, seconds=TRIAL_SECONDS)
    return _rate_after(situation, picture_share=after / bare_now, record_bytes=store.record_bytes, bare_now=bare_now)


def _decoded_cache(situation: Situation, sample: Sample, *, bare_now: float) -> list[Remedy]:
    """Decoded pictures in memory where they fit, else on disk where they fit there."""
    pictures = decoded(sample)
    places: tuple[tuple[Literal["decoded", "decoded_disk"], str], ...] = (
        ("decoded", "in memory"),
        ("decoded_disk", "on disk"),
    )
    for cache, place in places:
        plan = situation.plan.replace(cache=cache, fused_decode_and_crop=False)
        footprint = predict_footprint(
            situation.data,
            situation.recipe,
            plan,
            split=situation.split,
            cores=situation.cores,
            picture_bytes=pictures.record_bytes,
        )
        if refusal(footprint, free_bytes=situation.free_bytes) is not None:
            continue
        cost = f"{byte_words(footprint.cache_bytes)} of the {byte_words(situation.free_bytes)} that are free"
        if cache == "decoded_disk":
            cost = f"{byte_words(footprint.disk_bytes)} in {cache_parent()}, which goes when training ends"
        return [
            Remedy(
                title=f"Keep decoded pictures {place} after the first epoch.",
                images_per_second=_rate_of_decoded(situation, plan, pictures, bare_now=bare_now),
                cost=cost,
                how=f'plan.replace(cache="{cache}", fused_decode_and_crop=False)',
            )
        ]
    return []


def _rate_of_decoded(situation: Situation, plan: Plan, pictures: Sample, *, bare_now: float) -> float:
    """images/s of `plan`, which caches decoded pictures such as these."""
    if not plan.caches_on_disk:
        if situation.predictor.has_measured(plan):
            return situation.predictor.predict(plan).value
        rate = situation.images_per_second
        return try_cache(situation.data, situation.recipe, plan, split=situation.split, images_per_second=rate)
    after = bare_seconds(pictures, situation.recipe, fused=False, seconds=TRIAL_SECONDS)
    after += UNPACK_SECONDS_PER_BYTE * pictures.record_bytes
    rate = _rate_after(situation, picture_share=after / bare_now, record_bytes=0.0, bare_now=bare_now, cached=True)
    return min(rate, cache_bytes_per_second(cache_parent()) / pictures.record_bytes)


def _rate_after(
    situation: Situation,
    *,
    picture_share: float,
    record_bytes: float,
    bare_now: float | None = None,
    cached: bool = False,
) -> float:
    """images/s once a picture's decoding takes `picture_share` of what it does, read from packed files.

    What changes with the pictures is the time of the bare loop; dispatching ops and copying a batch stay.
    """
    predictor, plan = situation.predictor, situation.plan
    work = predictor.work_seconds(plan)
    upstream = predictor.upstream_seconds(plan)
    read_now = CACHED_SECONDS if plan.cache != "none" else min(predictor.read_seconds(), MOST_READING * work)
    read_after = (
        CACHED_SECONDS if cached or plan.cache != "none" else PACKED_SECONDS + PACKED_SECONDS_PER_BYTE * record_bytes
    )
    saved = SAVED_SHARE * (1 - picture_share) * min(bare_now, work - read_now) if bare_now is not None else 0.0
    after = max(work - read_now + read_after - saved, read_after)
    readers = situation.cores if plan.cycle_length == "auto" else plan.cycle_length
    collecting = max(upstream - read_now / max(1, readers), 0.0 if cached else COLLECT_SECONDS_PER_BYTE * record_bytes)
    limit = 1 / (collecting + read_after / max(1, readers))
    return min(situation.images_per_second * work / after, limit)


def _more_cores(situation: Situation) -> list[Remedy]:
    needed = cores_needed(situation)
    if needed is None or needed <= situation.cores or situation.demand_images_per_second is None:
        return []
    demand = situation.demand_images_per_second
    per_core = situation.images_per_second / calls_at_once(situation.plan, situation.cores)
    picture_bytes = situation.recipe.batch_bytes / situation.recipe.batch_size
    workers = min(MOST_WORKERS, math.ceil((needed - situation.cores) / situation.cores))
    return [
        Remedy(
            title=f"Give the pipeline {math.ceil(needed)} cores.",
            images_per_second=per_core * math.ceil(needed),
            cost=f"feeding this step ({rate_words(demand)} images/s) needs {needed:.1f} cores; "
            f"there are {situation.cores}",
            how=f"a machine with {math.ceil(needed)} cores or more, and the same plan with as many calls",
        ),
        Remedy(
            title=f"Let {workers} more machine{'s' * (workers > 1)} of this size make batches (tf.data service).",
            images_per_second=per_core * situation.cores * (workers + 1),
            cost=f"{workers} machine{'s' * (workers > 1)} and {byte_words(demand * picture_bytes)}/s of network",
            how='dataset.apply(tf.data.experimental.service.distribute("distributed_epoch", "grpc://dispatcher:5000"))',
        ),
    ]
