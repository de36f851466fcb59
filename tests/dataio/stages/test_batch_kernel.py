"""The batch kernel shows what TensorFlow's ops show, within the tolerance that `fidelity="close"` states."""

from __future__ import annotations

import io
import sys
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf
from PIL import Image

from dataio.data import Data
from dataio.errors import MissingExtra, PlanError
from dataio.pipeline import build
from dataio.plan import Plan
from dataio.recipe import Recipe
from dataio.stages.batch_kernel import make_batch_decoder
from dataio.stages.boxing import add_boxes
from dataio.stages.decoding import make_decoder

#: What `Recipe.fidelity` promises: mean absolute difference of a picture, in levels of 255.
CLOSE_LEVELS = 2.0

RECIPES = {
    "random-resized": Recipe(image_size=64, batch_size=8, dtype="uint8", seed=3),
    "oblong": Recipe(image_size=(48, 80), batch_size=8, dtype="uint8", seed=4),
    "center": Recipe(image_size=64, batch_size=8, crop="center", dtype="uint8"),
    "resize": Recipe(image_size=64, batch_size=8, crop="resize", flip=False, dtype="uint8"),
}
KERNELS = {
    "whole": Plan(kernel="opencv"),
    "fused": Plan(kernel="opencv", fused_decode_and_crop=True),
}


