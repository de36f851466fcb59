"""The recipe that a command line asks for."""

from __future__ import annotations

import re
from enum import StrEnum
from pathlib import Path

import typer

from dataio.errors import RecipeError
from dataio.recipe import Recipe


class Crop(StrEnum):
    """How a training picture is cut."""

    RANDOM = "random-resized"
    CENTER = "center"
    RESIZE = "resize"


def make_recipe(
    path: Path | None, *, batch_size: int | None, image_size: str | None, crop: Crop | None, flip: bool | None
) -> Recipe:
    """The recipe of a file, or the default one, with the options given in its place."""
    if path is not None and not path.is_file():
        raise RecipeError(f"{path}: no such recipe file; it takes the JSON that Recipe(...).save(path) writes")
    recipe = Recipe.load(path) if path is not None else Recipe()
    changes: dict[str, object] = {}
    if batch_size is not None:
        changes["batch_size"] = batch_size
    if image_size is not None:
        changes["image_size"] = _image_size(image_size)
    if crop is not None:
        changes["crop"] = crop.value
    if flip is not None:
        changes["flip"] = flip
    return recipe.replace(**changes)


def _image_size(text: str) -> int | tuple[int, int]:
    found = re.fullmatch(r"(\d+)(?:x(\d+))?", text.strip())
    if found is None:
        raise typer.BadParameter(f"{text!r}: takes 224 or 224x320 (height x width)", param_hint="--image-size")
    return int(found[1]) if found[2] is None else (int(found[1]), int(found[2]))
