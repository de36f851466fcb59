"""Memory and disk that a plan will take, predicted before anything of it is built."""

from __future__ import annotations

from dataclasses import dataclass

from dataio.bench.cache_disk import lies_in_memory
from dataio.bench.predicting import PIXELS_A_BYTE, calls_at_once
from dataio.data import Data
from dataio.plan import Plan
from dataio.recipe import Recipe
from dataio.stages.cache_folder import DISK_SHARE, cache_parent, cache_room_bytes

#: Share of the free memory that a pipeline may take. The rest is for the model, its batches and the page cache.
MEMORY_SHARE = 0.8

#: Bytes that a cached record takes beside its image: six tensors and the vector that holds them.
#: Source: own measurement: 350 to 650 bytes with images of 100 bytes (100,000 records cached); doubled, since a cache
#: that turns out too large ends the process.
RECORD_BYTES = 1500

#: Bytes that a record in a file takes beside its image: five numbers and their checksums.
#: Source: own measurement: 90,021 bytes a record for images of 89,850.
FILED_RECORD_BYTES = 200

#: Batches that an automatic prefetch is taken to hold. AUTOTUNE starts at 1 to 2 and grows the buffer while the
#: consumer waits; a consumer that is slower than the pipeline lets it grow no further.
AUTO_PREFETCH = 4

#: Bytes of a picture while it is decoded, resized and copied, beyond the record: 500 x 375 in three channels, twice.
PICTURE_BYTES = 1_200_000

#: Records that a reader of blocks holds. Source: dataio.converters.blocks.
BLOCK_RECORDS = 50


@dataclass(frozen=True, slots=True)
class Footprint:
    """Bytes that a pipeline keeps, by what for; in memory where nothing else is said."""

    cache_bytes: int
    """Records kept after the first epoch."""
    shuffle_bytes: int
    """Records waiting to be drawn."""
    batch_bytes: int
    """Finished batches, and those in the making."""
    work_bytes: int
    """Records being read and pictures being decoded."""
    disk_bytes: int = 0
    """Records kept in a file after the first epoch."""

    @property
    def total_bytes(self) -> int:
        """All that lies in memory."""
        return self.cache_bytes + self.shuffle_bytes + self.batch_bytes + self.work_bytes


def predict_footprint(
    data: Data,
    recipe: Recipe,
    plan: Plan,
    *,
    split: str,
    cores: int,
    picture_bytes: float | None = None,
    whole: float = 1.0,
) -> Footprint:
    """What `plan` will hold for the whole split, whatever part of it is measured.

    Args:
        data: the dataset.
        recipe: what a batch is.
        plan: the plan.
        split: name of the split.
        cores: cores that the process may use.
        picture_bytes: mean bytes of a decoded picture, for plans that cache those; taken to be `PIXELS_A_BYTE` times
            those of the record when None.
        whole: how many times as large the dataset is of which `data` is a sample: a cache must hold that.
    """
    found = data.split(split)
    record = found.bytes / max(1, found.records)
    # Records in a memory cache are shuffled where they are; those that come from a file or a stream are held besides.
    shuffled = recipe.shuffle and (plan.caches_on_disk or (plan.cache == "none" and not data.random_access))
    calls = calls_at_once(plan, cores)
    prefetch = plan.prefetch if plan.prefetch != "auto" else AUTO_PREFETCH if plan.autotune else 0
    # One batch is with the consumer, one is being filled; the opencv kernel fills one a call.
    making = plan.num_parallel_calls if isinstance(plan.num_parallel_calls, int) else calls
    batches = prefetch + 1 + (making if plan.kernel == "opencv" else 1)
    collected = making * recipe.batch_size if plan.kernel == "opencv" else 0
    readers = cores if plan.cycle_length == "auto" else plan.cycle_length
    block = BLOCK_RECORDS if plan.block_length == "auto" else plan.block_length
    kept = record
    if plan.caches_decoded and data.encoding != "raw":
        kept = picture_bytes if picture_bytes is not None else record * PIXELS_A_BYTE
    held = kept if plan.caches_on_disk else record
    in_memory = plan.cache != "none" and not plan.caches_on_disk
    return Footprint(
        cache_bytes=round(whole * found.records * (kept + RECORD_BYTES)) if in_memory else 0,
        shuffle_bytes=round(min(recipe.shuffle_buffer, found.records) * (held + RECORD_BYTES)) if shuffled else 0,
        batch_bytes=batches * recipe.batch_bytes,
        work_bytes=round((readers * block + 2 * collected) * record + making * PICTURE_BYTES),
        disk_bytes=round(whole * found.records * (kept + FILED_RECORD_BYTES)) if plan.caches_on_disk else 0,
    )


def refusal(footprint: Footprint, *, free_bytes: int, disk_room_bytes: int | None = None) -> str | None:
    """Why a plan is not tried on this machine, or None: what does not fit would be killed, not slow.

    Args:
        footprint: what the plan takes.
        free_bytes: memory that may still be taken.
        disk_room_bytes: what a cache on disk may take; that of the folder where `build` puts it when None.
    """
    limit = MEMORY_SHARE * free_bytes
    if footprint.total_bytes > limit:
        most = "keeping the split in memory" if footprint.cache_bytes > footprint.total_bytes / 2 else "its buffers"
        return (
            f"needs {footprint.total_bytes / 1e9:.1f} GB, most of it for {most}; "
            f"{MEMORY_SHARE:.0%} of the {free_bytes / 1e9:.1f} GB that are free is the limit"
        )
    if footprint.disk_bytes == 0:
        return None
    if disk_room_bytes is None:
        parent = cache_parent()
        if lies_in_memory(parent):
            return f"its cache on disk would lie in memory: {parent} does; set DATAIO_CACHE_DIR to a folder on a disk"
        disk_room_bytes = cache_room_bytes(parent)
    if footprint.disk_bytes <= disk_room_bytes:
        return None
    return (
        f"needs {footprint.disk_bytes / 1e9:.1f} GB on disk for its cache, and {disk_room_bytes / 1e9:.1f} GB may be "
        f"taken in {cache_parent()} ({DISK_SHARE:.0%} of what is free); set DATAIO_CACHE_DIR to a folder with more room"
    )
