"""build(data, recipe, plan): the one place where the order of the stages is written."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from dataio.data import Data, Order, Read, Shard
from dataio.errors import PlanError, RecipeError
from dataio.plan import Plan
from dataio.recipe import Recipe
from dataio.stages.batch_kernel import make_batch_decoder
from dataio.stages.boxing import add_boxes
from dataio.stages.cache_folder import CacheFolder
from dataio.stages.closing import close_iterators_at_exit
from dataio.stages.decoding import make_decoder
from dataio.stages.disk_cache import attach_cache, cached_on_disk
from dataio.stages.epochs import EpochClock, attach_clock
from dataio.stages.finishing import make_finisher
from dataio.stages.options import make_options
from dataio.stages.pixel_store import PixelStore, StoreHandle
from dataio.stages.transforming import make_transform
from dataio.stages.unpacking import decode_pixels, pack_pixels, unpack_pixels_in_graph

if TYPE_CHECKING:
    import tensorflow as tf


def build(
    data: Data,
    recipe: Recipe,
    plan: Plan | None = None,
    *,
    split: str = "train",
    training: bool = True,
    initial_epoch: int = 0,
    num_shards: int = 1,
    shard_index: int = 0,
    cache_dir: str | Path | None = None,
) -> tf.data.Dataset:
    """A tf.data pipeline of `(image, label)` batches with known cardinality; one iterator is one epoch.

    What a picture becomes depends on recipe, seed, epoch and record index alone, never on format, plan or timing.
    The order of stages: read (shuffled by epoch) or cache then shuffle; draw boxes; decode, cut, turn upright,
    resize, flip; dtype, normalisation, labels; batch; prefetch. With kernel `opencv` pictures are made after batching.

    Args:
        data: from `dataio.open`.
        recipe: what the model must see.
        plan: how to carry it out; `Plan()` leaves it to AUTOTUNE.
        split: name of the split.
        training: random crops, flips and order; False gives the evaluation crop, stored order, every record once.
        initial_epoch: number of the first iterator's epoch, from 0, for resuming.
        num_shards: replicas that share the split, at least 1.
        shard_index: which of them this pipeline feeds; each record goes to exactly one replica an epoch.
        cache_dir: where a plan that caches on disk makes the folder of its file, which is gone when the pipeline or the
            process is; None takes the environment's DATAIO_CACHE_DIR, else the system's folder for temporary files.

    Returns:
        A dataset of (image, label): image dtype[batch, height, width, 3], RGB; label int64[batch] or
        float32[batch, classes].

    Raises:
        DataNotFound: no such split.
        PlanError: the plan is not allowed for the recipe, or the shard holds no record.
        RecipeError: there are too few records for one whole batch, and the recipe drops what is not whole.
        MissingExtra: the plan's kernel needs packages that are not installed.
        DestinationError: the plan caches on disk, and cache_dir cannot be written or has too little room.
    """
    import tensorflow as tf

    plan = plan or Plan()
    plan.check(recipe)
    if not 0 <= shard_index < num_shards:
        raise PlanError(f"shard_index {shard_index} must be from 0 to num_shards - 1 = {num_shards - 1}")
    shard = Shard(num_shards, shard_index)
    count = shard.size(data.split(split).records)
    if count == 0:
        raise PlanError(
            f"{data.path}: split {split!r} has {data.split(split).records} records, "
            f"too few for {num_shards} shards; use fewer replicas"
        )
    drop_remainder = training and recipe.drop_remainder
    if drop_remainder and count < recipe.batch_size:
        raise RecipeError(
            f"{data.path}: the {count} records of split {split!r} do not fill a single batch of {recipe.batch_size}: "
            "training would see nothing; use a smaller batch_size, or Recipe(drop_remainder=False)"
        )
    if data.format != "tfrecord" or plan.caches_on_disk:
        close_iterators_at_exit()  # the other formats are read by Python functions; one minds the cache's file
    clock = EpochClock(initial_epoch)
    folder = None
    if plan.caches_on_disk:
        # Decoded pictures are larger by a factor that only decoding tells: writing them minds the room that is left.
        needed_bytes = data.split(split).bytes * count // max(1, data.split(split).records)
        folder = CacheFolder.create(cache_dir, needed_bytes=needed_bytes)
    store = PixelStore() if _encoding(data, plan) == "kept" else None
    records = _records_with_epoch(data, recipe, plan, split, training, shard, clock, folder, store)
    records = records.apply(tf.data.experimental.assert_cardinality(count))
    finish = make_finisher(recipe, len(data.class_names))
    if recipe.transform is not None:
        close_iterators_at_exit()  # the transform may be a Python function
        batches = _transformed(records, data, recipe, plan, training, store)
    elif plan.kernel == "opencv":
        close_iterators_at_exit()
        decode_batch = make_batch_decoder(_encoding(data, plan), recipe, plan, training=training, store=store)
        batches = records.batch(recipe.batch_size, drop_remainder=drop_remainder)
        batches = batches.map(lambda batch: finish(decode_batch(batch)), **_calls(plan))
    else:
        records = add_boxes(records, recipe, training=training)
        decode = _picture_decoder(data, recipe, plan)
        # Normalised a picture at a time: a batch of float32 passes the allocator's largest reusable block, so that
        # every op on it would fault in 38 MB of fresh pages (700 us a picture instead of 150).
        pictures = records.map(lambda record: finish(decode(record)), **_calls(plan))
        batches = pictures.batch(recipe.batch_size, drop_remainder=drop_remainder)
    if plan.prefetch == "auto":
        batches = batches.prefetch(tf.data.AUTOTUNE) if plan.autotune else batches
    elif plan.prefetch > 0:
        batches = batches.prefetch(plan.prefetch)
    return attach_cache(attach_clock(batches.with_options(make_options(plan)), clock), folder or store)


def _transformed(
    records: tf.data.Dataset, data: Data, recipe: Recipe, plan: Plan, training: bool, store: PixelStore | None
) -> tf.data.Dataset:
    """Finished batches with the user's transform, a stage of its own so that its cost is one too."""
    drop_remainder = training and recipe.drop_remainder
    transform = make_transform(recipe, training=training)
    finish = make_finisher(recipe, len(data.class_names))
    calls = _calls(plan)
    if plan.kernel == "opencv":
        # This kernel normalises as it goes; the transform wants plain pixels.
        plain = recipe.replace(dtype="uint8", normalisation="none")
        decode = make_batch_decoder(_encoding(data, plan), plain, plan, training=training, store=store)
        batches = records.batch(recipe.batch_size, drop_remainder=drop_remainder)
        batches = batches.map(lambda batch: _keep_place(decode(batch), batch), **calls)
    else:
        decode = _picture_decoder(data, recipe, plan)
        records = add_boxes(records, recipe, training=training)
        pictures = records.map(lambda record: _keep_place(decode(record), record), **calls)
        if recipe.transform_per == "picture":
            pictures = pictures.map(transform, **calls).map(finish, **calls)
            return pictures.batch(recipe.batch_size, drop_remainder=drop_remainder)
        batches = pictures.batch(recipe.batch_size, drop_remainder=drop_remainder)
    return batches.map(transform, **calls).map(finish, **calls)


