"""Bounds, and the bare loop that they rest on."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from PIL import Image

from dataio.bench.bare import bare_seconds, decoded, stored_raw, stored_smaller, take_sample
from dataio.bench.bounds import find_bounds
from dataio.bench.storage import Storage
from dataio.data import Data, Shard, Split
from dataio.recipe import Recipe

RECIPE = Recipe(image_size=32, batch_size=4, dtype="uint8")


class Pictures(Data):
    """JPEGs of 300 x 400 in memory."""

    def __init__(self, records: int = 8) -> None:
        self.path, self.format, self.fingerprint, self.encoding = Path("pictures"), "hdf5", "pictures", "jpeg"
        self.random_access, self.class_names = True, ("a",)
        coarse = np.random.default_rng(0).integers(0, 256, (records, 30, 40, 3), dtype=np.uint8)
        self.images = []
        for pixels in coarse:
            file = io.BytesIO()
            Image.fromarray(pixels).resize((400, 300)).save(file, "JPEG")
            self.images.append(file.getvalue())
        self.splits = {"train": Split(records, 1, sum(map(len, self.images)))}

    def records(self, split: str, *, shard: Shard | None = None, **_: Any) -> tf.data.Dataset:
        count = len(self.images)
        columns = {"image": self.images, "label": [0] * count, "index": list(range(count)), "orientation": [1] * count}
        columns |= {"height": [300] * count, "width": [400] * count}
        rows = tf.data.Dataset.from_tensor_slices(
            {name: tf.constant(values, tf.string if name == "image" else tf.int64) for name, values in columns.items()}
        )
        first, end = (shard or Shard()).bounds(count)
        return rows.skip(first).take(end - first)


@pytest.fixture(scope="module")
def pictures() -> Pictures:
    return Pictures()


def storage(cold: float | None, warm: float | None) -> Storage:
    return Storage(
        path="pictures",
        filesystem="ext4",
        device="/dev/vda",
        kind="ssd",
        cold_bytes_per_second=cold,
        warm_bytes_per_second=warm,
        sampled_bytes=1000,
    )


def test_the_decoding_bound_grows_with_the_cores(pictures: Pictures) -> None:
    sample = take_sample(pictures, split="train")
    one, many = (
        find_bounds(pictures, RECIPE, split="train", cores=cores, sample=sample)[0].images_per_second
        for cores in (1, 16)
    )
    assert 4 < many / one < 64  # both are timed, on a machine that may be busy


def test_storage_bounds_are_bytes_per_second_by_the_bytes_of_a_record(pictures: Pictures) -> None:
    record = pictures.splits["train"].bytes / 8
    bounds = find_bounds(pictures, RECIPE, split="train", cores=1, storage=storage(record * 7, record * 1e9))
    rates = {bound.name: bound.images_per_second for bound in bounds}
    assert rates["storage, cold"] == pytest.approx(7)
    assert rates["storage, warm"] == pytest.approx(1e9)
    assert [bound.name for bound in bounds] == ["storage, cold", "decoding", "storage, warm"]


def test_what_cannot_be_measured_is_left_out(pictures: Pictures) -> None:
    exact = RECIPE.replace(fidelity="exact")
    assert find_bounds(pictures, exact, split="train", cores=1, storage=storage(None, None)) == ()


def test_a_sample_holds_the_records_as_stored(pictures: Pictures) -> None:
    sample = take_sample(pictures, split="train", records=5)
    assert sample.images.tolist() == pictures.images[:5]
    assert sample.height.tolist() == [300] * 5 and sample.index.tolist() == [0, 1, 2, 3, 4]


def test_smaller_jpegs_have_the_short_side_and_are_never_enlarged(pictures: Pictures) -> None:
    sample = take_sample(pictures, split="train", records=3)
    small = stored_smaller(sample, 90)
    assert small.height.tolist() == [90] * 3 and small.width.tolist() == [120] * 3
    assert small.record_bytes < sample.record_bytes
    assert stored_smaller(sample, 5000).images.tolist() == sample.images.tolist()


def test_decoded_pictures_need_no_decoding_either(pictures: Pictures) -> None:
    sample = take_sample(pictures, split="train")
    held = decoded(sample)
    assert held.record_bytes == 300 * 400 * 3
    assert bare_seconds(held, RECIPE, fused=False, seconds=0.05) < bare_seconds(
        sample, RECIPE, fused=False, seconds=0.05
    )


def test_raw_squares_need_no_decoding_and_so_less_time(pictures: Pictures) -> None:
    sample = take_sample(pictures, split="train")
    raw = stored_raw(sample, 64)
    assert raw.images.shape == (8, 64, 64, 3) and raw.record_bytes == 64 * 64 * 3
    assert bare_seconds(raw, RECIPE, fused=False, seconds=0.05) < bare_seconds(
        sample, RECIPE, fused=False, seconds=0.05
    )
