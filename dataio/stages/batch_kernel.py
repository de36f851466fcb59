"""From a batch of records to finished pictures by one Python call: decode, cut, turn, resize, flip and normalise.

TensorFlow's ops cost 110 to 170 us a picture in dispatch and 300 us for a 224 px resize. One `tf.numpy_function` a
batch has neither: OpenCV resizes in 80 us, and OpenCV, simplejpeg and TensorFlow's own decoder all let go of the
interpreter's lock, so that calls run side by side.

Scaled decoding (1/2, 1/4, 1/8 by the JPEG transform) is not offered: against a bilinear resize without antialiasing,
which is what a recipe means, it differs by 2 to 4 levels in the median and up to 12 (47 photographs, crops of 448 to
1164 px to 224), more than `fidelity="close"` promises.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import TYPE_CHECKING, Any

import numpy as np

from dataio.errors import MissingExtra, PlanError
from dataio.plan import Plan
from dataio.recipe import Recipe
from dataio.stages.boxes import draw_boxes
from dataio.stages.cutting import Cut, cut_decoded, cut_kept, cut_packed, cut_pixels, cut_while_decoding
from dataio.stages.finishing import scale_and_offset
from dataio.stages.orientation import stored_boxes, turn_upright, upright_size
from dataio.stages.pixel_store import PixelStore, StoreHandle

if TYPE_CHECKING:
    import tensorflow as tf

#: Fields of a batch that the kernel takes, by the names of `finish_batch`'s arguments.
_FIELDS = ("image", "index", "epoch", "orientation", "height", "width")


def make_batch_decoder(
    encoding: str, recipe: Recipe, plan: Plan, *, training: bool, store: PixelStore | None = None
) -> Callable[[dict[str, tf.Tensor]], dict[str, tf.Tensor]]:
    """A function from a batch of records to `image` [batch, height, width, 3] and `label`: uint8 where the recipe says
    so, else float32 with the recipe's normalisation applied.

    Boxes and flips are those that TensorFlow's ops draw, bit for bit; pixels differ by OpenCV's rounding
    (INTER_LINEAR in 11-bit fixed point: up to 1 level). Whole JPEGs are decoded by simplejpeg, parts of them
    (`plan.fused_decode_and_crop`) by tf.raw_ops.DecodeAndCropJpeg, called eagerly. Both use the accurate transform.

    Args:
        encoding: of the images, `jpeg`, `raw`, `packed` (see `dataio.stages.unpacking`) or `kept` in a `PixelStore`.
        recipe: crop, flip, image size and seed are used.
        plan: `fused_decode_and_crop` is used.
        training: as in `build`.
        store: where `kept` pictures are; the caller must hold it.

    Raises:
        MissingExtra: OpenCV, or simplejpeg for JPEGs, is not installed.
        PlanError: the encoding is one that this kernel cannot decode.
    """
    import tensorflow as tf

    if encoding not in ("jpeg", "raw", "packed", "kept"):
        raise PlanError(
            f"the plan's kernel 'opencv' decodes JPEGs and raw pixels, but these records hold {encoding}: "
            "use kernel 'tensorflow'"
        )
    _require("cv2", "opencv-python-headless")
    if encoding == "jpeg" and not plan.fused_decode_and_crop:
        _require("simplejpeg", "simplejpeg")
    kind = tf.uint8 if recipe.dtype == "uint8" else tf.float32
    handle = StoreHandle(store) if store is not None else None

    def finish(*fields: np.ndarray) -> np.ndarray:
        return finish_batch(
            recipe,
            encoding=encoding,
            fused=plan.fused_decode_and_crop,
            training=training,
            store=handle() if handle is not None else None,
            **dict(zip(_FIELDS, fields, strict=True)),
        )

    def decode(batch: dict[str, tf.Tensor]) -> dict[str, tf.Tensor]:
        # Not stateful: the same records and epoch give the same pictures, whatever ran before.
        pictures = tf.numpy_function(finish, [batch[name] for name in _FIELDS], kind, stateful=False)
        return {
            "image": tf.ensure_shape(pictures, [batch["index"].shape[0], *recipe.height_width, 3]),
            "label": batch["label"],
        }

    return decode


def finish_batch(
    recipe: Recipe,
    *,
    encoding: str,
    fused: bool,
    training: bool,
    image: np.ndarray,
    index: np.ndarray,
    epoch: np.ndarray,
    orientation: np.ndarray,
    height: np.ndarray,
    width: np.ndarray,
    store: PixelStore | None = None,
) -> np.ndarray:
    """The finished pictures of a batch of records: the kernel itself, without tf.data.

    Args:
        recipe: what becomes of them.
        encoding: of `image`: `jpeg`, `raw`, `packed` or `kept`.
        fused: decode only the part of a JPEG that its box needs.
        training: as in `build`.
        image: object[batch] of encoded files or packed pixels, uint8[batch, height, width, 3], or int64[batch] of
            places in `store`.
        index: int64[batch], rank of the file in its split.
        epoch: int64[batch].
        orientation: int64[batch], EXIF 0..8.
        height: int64[batch], pixels as stored.
        width: int64[batch], pixels as stored.
        store: holds the pictures where the encoding is `kept`.

    Returns:
        uint8[batch, height, width, 3], or float32 with the normalisation applied.
    """
    upright = upright_size(orientation, height, width)
    boxes, flips = draw_boxes(recipe, training=training, epoch=epoch, index=index, height=upright[0], width=upright[1])
    boxes = stored_boxes(boxes, orientation, height, width)
    if encoding == "raw":
        cut: Cut = cut_pixels(image)
    elif encoding == "packed":
        cut = cut_packed(image, height, width)
    elif store is not None:
        cut = cut_kept(image, store)
    elif fused:
        cut = cut_while_decoding(image, boxes)
    else:
        cut = cut_decoded(image, height, width)
    factors = None if recipe.dtype == "uint8" else scale_and_offset(recipe)
    return finish_pictures(cut, boxes, flips, orientation, recipe.height_width, factors)


def finish_pictures(
    cut: Cut,
    boxes: np.ndarray,
    flips: np.ndarray,
    orientation: np.ndarray,
    size: tuple[int, int],
    factors: tuple[list[float], list[float]] | None,
) -> np.ndarray:
    """[batch, height, width, 3]: every box cut, turned upright, resized to `size`, flipped and normalised.

    Args:
        cut: gives the pixels of a box.
        boxes: int64[batch, 4], (top, left, height, width) in stored coordinates.
        flips: bool[batch].
        orientation: int64[batch], EXIF 0..8.
        size: (height, width) of the result, pixels.
        factors: scale and offset of each channel; None leaves uint8, otherwise the result is float32.
    """
    import cv2

    pictures = np.empty((len(boxes), *size, 3), np.uint8 if factors is None else np.float32)
    normalise = None if factors is None else _Normalise(size, factors)
    target = (size[1], size[0])
    turns = orientation.tolist()
    mirrored = flips.tolist()
    picture = np.empty((*size, 3), np.uint8)
    for i, box in enumerate(boxes.tolist()):
        pixels = cut(i, box)
        if turns[i] > 1:
            pixels = np.ascontiguousarray(turn_upright(pixels, turns[i]))  # OpenCV takes no negative strides
        if normalise is None:
            picture = pictures[i]
        cv2.resize(pixels, target, dst=picture, interpolation=cv2.INTER_LINEAR)
        if mirrored[i]:
            cv2.flip(picture, 1, dst=picture)
        if normalise is not None:
            normalise(picture, pictures[i])
    return pictures


class _Normalise:
    """Writes `pixels * scale + offset` as float32, in the order of operations of `dataio.stages.finishing`.

    One picture at a time, while it lies in the processor's cache: 55 us for 224 px, 100 us where channels differ.
    """

    def __init__(self, size: tuple[int, int], factors: tuple[list[float], list[float]]) -> None:
        height, width = size
        self._shape = (height, width * 3)
        scale, offset = (np.array(values, np.float32) for values in factors)
        # A row of repeated factors: NumPy is five times as slow when it broadcasts over three channels.
        self._scale = scale[0] if np.all(scale == scale[0]) else np.tile(scale, width)
        self._offset = offset[0] if np.all(offset == offset[0]) else np.tile(offset, width)

    def __call__(self, picture: np.ndarray, target: np.ndarray) -> None:
        rows = target.reshape(self._shape)
        np.multiply(picture.reshape(self._shape), self._scale, out=rows)
        if np.any(self._offset):
            np.add(rows, self._offset, out=rows)


def _require(module: str, package: str) -> Any:
    try:
        return import_module(module)
    except ImportError as problem:
        raise MissingExtra(
            f"the plan's kernel 'opencv' needs {package}, which is not installed: pip install 'dataio-tf[fast]', "
            "or use kernel 'tensorflow'"
        ) from problem
