"""The pipeline's promises: pictures depend on recipe, seed, epoch and index alone; counts are known; epochs move on."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

from dataio.bench.traps.graph import read_pipeline
from dataio.errors import DataNotFound, PlanError, RecipeError
from dataio.pipeline import build
from dataio.plan import Plan
from dataio.recipe import Recipe
from dataio.stages.epochs import epoch_clock

from .conftest import MemoryData, make_picture, upright_pixels

ROOT = Path(__file__).resolve().parents[2]
EXACT = Recipe(image_size=32, batch_size=5, dtype="uint8", fidelity="exact", drop_remainder=False, seed=7)
PLANS = {
    "autotune": Plan(),
    "naive": Plan(num_parallel_calls=1, cycle_length=1, prefetch=0, autotune=False),
    "parallel": Plan(num_parallel_calls=4, cycle_length=2, block_length=3, prefetch=2),
    "unordered": Plan(num_parallel_calls=3, deterministic=False),
    "cached": Plan(cache="memory"),
    "two threads": Plan(threads=2, num_parallel_calls=2),
}


def pictures(dataset: tf.data.Dataset) -> Counter[bytes]:
    """The multiset of (picture, label) that one pass yields."""
    found: Counter[bytes] = Counter()
    for images, labels in dataset:
        for image, label in zip(images.numpy(), labels.numpy(), strict=True):
            found[image.tobytes() + label.tobytes()] += 1
    return found


def in_order(dataset: tf.data.Dataset) -> np.ndarray:
    return np.concatenate([images.numpy() for images, _ in dataset])


@pytest.mark.parametrize("plan", PLANS.values(), ids=PLANS.keys())
@pytest.mark.parametrize("training", [True, False])
def test_under_exact_every_plan_gives_the_same_pictures_bit_for_bit(
    memory_data: MemoryData, plan: Plan, training: bool
) -> None:
    reference = build(memory_data, EXACT, PLANS["naive"], training=training)
    dataset = build(memory_data, EXACT, plan, training=training)
    for _ in range(2):  # two epochs
        expected = pictures(reference)
        assert expected.total() == 24
        assert pictures(dataset) == expected


@pytest.mark.parametrize("plan", [Plan(), Plan(cache="memory")], ids=["read", "cached"])
def test_every_epoch_shows_other_crops_and_a_second_run_the_same_again(memory_data: MemoryData, plan: Plan) -> None:
    first, second = build(memory_data, EXACT, plan), build(memory_data, EXACT, plan)
    epochs = [pictures(first) for _ in range(3)]
    assert epochs == [pictures(second) for _ in range(3)]
    assert not epochs[0] & epochs[1] and not epochs[1] & epochs[2]


@pytest.mark.parametrize("plan", [Plan(), Plan(cache="memory")], ids=["read", "cached"])
def test_training_order_changes_with_the_epoch_and_repeats_with_the_seed(memory_data: MemoryData, plan: Plan) -> None:
    recipe = EXACT.replace(crop="resize", flip=False)
    dataset, again = build(memory_data, recipe, plan), build(memory_data, recipe, plan)
    first, second = in_order(dataset), in_order(dataset)
    assert not np.array_equal(first, second)
    np.testing.assert_array_equal(first, in_order(again))


def test_fixed_numbers_without_autotuning_run_in_parallel_and_prefetch(memory_data: MemoryData) -> None:
    plan = Plan(autotune=False, num_parallel_calls=3, cycle_length=2, prefetch=2)
    dataset = build(memory_data, EXACT, plan)
    assert dataset.options().autotune.enabled is False
    pipeline = read_pipeline(dataset)
    assert [one.number(0) for one in pipeline.of("ParallelMap")] == [2, 3], "readers, and pictures at once"
    assert pipeline.last.kind == "Prefetch"
    assert pipeline.last.number(0) == 2


def test_initial_epoch_resumes_where_an_earlier_run_stopped(memory_data: MemoryData) -> None:
    whole = build(memory_data, EXACT)
    epochs = [in_order(whole) for _ in range(3)]
    np.testing.assert_array_equal(in_order(build(memory_data, EXACT, initial_epoch=2)), epochs[2])
    epoch_clock(whole.prefetch(1)).set_next(1)
    np.testing.assert_array_equal(in_order(whole), epochs[1])


def test_two_iterators_at_once_each_keep_their_own_epoch(memory_data: MemoryData) -> None:
    reference = build(memory_data, EXACT, PLANS["naive"])
    epochs = [in_order(reference), in_order(reference)]
    dataset = build(memory_data, EXACT, Plan(prefetch=0))
    one, two = iter(dataset), iter(dataset)
    mixed: tuple[list[np.ndarray], list[np.ndarray]] = ([], [])
    for (images, _), (others, _) in zip(one, two, strict=True):
        mixed[0].append(images.numpy())
        mixed[1].append(others.numpy())
    np.testing.assert_array_equal(np.concatenate(mixed[0]), epochs[0])
    np.testing.assert_array_equal(np.concatenate(mixed[1]), epochs[1])


def test_evaluation_shows_every_record_once_in_stored_order_upright(memory_data: MemoryData) -> None:
    recipe = EXACT.replace(crop="resize", image_size=(90, 120))
    shown = in_order(build(memory_data, recipe, training=False))
    for number, picture in enumerate(shown):
        expected = tf.image.resize(upright_pixels(number), (90, 120)).numpy()
        assert np.abs(picture - expected).mean() < 3, f"picture {number} is not upright"


def test_fused_decoding_stays_within_the_stated_tolerance(memory_data: MemoryData) -> None:
    recipe = EXACT.replace(fidelity="close", shuffle=False)
    full = in_order(build(memory_data, recipe)).astype(int)
    fused = in_order(build(memory_data, recipe, Plan(fused_decode_and_crop=True))).astype(int)
    assert np.abs(full - fused).mean(axis=(1, 2, 3)).max() <= 2


def test_png_files_are_read_like_jpegs() -> None:
    data = MemoryData([make_picture(number, 1, "PNG") for number in range(4)], encoding="png")
    recipe = EXACT.replace(crop="resize", image_size=(90, 120))
    shown = in_order(build(data, recipe, training=False))
    expected = tf.image.resize(upright_pixels(0), (90, 120)).numpy()
    assert np.abs(shown[0] - expected).max() <= 0.5


@pytest.mark.parametrize(
    ("training", "drop", "batches"), [(True, True, 4), (True, False, 5), (False, True, 5), (False, False, 5)]
)
def test_the_number_of_batches_is_known_and_true(
    memory_data: MemoryData, training: bool, drop: bool, batches: int
) -> None:
    dataset = build(memory_data, EXACT.replace(drop_remainder=drop), training=training)
    assert int(dataset.cardinality()) == batches == len(list(dataset))


@pytest.mark.parametrize("shards", [1, 2, 5, 7])
@pytest.mark.parametrize("plan", [Plan(), Plan(cache="memory")], ids=["read", "cached"])
def test_over_all_shards_each_record_comes_exactly_once_an_epoch(
    memory_data: MemoryData, plan: Plan, shards: int
) -> None:
    everything = pictures(build(memory_data, EXACT))
    parts = [build(memory_data, EXACT, plan, num_shards=shards, shard_index=number) for number in range(shards)]
    assert sum((pictures(part) for part in parts), Counter()) == everything


@pytest.mark.parametrize(
    ("changes", "low", "high", "dtype"),
    [
        ({"dtype": "float32", "normalisation": "unit"}, 0, 1, tf.float32),
        ({"dtype": "float16", "normalisation": "signed"}, -1, 1, tf.float16),
        ({"dtype": "bfloat16", "normalisation": "imagenet"}, -2.2, 2.7, tf.bfloat16),
        ({"dtype": "float32", "normalisation": "none"}, 0, 255, tf.float32),
    ],
)
def test_pixels_come_in_the_dtype_and_range_of_the_recipe(
    memory_data: MemoryData, changes: dict[str, str], low: float, high: float, dtype: tf.DType
) -> None:
    images, labels = next(iter(build(memory_data, EXACT.replace(**changes), training=False)))
    assert images.dtype == dtype and labels.dtype == tf.int64
    values = tf.cast(images, tf.float32).numpy()
    assert low <= values.min() < values.max() <= high
    assert values.max() - values.min() > 0.5 * (high - low)


def test_categorical_labels_are_one_hot(memory_data: MemoryData) -> None:
    _, labels = next(iter(build(memory_data, EXACT.replace(label_mode="categorical"), training=False)))
    assert labels.shape == (5, 3) and labels.numpy().argmax(axis=1).tolist() == [0, 1, 2, 0, 1]
    assert labels.numpy().sum() == 5


def test_what_cannot_be_is_refused_with_the_remedy(memory_data: MemoryData) -> None:
    with pytest.raises(PlanError, match="fidelity"):
        build(memory_data, EXACT, Plan(fused_decode_and_crop=True))
    with pytest.raises(DataNotFound, match="train"):
        build(memory_data, EXACT, split="validation")
    with pytest.raises(PlanError, match="fewer replicas"):
        build(memory_data, EXACT, num_shards=30, shard_index=0)
    with pytest.raises(RecipeError, match="smaller batch_size"):
        build(memory_data, EXACT.replace(drop_remainder=True, batch_size=25))
    with pytest.raises(PlanError, match="shard_index"):
        build(memory_data, EXACT, num_shards=2, shard_index=2)


def test_a_process_that_keeps_an_iterator_ends_by_itself(tmp_path: Path) -> None:
    script = tmp_path / "keep.py"
    script.write_text(
        "import numpy as np, tensorflow as tf\n"
        "from dataio.stages.closing import close_iterators_at_exit\n"
        "close_iterators_at_exit()\n"
        "slow = lambda x: np.int64(sum(range(20000)) + x)\n"
        "data = tf.data.Dataset.range(10**6).map(lambda x: tf.numpy_function(slow, [x], tf.int64),\n"
        "    num_parallel_calls=4).repeat().prefetch(8)\n"
        "iterator = iter(data)\n"
        "print(len([next(iterator) for _ in range(20)]))\n"
    )
    done = subprocess.run(
        [sys.executable, script],
        capture_output=True,
        timeout=60,
        check=False,
        text=True,
        cwd=ROOT,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
    )
    assert (done.returncode, done.stdout) == (0, "20\n"), done.stderr
