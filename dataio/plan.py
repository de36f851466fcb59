"""The plan: how a recipe is carried out. Tuning decides it; it never changes what the model sees beyond `fidelity`."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from pydantic import Field

from dataio.errors import DataioError, PlanError
from dataio.recipe import Recipe
from dataio.records import Record

Count = Annotated[int, Field(ge=1, le=4096)]


class Plan(Record):
    """How a pipeline runs. `Plan()` leaves every choice to tf.data's AUTOTUNE, as the performance guide does."""

    error: ClassVar[type[DataioError]] = PlanError

    schema_version: Literal[1] = 1
    """Form of this record in JSON."""
    num_parallel_calls: Count | Literal["auto"] = "auto"
    """Pictures decoded and transformed at once. 1 is truly serial: the rewrite `map_parallelization` is off."""
    cycle_length: Count | Literal["auto"] = "auto"
    """Readers at work at once: shards interleaved (TFRecord) or blocks of records read in parallel (the others)."""
    block_length: Count | Literal["auto"] = "auto"
    """Consecutive records that a reader gives at a time. auto: 16 for TFRecord, 50 for block reads."""
    cache: Literal["none", "memory", "decoded", "disk", "decoded_disk"] = "none"
    """What is kept after the first epoch, before any randomness; crops stay random. memory: the records as they are
    stored, in memory. decoded: whole pictures as pixels, in memory, some ten times as many bytes; nothing is decoded
    again. disk, decoded_disk: the same in a file that goes with the pipeline; `build(cache_dir=...)` says where."""
    prefetch: Annotated[int, Field(ge=0, le=4096)] | Literal["auto"] = "auto"
    """Finished batches kept ready. 0: none, made while the step waits; the injected prefetch is off too."""
    fused_decode_and_crop: bool = False
    """Decode only the part of the JPEG that the crop needs (tf.image.decode_and_crop_jpeg). `close`, not `exact`."""
    kernel: Literal["tensorflow", "opencv"] = "tensorflow"
    """Who cuts, resizes and flips. `opencv` (extra `fast`): one Python call a batch, with OpenCV and simplejpeg;
    differs by 1 level from TensorFlow's ops, a picture a call. `close`, not `exact`."""
    threads: Count | Literal["auto"] = "auto"
    """Size of the pipeline's own thread pool. auto: the cores this process may use (affinity and cgroup quota)."""
    deterministic: bool = True
    """Batches in the same order every time. False lets a slow picture be overtaken; pictures stay the same."""
    autotune: bool = True
    """tf.data's autotuning of what is `auto`. Without it every `auto` is 1, and nothing is prefetched."""
    autotune_algorithm: Literal["default", "stage_based"] = "default"
    """How AUTOTUNE decides: tf.data.experimental.AutotuneAlgorithm's DEFAULT or STAGE_BASED."""

    @property
    def caches_decoded(self) -> bool:
        """Whether what is kept are decoded pictures."""
        return self.cache in ("decoded", "decoded_disk")

    @property
    def caches_on_disk(self) -> bool:
        """Whether what is kept lies in a file."""
        return self.cache in ("disk", "decoded_disk")

    def check(self, recipe: Recipe) -> None:
        """Raises PlanError when this plan may not be used for `recipe`."""
        if self.kernel == "opencv" and recipe.fidelity == "exact":
            raise PlanError(
                "the plan resizes with OpenCV, which rounds differently, but the recipe asks for fidelity 'exact': "
                "use fidelity 'close' or kernel 'tensorflow'"
            )
        if self.fused_decode_and_crop and self.caches_decoded:
            raise PlanError("the plan caches decoded pictures, so that nothing is left to fuse: drop one of the two")
        if self.fused_decode_and_crop and recipe.fidelity == "exact":
            raise PlanError(
                "the plan fuses decoding and cropping, which changes edge pixels, but the recipe asks for "
                "fidelity 'exact': use fidelity 'close' or fused_decode_and_crop=False"
            )
