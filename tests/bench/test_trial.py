"""A trial of raw pixels: the pipeline that would read them, on a sample in memory."""

from __future__ import annotations

import numpy as np
import pytest

from dataio.bench import trial
from dataio.bench.bare import Sample, stored_raw, take_sample
from dataio.bench.measuring import measure_supply
from dataio.bench.trial import RawSample, try_cache, try_raw
from dataio.data import Read, Shard
from dataio.pipeline import build
from dataio.plan import Plan
from dataio.recipe import Recipe

from .test_bounds import Pictures

RECIPE = Recipe(image_size=32, batch_size=4, dtype="uint8")


@pytest.fixture(scope="module")
def sample() -> Sample:
    return stored_raw(take_sample(Pictures(3), split="train"), 48)


@pytest.mark.parametrize("calls", [None, 1, 2])
def test_a_trial_reads_and_sums_the_sample_over_and_over(
    sample: Sample, monkeypatch: pytest.MonkeyPatch, calls: int | None
) -> None:
    data = RawSample(Pictures(3), sample, split="train", records=130)
    summed: list[bytes] = []
    monkeypatch.setattr(trial.google_crc32c, "value", summed.append)
    rows = list(data.records("train", read=Read(cycle_length=calls)).as_numpy_iterator())
    assert len(summed) == 130 and set(summed) == {pixels.tobytes() for pixels in sample.images}
    assert [int(row["index"]) for row in rows] == list(range(130))
    assert all(np.array_equal(row["image"], sample.images[i % 3]) for i, row in enumerate(rows))
    assert all((row["height"], row["width"], row["orientation"]) == (48, 48, 1) for row in rows)
    assert len(list(data.records("train", shard=Shard(4, 1)))) == Shard(4, 1).size(130)


@pytest.mark.parametrize("kernel", ["tensorflow", "opencv"])
def test_a_trial_makes_the_pictures_of_its_plan(sample: Sample, kernel: str) -> None:
    data = RawSample(Pictures(3), sample, split="train", records=8)
    plan = Plan(kernel=kernel, num_parallel_calls=2)  # type: ignore[arg-type]
    images, labels = next(iter(build(data, RECIPE, plan, training=False)))
    assert images.shape == (4, 32, 32, 3) and labels.numpy().tolist() == [0] * 4
    assert np.array_equal(images[3], images[0]) and not np.array_equal(images[1], images[0])


def test_a_trial_takes_batches_larger_than_the_sample(sample: Sample) -> None:
    plan = Plan(kernel="opencv", num_parallel_calls=2, prefetch=2)
    assert try_raw(Pictures(3), sample, RECIPE.replace(batch_size=512), plan, split="train") > 0


def test_a_sample_is_laid_out_over_more_memory_than_the_processor_keeps_at_hand(
    sample: Sample, monkeypatch: pytest.MonkeyPatch
) -> None:
    def held(records: int) -> int:
        return len(RawSample(Pictures(3), sample, split="train", records=records)._images)

    assert held(2) == 3 and held(130) == 129
    monkeypatch.setattr(trial, "SPREAD_BYTES", 10 * sample.record_bytes)
    assert held(130) == 9
    monkeypatch.setattr(trial, "usable_memory_bytes", lambda: 0)
    assert held(130) == 3


@pytest.mark.parametrize(("images_per_second", "parts"), [(1.0, 3), (40.0, 2), (1e6, 1)])
def test_a_cache_is_tried_on_as_many_pictures_as_fill_it_in_time(
    monkeypatch: pytest.MonkeyPatch, images_per_second: float, parts: int
) -> None:
    built: list[int] = []
    filled: list[object] = []

    def measured(*arguments: object, **named: object) -> object:
        filled.append(named["whole_first_epoch"])
        return measure_supply(*arguments, **named)  # type: ignore[arg-type]

    def counted(*arguments: object, num_shards: int, **named: object) -> object:
        built.append(num_shards)
        return build(*arguments, num_shards=num_shards, **named)  # type: ignore[arg-type]

    monkeypatch.setattr(trial, "build", counted)
    monkeypatch.setattr(trial, "measure_supply", measured)
    monkeypatch.setattr(trial, "WARM_UP_SECONDS", 0.1)
    plan = Plan(kernel="opencv", num_parallel_calls=2, prefetch=2, cache="decoded")
    data = Pictures(96)  # 32 are eight batches
    assert try_cache(data, RECIPE, plan, split="train", images_per_second=images_per_second) > 0
    assert built == [parts] and filled == [["tried"]]
