"""The recipe: what the model must see. The user decides it; tuning never changes it."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from pydantic import Field, field_validator, model_validator

from dataio.errors import DataioError, RecipeError
from dataio.records import Record

Pixels = Annotated[int, Field(ge=1, le=16384)]

#: Mean and standard deviation of ImageNet's training pictures, RGB, in units of 0..1.
#: Source: torchvision's model documentation (weights' `transforms`), the values nearly every ImageNet model uses.
IMAGENET_MEAN = (0.485, 0.456, 0.406)
IMAGENET_STD = (0.229, 0.224, 0.225)

#: Share of the short side that the centre crop of an evaluation picture keeps: 224 of 256.
#: Source: He et al. 2015, "Deep residual learning", section 3.4: short side 256, crop 224.
CENTER_FRACTION = 0.875


class Recipe(Record):
    """What a finished batch is, whatever the format and the plan.

    A picture depends on the recipe, its seed, the epoch and the record's index alone.
    """

    error: ClassVar[type[DataioError]] = RecipeError

    schema_version: Literal[1] = 1
    """Form of this record in JSON."""
    image_size: Pixels | tuple[Pixels, Pixels] = 224
    """Side of the finished square, or (height, width), in pixels."""
    batch_size: Annotated[int, Field(ge=1, le=65536)] = 64
    """Pictures a batch."""
    crop: Literal["random-resized", "center", "resize"] = "random-resized"
    """How a training picture is cut. `random-resized`: a random box of `scale` of the area and `ratio`, resized
    (Szegedy et al. 2014, as torchvision's RandomResizedCrop). `center`: the largest centred box of the output's
    aspect times 0.875. `resize`: the whole picture, squeezed. Evaluation (`training=False`) cuts `center`, or
    `resize` where the recipe says so."""
    scale: tuple[float, float] = (0.08, 1.0)
    """Smallest and largest area of a random box, as a share of the picture's area, in (0, 1]."""
    ratio: tuple[float, float] = (0.75, 4 / 3)
    """Smallest and largest width / height of a random box before resizing; the logarithm is not used: the ratio is
    uniform between the two, as in tf.image.sample_distorted_bounding_box."""
    flip: bool = True
    """Mirror half of the training pictures left to right."""
    shuffle: bool = True
    """Show training records in another order each epoch."""
    shuffle_buffer: Annotated[int, Field(ge=1)] = 2048
    """Records held for shuffling where a format can only be read in sequence (TFRecord) or comes from a cache;
    formats with random access shuffle the whole split and need none."""
    drop_remainder: bool = True
    """Leave out the last training batch when it is not full; evaluation keeps every record."""
    label_mode: Literal["int", "categorical"] = "int"
    """`int`: int64[batch], from 0. `categorical`: float32[batch, classes], one-hot."""
    dtype: Literal["uint8", "float32", "float16", "bfloat16"] = "float32"
    """Type of the finished pixels. uint8 takes `normalisation` none and moves a quarter of float32's bytes."""
    normalisation: Literal["none", "unit", "signed", "imagenet"] = "unit"
    """Applied to pixels rounded to 0..255. none: 0..255; unit: 0..1; signed: -1..1; imagenet: (x/255 - mean) / std."""
    transform: Annotated[str, Field(pattern=r"^[^:\s]+:[^:\s]+$")] | None = None
    """The user's own function on finished uint8 pixels, before normalisation: "package.module:function", called as
    `function(image, seed, training)`. None: no transform. See `dataio.stages.transforming.make_transform`."""
    transform_per: Literal["picture", "batch"] = "picture"
    """Whether the transform gets one picture and its seed, or a whole batch and theirs; a batch costs fewer calls."""
    seed: Annotated[int, Field(ge=0, lt=2**63)] = 0
    """Same seed, same pictures, in any run."""
    fidelity: Literal["close", "exact"] = "close"
    """`exact`: pixels are bit for bit the same whatever the plan. `close`: plans may use kernels that differ a little:
    boxes and flips stay the same and the mean absolute difference of a picture stays within 2 levels of 255."""

    @field_validator("scale")
    @classmethod
    def _scale_in_range(cls, scale: tuple[float, float]) -> tuple[float, float]:
        if not 0 < scale[0] <= scale[1] <= 1:
            raise ValueError("takes two shares of the area with 0 < smallest <= largest <= 1")
        return scale

    @field_validator("ratio")
    @classmethod
    def _ratio_in_range(cls, ratio: tuple[float, float]) -> tuple[float, float]:
        if not 0 < ratio[0] <= ratio[1]:
            raise ValueError("takes two aspect ratios with 0 < smallest <= largest")
        return ratio

    @model_validator(mode="before")
    @classmethod
    def _uint8_is_not_normalised(cls, values: object) -> object:
        # Asking for uint8 says what the pixels are; having to say normalisation="none" as well would be a chore.
        if isinstance(values, dict) and values.get("dtype") == "uint8":
            return {"normalisation": "none"} | values
        return values

    @model_validator(mode="after")
    def _fields_agree(self) -> Recipe:
        if self.dtype == "uint8" and self.normalisation != "none":
            raise ValueError("dtype uint8 takes normalisation 'none' (normalise on the device, or ask for float32)")
        return self

    @property
    def height_width(self) -> tuple[int, int]:
        """(height, width) of the finished picture, pixels."""
        return (self.image_size, self.image_size) if isinstance(self.image_size, int) else self.image_size

    @property
    def batch_bytes(self) -> int:
        """Bytes of one finished batch of pictures."""
        height, width = self.height_width
        size = {"uint8": 1, "float32": 4, "float16": 2, "bfloat16": 2}[self.dtype]
        return self.batch_size * height * width * 3 * size
