"""The user's own transform sees finished pixels, and is the same under every plan."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
import tensorflow as tf

from dataio.bench.traps import find_traps
from dataio.errors import RecipeError
from dataio.pipeline import build
from dataio.plan import Plan
from dataio.recipe import Recipe
from dataio.stages.transforming import seeds_in_graph
from tests.dataio.conftest import MemoryData, make_picture

FUNCTIONS = "tests.dataio.transforms"
PLAIN = Recipe(image_size=32, batch_size=5, dtype="uint8", drop_remainder=False, seed=7)
PLANS = {
    "autotune": Plan(),
    "serial": Plan(num_parallel_calls=1, cycle_length=1, prefetch=0, autotune=False),
    "cached": Plan(cache="memory", num_parallel_calls=3),
}


@pytest.fixture(scope="module")
def data() -> MemoryData:
    return MemoryData([make_picture(number, number % 8 + 1) for number in range(24)])


def pictures(dataset: tf.data.Dataset) -> Counter[bytes]:
    return Counter(image.tobytes() for images, _ in dataset for image in images.numpy())


@pytest.mark.parametrize("per", ["picture", "batch"])
@pytest.mark.parametrize("kernel", ["tensorflow", "opencv"])
def test_a_transform_sees_what_the_model_would_have_seen(data: MemoryData, per: str, kernel: str) -> None:
    plan = Plan(kernel=kernel)
    recipe = PLAIN.replace(transform=f"{FUNCTIONS}:invert", transform_per=per)
    plain = Counter((255 - np.frombuffer(image, np.uint8)).tobytes() for image in pictures(build(data, PLAIN, plan)))
    assert pictures(build(data, recipe, plan)) == plain


@pytest.mark.parametrize("plan", PLANS.values(), ids=PLANS.keys())
def test_a_random_transform_is_the_same_under_every_plan_and_another_in_every_epoch(
    data: MemoryData, plan: Plan
) -> None:
    recipe = PLAIN.replace(transform=f"{FUNCTIONS}:brighten", crop="resize", flip=False)
    reference, dataset = build(data, recipe, PLANS["serial"]), build(data, recipe, plan)
    first, second = pictures(reference), pictures(reference)
    assert pictures(dataset) == first
    assert pictures(dataset) == second
    assert first != second


def test_a_batch_gets_the_seeds_of_its_pictures(data: MemoryData) -> None:
    each = PLAIN.replace(transform=f"{FUNCTIONS}:brighten")
    batch = PLAIN.replace(transform=f"{FUNCTIONS}:brighten_batch", transform_per="batch")
    assert pictures(build(data, each)) == pictures(build(data, batch))


def test_a_function_for_one_picture_gets_single_ones_from_a_kernel_for_batches(data: MemoryData) -> None:
    recipe = PLAIN.replace(transform=f"{FUNCTIONS}:brighten", crop="resize", flip=False)
    exact = [images.numpy() for images, _ in build(data, recipe, Plan(), training=True)]
    close = [images.numpy() for images, _ in build(data, recipe, Plan(kernel="opencv"), training=True)]
    difference = np.abs(np.concatenate(exact).astype(int) - np.concatenate(close))
    assert difference.mean() < 2  # the same amounts were added; pixels differ by the kernel's rounding alone


def test_evaluation_is_told_to_the_function(data: MemoryData) -> None:
    recipe = PLAIN.replace(transform=f"{FUNCTIONS}:brighten")
    assert pictures(build(data, recipe, training=False)) == pictures(build(data, PLAIN, training=False))


def test_normalisation_comes_after_the_transform(data: MemoryData) -> None:
    recipe = Recipe(image_size=32, batch_size=24, transform=f"{FUNCTIONS}:invert", normalisation="unit", seed=7)
    ((images, _),) = list(build(data, recipe))
    ((plain, _),) = list(build(data, PLAIN.replace(batch_size=24)))
    np.testing.assert_allclose(images, (255 - plain.numpy()) / 255, atol=1e-6)


def test_a_python_function_is_called_out_as_a_limit(data: MemoryData) -> None:
    dataset = build(data, PLAIN.replace(transform=f"{FUNCTIONS}:in_python"))
    functions = [
        trap for trap in find_traps(dataset) if trap.name == "python-function" and "each element" in trap.finding
    ]
    assert functions
    assert pictures(dataset) == pictures(build(data, PLAIN.replace(transform=f"{FUNCTIONS}:invert")))


@pytest.mark.parametrize(
    ("transform", "message"),
    [
        (f"{FUNCTIONS}:widen", r"returned float32\[32, 32, 3\]"),
        (f"{FUNCTIONS}:shrink", r"returned uint8\[31, 32, 3\]"),
        (f"{FUNCTIONS}:missing", "has no 'missing'"),
    ],
)
def test_what_is_wrong_with_a_transform_is_said_when_the_pipeline_is_built(
    data: MemoryData, transform: str, message: str
) -> None:
    with pytest.raises(RecipeError, match=message):
        build(data, PLAIN.replace(transform=transform))


def test_a_recipe_refuses_what_is_no_name_of_a_function() -> None:
    with pytest.raises(RecipeError, match="transform"):
        Recipe(transform="invert")


def test_seeds_differ_by_record_epoch_and_recipe() -> None:
    index = tf.range(1000, dtype=tf.int64)
    of = {
        (seed, epoch): {
            tuple(pair) for pair in seeds_in_graph(seed, tf.constant(epoch, tf.int64), index).numpy().tolist()
        }
        for seed in (0, 1)
        for epoch in (0, 1)
    }
    assert all(len(pairs) == 1000 for pairs in of.values())
    assert len(set().union(*of.values())) == 4000
