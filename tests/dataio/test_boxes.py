from __future__ import annotations

import numpy as np
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from dataio.recipe import Recipe
from dataio.stages.boxes import draw_boxes, draw_boxes_in_graph

recipes = st.builds(
    Recipe,
    image_size=st.sampled_from([224, (32, 96), 1]),
    crop=st.sampled_from(["random-resized", "center", "resize"]),
    scale=st.sampled_from([(0.08, 1.0), (0.0001, 0.001), (1.0, 1.0)]),
    ratio=st.sampled_from([(0.75, 4 / 3), (0.01, 100.0), (3.0, 4.0)]),
    flip=st.booleans(),
    seed=st.integers(0, 2**63 - 1),
)
sizes = st.lists(st.tuples(st.integers(1, 20000), st.integers(1, 20000)), min_size=1, max_size=20)


@settings(max_examples=60, deadline=None)
@given(
    recipe=recipes,
    sizes=sizes,
    epoch=st.integers(0, 10**6),
    first=st.integers(0, 10**9),
    training=st.booleans(),
)
def test_numpy_and_tensorflow_draw_the_same_boxes_inside_the_picture(
    recipe: Recipe, sizes: list[tuple[int, int]], epoch: int, first: int, training: bool
) -> None:
    height, width = (np.array(column, np.int64) for column in zip(*sizes, strict=True))
    index = np.arange(first, first + len(sizes))
    boxes, flips = draw_boxes(recipe, training=training, epoch=epoch, index=index, height=height, width=width)
    in_graph, flips_in_graph = draw_boxes_in_graph(
        recipe,
        training=training,
        epoch=tf.constant(epoch, tf.int64),
        index=tf.constant(index),
        height=tf.constant(height),
        width=tf.constant(width),
    )
    np.testing.assert_array_equal(boxes, in_graph.numpy())
    np.testing.assert_array_equal(flips, flips_in_graph.numpy())
    top, left, tall, wide = boxes.T
    assert (top >= 0).all() and (left >= 0).all() and (tall >= 1).all() and (wide >= 1).all()
    assert (top + tall <= height).all() and (left + wide <= width).all()


def test_boxes_have_the_areas_and_flips_the_share_that_the_recipe_asks_for() -> None:
    count = 20_000
    size = np.full(count, 1000)
    recipe = Recipe(scale=(0.2, 0.6), ratio=(0.75, 4 / 3))
    boxes, flips = draw_boxes(recipe, training=True, epoch=0, index=np.arange(count), height=size, width=size)
    area = boxes[:, 2] * boxes[:, 3] / 1e6
    assert 0.199 < area.min() < 0.21 and 0.59 < area.max() < 0.601
    assert abs(area.mean() - 0.4) < 0.005  # uniform between 0.2 and 0.6; every try fits at this size
    assert abs(flips.mean() - 0.5) < 0.015  # 4 standard errors
    ratio = boxes[:, 3] / boxes[:, 2]
    assert ratio.min() > 0.74 and ratio.max() < 1.35


def test_epoch_index_and_seed_each_change_the_box() -> None:
    def box(seed: int, epoch: int, index: int) -> tuple[int, ...]:
        boxes, _ = draw_boxes(
            Recipe(seed=seed),
            training=True,
            epoch=epoch,
            index=np.array([index]),
            height=np.array([4000]),
            width=np.array([4000]),
        )
        return tuple(boxes[0])

    assert len({box(0, 0, 0), box(1, 0, 0), box(0, 1, 0), box(0, 0, 1), box(0, 1, 1), box(1, 1, 1)}) == 6
    assert box(3, 2, 1) == box(3, 2, 1)


def test_center_keeps_seven_eighths_of_the_largest_box_of_the_outputs_aspect() -> None:
    boxes, flips = draw_boxes(
        Recipe(image_size=224),
        training=False,
        epoch=0,
        index=np.array([0]),
        height=np.array([256]),
        width=np.array([512]),
    )
    assert boxes.tolist() == [[16, 144, 224, 224]]
    assert not flips.any()