def _keep_place(picture: dict[str, tf.Tensor], record: dict[str, tf.Tensor]) -> dict[str, tf.Tensor]:
    """A decoded picture with what the transform's seed is made of."""
    return picture | {"index": record["index"], "epoch": record["epoch"]}


def _records_with_epoch(
    data: Data,
    recipe: Recipe,
    plan: Plan,
    split: str,
    training: bool,
    shard: Shard,
    clock: EpochClock,
    folder: CacheFolder | None,
    store: PixelStore | None,
) -> tf.data.Dataset:
    """Records with their `epoch` int64[]. The number is drawn once an iterator and everything that depends on it is
    made inside flat_map, so that order and crops always belong to the same epoch, also with several iterators."""
    import tensorflow as tf

    read = _read(plan)
    shuffled = training and recipe.shuffle
    cached = None
    if plan.cache != "none":
        # Cached in stored order, before anything random: a shuffle above a cache would be frozen by it.
        cached = data.records(split, read=read, shard=shard)
        if store is not None:
            cached = cached.map(StoreHandle(store).keep_pixels, **_calls(plan))
        elif _encoding(data, plan) != data.encoding:
            keep = pack_pixels if folder is not None else decode_pixels
            cached = cached.map(lambda record: keep(record, data.encoding), **_calls(plan))
        if folder is None:
            cached = cached.cache()

    def of_epoch(epoch: tf.Tensor) -> tf.data.Dataset:
        if cached is not None:
            records = cached
            if folder is not None:
                found = data.split(split)
                records = cached_on_disk(
                    cached,
                    folder,
                    record_bytes=found.bytes / max(1, found.records),
                    decoded=_encoding(data, plan) == "packed",
                )
            if shuffled:
                seed = tf.bitwise.bitwise_xor(tf.constant(recipe.seed, tf.int64), epoch * 0x5851F42D4C957F2D + 1)
                records = records.shuffle(recipe.shuffle_buffer, seed=seed, reshuffle_each_iteration=False)
        else:
            order = Order(recipe.seed, tf.data.Dataset.from_tensors(epoch), recipe.shuffle_buffer)
            records = data.records(split, read=read, order=order if shuffled else Order(), shard=shard)
        return records.map(lambda record: record | {"epoch": epoch})

    return clock.token().flat_map(of_epoch)


def _encoding(data: Data, plan: Plan) -> str:
    """What `image` holds when pictures are made: as stored, or what the plan's cache of decoded pictures keeps.

    `packed`: pixels as a string, in a file; `kept`: a place in a `PixelStore`; `raw`: uint8[height, width, 3].
    """
    if not plan.caches_decoded or data.encoding == "raw":
        return data.encoding
    if plan.caches_on_disk:
        return "packed"
    return "kept" if plan.kernel == "opencv" else "raw"


def _picture_decoder(data: Data, recipe: Recipe, plan: Plan) -> Callable[[dict[str, tf.Tensor]], dict[str, tf.Tensor]]:
    """From a record with box and flip to a picture, by TensorFlow's ops, whatever its image holds."""
    encoding = _encoding(data, plan)
    if encoding != "packed":
        return make_decoder(encoding, recipe, plan)
    decode = make_decoder("raw", recipe, plan)
    return lambda record: decode(unpack_pixels_in_graph(record))


def _read(plan: Plan) -> Read:
    serial = None if plan.autotune else 1
    return Read(
        cycle_length=serial if plan.cycle_length == "auto" else plan.cycle_length,
        block_length=None if plan.block_length == "auto" else plan.block_length,
        deterministic=plan.deterministic,
    )


def _calls(plan: Plan) -> dict[str, int]:
    """Arguments of `map`: none at all for a serial one."""
    import tensorflow as tf

    calls = plan.num_parallel_calls
    if calls == "auto":
        calls = tf.data.AUTOTUNE if plan.autotune else 1
    return {} if calls == 1 else {"num_parallel_calls": calls}