def picture(height: int, width: int, seed: int, mode: str = "RGB") -> Image.Image:
    """Blurred noise over a gradient: coarse structure as in photographs, no two places alike."""
    rng = np.random.default_rng(seed)
    coarse = Image.fromarray(rng.integers(0, 256, (height // 8 + 2, width // 8 + 2, 3), dtype=np.uint8))
    return coarse.resize((width, height), Image.Resampling.BICUBIC).convert(mode)


def encoded(image: Image.Image, **options: object) -> bytes:
    file = io.BytesIO()
    image.save(file, "JPEG", quality=92, **options)
    return file.getvalue()


def records(images: list[bytes], sizes: list[tuple[int, int]], orientations: list[int]) -> tf.data.Dataset:
    count = len(images)
    return tf.data.Dataset.from_tensor_slices(
        {
            "image": images,
            "label": np.arange(count, dtype=np.int64),
            "index": np.arange(count, dtype=np.int64) * 3 + 1,
            "orientation": np.array(orientations, np.int64),
            "height": np.array([size[0] for size in sizes], np.int64),
            "width": np.array([size[1] for size in sizes], np.int64),
            "epoch": np.full(count, 2, np.int64),
        }
    )


def by_tensorflow(source: tf.data.Dataset, encoding: str, recipe: Recipe, training: bool) -> np.ndarray:
    decoder = make_decoder(encoding, recipe, Plan())
    pictures = add_boxes(source, recipe, training=training).map(decoder)
    return np.stack([item["image"].numpy() for item in pictures])


def by_batch(source: tf.data.Dataset, encoding: str, recipe: Recipe, plan: Plan, training: bool) -> np.ndarray:
    decoder = make_batch_decoder(encoding, recipe, plan, training=training)
    batches = source.batch(recipe.batch_size).map(decoder)
    found = [(item["image"].numpy(), item["label"].numpy()) for item in batches]
    labels = np.concatenate([label for _, label in found])
    assert labels.tolist() == list(range(len(labels)))
    return np.concatenate([image for image, _ in found])


def differences(left: np.ndarray, right: np.ndarray) -> np.ndarray:
    """Mean absolute difference of each picture, levels."""
    assert left.shape == right.shape
    return np.abs(left.astype(np.int16) - right.astype(np.int16)).mean(axis=(1, 2, 3))


@pytest.fixture(scope="module")
def jpegs() -> tf.data.Dataset:
    sizes = [(90 + 17 * i, 140 - 11 * (i % 5)) for i in range(11)] + [(400, 640)]
    images = [encoded(picture(*size, seed=i)) for i, size in enumerate(sizes)]
    return records(images, sizes, [1, 2, 3, 4, 5, 6, 7, 8, 0, 1, 6, 1])


@pytest.mark.parametrize("training", [True, False], ids=["training", "evaluation"])
@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("recipe", RECIPES)
def test_pictures_of_any_orientation_are_close_to_tensorflows(
    jpegs: tf.data.Dataset, recipe: str, kernel: str, training: bool
) -> None:
    expected = by_tensorflow(jpegs, "jpeg", RECIPES[recipe], training)
    found = by_batch(jpegs, "jpeg", RECIPES[recipe], KERNELS[kernel], training)
    assert differences(found, expected).max() <= CLOSE_LEVELS


def test_whole_decoding_differs_by_rounding_alone(jpegs: tf.data.Dataset) -> None:
    recipe = RECIPES["random-resized"]
    expected = by_tensorflow(jpegs, "jpeg", recipe, True).astype(np.int16)
    found = by_batch(jpegs, "jpeg", recipe, KERNELS["whole"], True).astype(np.int16)
    assert np.abs(found - expected).max() <= 1


def test_another_box_or_flip_would_be_noticed(jpegs: tf.data.Dataset) -> None:
    recipe = RECIPES["random-resized"]
    expected = by_tensorflow(jpegs, "jpeg", recipe, True)
    other = by_batch(jpegs, "jpeg", recipe.replace(seed=99), KERNELS["whole"], True)
    assert differences(other, expected).min() > CLOSE_LEVELS


def test_raw_pixels_need_no_decoder() -> None:
    recipe = RECIPES["random-resized"]
    pixels = np.stack([np.asarray(picture(96, 96, seed)) for seed in range(8)])
    source = records(list(range(8)), [(96, 96)] * 8, [1, 1, 1, 8, 1, 3, 1, 1])  # type: ignore[arg-type]
    source = source.map(lambda record: record | {"image": tf.gather(pixels, record["image"])})
    expected = by_tensorflow(source, "raw", recipe, True)
    found = by_batch(source, "raw", recipe, KERNELS["whole"], True)
    assert differences(found, expected).max() <= CLOSE_LEVELS


def test_a_grey_jpeg_becomes_three_channels() -> None:
    recipe = RECIPES["center"]
    source = records([encoded(picture(80, 100, 1, "L"))], [(80, 100)], [1])
    for kernel in KERNELS.values():
        found = by_batch(source, "jpeg", recipe, kernel, True)
        assert differences(found, by_tensorflow(source, "jpeg", recipe, True)).max() <= CLOSE_LEVELS


def test_a_jpeg_that_is_merely_odd_is_shown_as_tensorflow_shows_it() -> None:
    recipe = RECIPES["center"]
    content = encoded(picture(80, 100, 1))
    odd = content[:-2] + b"\x00" * 12 + content[-2:]  # libjpeg: "extraneous bytes before marker"
    source = records([odd], [(80, 100)], [1])
    found = by_batch(source, "jpeg", recipe, KERNELS["whole"], True)
    assert differences(found, by_tensorflow(source, "jpeg", recipe, True)).max() <= CLOSE_LEVELS


@pytest.mark.parametrize("kernel", ["whole", "fused"])
def test_a_cut_off_jpeg_raises(kernel: str) -> None:
    content = encoded(picture(200, 300, 1))
    source = records([content[: len(content) // 3]], [(200, 300)], [1])
    with pytest.raises(tf.errors.OpError):
        by_batch(source, "jpeg", RECIPES["resize"], KERNELS[kernel], True)


def test_both_kernels_are_close_on_photographs(photos: Path) -> None:
    files = sorted(photos.rglob("*.jpg"))
    images, sizes = [], []
    for file in files:
        with Image.open(file) as image:
            sizes.append((image.height, image.width))
        images.append(file.read_bytes())
    source = records(images, sizes, [1] * len(images))
    for crop in ("random-resized", "resize"):
        recipe = Recipe(image_size=224, batch_size=16, crop=crop, dtype="uint8")
        expected = by_tensorflow(source, "jpeg", recipe, True)
        for name, plan in KERNELS.items():
            levels = differences(by_batch(source, "jpeg", recipe, plan, True), expected)
            assert levels.max() <= CLOSE_LEVELS, f"{name}: {levels.max():.2f} at {files[levels.argmax()].name}"


@pytest.mark.parametrize(("module", "encoding"), [("cv2", "raw"), ("simplejpeg", "jpeg")])
def test_a_missing_package_is_named_with_its_cure(module: str, encoding: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(MissingExtra, match=r"pip install 'dataio-tf\[fast\]'"):
        make_batch_decoder(encoding, RECIPES["center"], KERNELS["whole"], training=True)


def test_pngs_are_refused() -> None:
    with pytest.raises(PlanError, match="use kernel 'tensorflow'"):
        make_batch_decoder("png", RECIPES["center"], KERNELS["whole"], training=True)


@pytest.mark.parametrize("cache", ["none", "memory", "decoded"])
@pytest.mark.parametrize("kernel", KERNELS)
def test_a_pipeline_with_it_yields_the_same_pictures_in_the_same_order(
    memory_data: Data, kernel: str, cache: str
) -> None:
    if cache == "decoded" and kernel == "fused":
        pytest.skip("nothing is left to fuse")
    recipe = Recipe(image_size=32, batch_size=5, dtype="uint8", drop_remainder=False, seed=7, shuffle=False)
    reference = build(memory_data, recipe, Plan())
    dataset = build(memory_data, recipe, KERNELS[kernel].replace(cache=cache, num_parallel_calls=3))
    assert dataset.cardinality() == reference.cardinality() == 5
    for _ in range(2):  # two epochs
        expected = [(image.numpy(), label.numpy()) for image, label in reference]
        found = [(image.numpy(), label.numpy()) for image, label in dataset]
        assert [label.tolist() for _, label in found] == [label.tolist() for _, label in expected]
        for (image, _), (wanted, _) in zip(found, expected, strict=True):
            assert differences(image, wanted).max() <= CLOSE_LEVELS


def test_a_recipe_that_asks_for_exact_pixels_refuses_it(memory_data: Data) -> None:
    with pytest.raises(PlanError, match="fidelity 'exact'"):
        build(memory_data, Recipe(fidelity="exact"), KERNELS["whole"])


@pytest.mark.parametrize("normalisation", ["none", "unit", "signed", "imagenet"])
@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_normalised_pixels_are_those_of_tensorflow_within_the_rounding_of_one_level(
    memory_data: Data, dtype: str, normalisation: str
) -> None:
    recipe = Recipe(image_size=32, batch_size=8, dtype=dtype, normalisation=normalisation, shuffle=False)
    level = 1.0 if normalisation == "none" else 1 / 127 if normalisation == "signed" else 1 / 255 / 0.224
    reference, dataset = build(memory_data, recipe, Plan()), build(memory_data, recipe, KERNELS["whole"])
    for (wanted, _), (found, _) in zip(reference, dataset, strict=True):
        assert found.dtype == wanted.dtype == dtype
        difference = np.abs(found.numpy().astype(np.float64) - wanted.numpy().astype(np.float64))
        assert difference.max() <= level * 1.01 + np.finfo(dtype).eps
        assert np.median(difference) <= np.finfo(dtype).eps


def test_a_cache_of_decoded_pictures_changes_no_pixel_of_an_exact_recipe(memory_data: Data) -> None:
    recipe = Recipe(image_size=32, batch_size=5, dtype="uint8", fidelity="exact", drop_remainder=False, seed=7)
    reference, dataset = build(memory_data, recipe, Plan()), build(memory_data, recipe, Plan(cache="decoded"))
    for _ in range(2):  # two epochs: the cache is filled, then read
        expected = sorted(image.tobytes() for batch, _ in reference for image in batch.numpy())
        assert sorted(image.tobytes() for batch, _ in dataset for image in batch.numpy()) == expected


def test_a_cache_of_decoded_pictures_leaves_nothing_to_fuse(memory_data: Data) -> None:
    with pytest.raises(PlanError, match="nothing is left to fuse"):
        build(memory_data, RECIPES["center"], Plan(cache="decoded", fused_decode_and_crop=True))
