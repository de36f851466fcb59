"""The store of decoded pictures: right pixels, filled once, and gone with the pipeline."""

from __future__ import annotations

import gc
import io
import sys
import weakref
from collections import Counter

import numpy as np
import pytest
import tensorflow as tf
from PIL import Image

from dataio.errors import PlanError
from dataio.pipeline import build
from dataio.plan import Plan
from dataio.recipe import Recipe
from dataio.stages import pixel_store
from dataio.stages.pixel_store import PixelStore, StoreHandle
from tests.dataio.conftest import MemoryData

RECIPE = Recipe(image_size=32, batch_size=5, dtype="uint8", drop_remainder=False, seed=7)
WHOLE = Plan(kernel="opencv")
KEPT = Plan(kernel="opencv", cache="decoded", num_parallel_calls=3)


def pictures(dataset: tf.data.Dataset) -> Counter[bytes]:
    return Counter(image.tobytes() for batch, _ in dataset for image in batch.numpy())


def encoded(form: str) -> tuple[bytes, np.ndarray]:
    pixels = np.random.default_rng(3).integers(0, 256, (24, 40, 3), dtype=np.uint8)
    file = io.BytesIO()
    Image.fromarray(pixels).save(file, form)
    return file.getvalue(), np.asarray(Image.open(io.BytesIO(file.getvalue())).convert("RGB"))


@pytest.mark.parametrize("fast", [True, False], ids=["simplejpeg", "without simplejpeg"])
@pytest.mark.parametrize("form", ["JPEG", "PNG"])
def test_what_is_kept_are_the_pixels_of_the_file(form: str, fast: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if not fast:
        monkeypatch.setitem(sys.modules, "simplejpeg", None)
    content, pixels = encoded(form)
    store = PixelStore()
    store.keep(5, content)
    assert np.array_equal(store[5], pixels)
    assert len(store) == 1


def test_a_jpeg_that_simplejpeg_refuses_is_left_to_tensorflow() -> None:
    content, pixels = encoded("JPEG")
    stray = content[:-2] + b"\xff\xd9 and more"
    store = PixelStore()
    store.keep(0, stray)
    assert np.array_equal(store[0], pixels)
    with pytest.raises(tf.errors.InvalidArgumentError):
        store.keep(1, content[:200])


@pytest.mark.parametrize("training", [True, False])
def test_every_epoch_shows_the_pictures_of_a_pipeline_without_cache_and_decodes_once(
    memory_data: MemoryData, training: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    decoded: Counter[bytes] = Counter()
    once = pixel_store._decode

    def counting(content: bytes) -> np.ndarray:
        decoded[content] += 1
        return once(content)

    monkeypatch.setattr(pixel_store, "_decode", counting)
    expected, shown = (
        build(memory_data, RECIPE, WHOLE, training=training),
        build(memory_data, RECIPE, KEPT, training=training),
    )
    for _ in range(3):
        assert pictures(shown) == pictures(expected)
    assert decoded == Counter(picture["image"] for picture in memory_data.pictures)


def test_an_epoch_that_was_left_early_and_iterators_side_by_side_lose_nothing(memory_data: MemoryData) -> None:
    expected, shown = build(memory_data, RECIPE, WHOLE), build(memory_data, RECIPE, KEPT)
    for dataset in (expected, shown):
        next(iter(dataset))
    assert [pictures(shown), pictures(shown)] == [pictures(expected), pictures(expected)]
    fresh = build(memory_data, RECIPE, KEPT)
    together = [(a.numpy(), b.numpy()) for (a, _), (b, _) in zip(iter(fresh), iter(fresh), strict=True)]
    alone = build(memory_data, RECIPE, WHOLE)
    for side in range(2):
        assert Counter(image.tobytes() for pair in together for image in pair[side]) == pictures(alone)


def test_an_iterator_holds_the_pictures_and_they_go_with_the_pipeline(memory_data: MemoryData) -> None:
    dataset = build(memory_data, RECIPE.replace(shuffle=False), KEPT).repeat(2)
    (store,) = [thing for thing in gc.get_objects() if type(thing) is PixelStore]
    known = weakref.ref(store)
    del store
    iterator = iter(dataset)
    del dataset
    gc.collect()
    assert sum(len(batch) for batch, _ in iterator) == 2 * len(memory_data.pictures)
    del iterator
    gc.collect()
    assert known() is None


def test_a_store_that_is_gone_is_an_error_that_says_what_to_keep() -> None:
    store = PixelStore()
    handle = StoreHandle(store)
    assert handle() is store
    del store
    with pytest.raises(PlanError, match=r"keep the dataset that dataio\.build returned"):
        handle()


def test_pictures_of_any_size_reach_tensorflows_ops_uncopied(memory_data: MemoryData) -> None:
    recipe = RECIPE.replace(fidelity="exact")
    expected, shown = build(memory_data, recipe, Plan()), build(memory_data, recipe, Plan(cache="decoded"))
    assert shown.cardinality() == expected.cardinality()
    assert [pictures(shown), pictures(shown)] == [pictures(expected), pictures(expected)]
