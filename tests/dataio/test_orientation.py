from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image, ImageOps

from dataio.stages.orientation import (
    stored_boxes,
    stored_boxes_in_graph,
    turn_upright,
    turn_upright_in_graph,
    upright_size,
)


def pixels(height: int, width: int) -> np.ndarray:
    return np.arange(height * width * 3, dtype=np.uint8).reshape(height, width, 3)


@pytest.mark.parametrize("orientation", range(1, 9))
def test_turning_upright_is_what_pillow_does_by_the_exif_tag(orientation: int) -> None:
    stored = pixels(5, 7)
    picture = Image.fromarray(stored)
    picture.getexif()[0x0112] = orientation
    expected = np.asarray(ImageOps.exif_transpose(picture))
    np.testing.assert_array_equal(turn_upright(stored, orientation), expected)
    turned = turn_upright_in_graph(tf.constant(stored), tf.constant(orientation, tf.int64))
    np.testing.assert_array_equal(turned.numpy(), expected)


@settings(max_examples=100, deadline=None)
@given(data=st.data(), orientation=st.integers(0, 8), height=st.integers(1, 12), width=st.integers(1, 12))
def test_cutting_before_turning_equals_turning_before_cutting(
    data: st.DataObject, orientation: int, height: int, width: int
) -> None:
    stored = pixels(height, width)
    upright = turn_upright(stored, orientation)
    tall, wide = upright_size(np.array([orientation]), np.array([height]), np.array([width]))
    assert upright.shape[:2] == (tall[0], wide[0])
    top = data.draw(st.integers(0, upright.shape[0] - 1))
    left = data.draw(st.integers(0, upright.shape[1] - 1))
    box = (
        top,
        left,
        data.draw(st.integers(1, upright.shape[0] - top)),
        data.draw(st.integers(1, upright.shape[1] - left)),
    )
    args = np.array([orientation]), np.array([height]), np.array([width])
    inside = stored_boxes(np.array([box]), *args)
    in_graph = stored_boxes_in_graph(tf.constant([box], tf.int64), *(tf.constant(value) for value in args))
    np.testing.assert_array_equal(inside, in_graph.numpy())
    y, x, h, w = inside[0]
    np.testing.assert_array_equal(
        turn_upright(stored[y : y + h, x : x + w], orientation),
        upright[box[0] : box[0] + box[2], box[1] : box[1] + box[3]],
    )
