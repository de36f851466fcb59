"""The stages of a pipeline that `dataio.build` made, told from the kinds of its operators."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

#: Stages in the order in which a picture passes them.
Stage = Literal[
    "read", "cache", "parse", "boxes", "collect", "picture", "transform", "batch", "finish", "hand over", "op overhead"
]

#: What each stage does, for tables.
STAGE_WORDS: dict[Stage, str] = {
    "read": "read records",
    "cache": "cache and shuffle",
    "parse": "parse records",
    "boxes": "draw boxes",
    "collect": "collect records of a batch",
    "picture": "decode, cut, resize, flip",
    "transform": "the recipe's own transform",
    "batch": "copy into a batch",
    "finish": "normalise, labels",
    "hand over": "hand over batches",
    "op overhead": "TensorFlow's overhead of running ops",
}


def assign_stages(names: Sequence[str], *, kernel: str) -> list[Stage]:
    """The stage of every operator of a pipeline that `dataio.build` made.

    Args:
        names: kinds of operators, the one nearest to the consumer first.
        kernel: of the plan: with `opencv` pictures are made after records were collected into batches.
    """
    batch = next((at for at, name in enumerate(names) if "Batch" in name), len(names))
    source = next((at for at, name in enumerate(names) if name == "FlatMap"), len(names))
    maps_above = [at for at, name in enumerate(names[:batch]) if "Map" in name]
    unbatch = next((at for at, name in enumerate(names) if name.startswith("Unbatch") and at < source), None)
    parse = _parsing(names, source)
    maps_below = [at for at, name in enumerate(names) if "Map" in name and batch < at < (unbatch or source)]
    # A recipe with a transform of its own has three maps in a row, or a batch between them: finish, transform, picture.
    order: tuple[Stage, ...] = ("finish", "transform", "picture")
    made = dict(zip([*maps_above, *maps_below], order, strict=False))
    transformed = len(maps_above) + len(maps_below) == 3
    stages: list[Stage] = []
    for at, name in enumerate(names):
        if at > source:
            caching = name.startswith(("Cache", "MemoryCache", "Shuffle"))
            stages.append("parse" if at == parse else "cache" if caching else "read")
        elif at == source:
            stages.append("read")
        elif transformed and at in made:
            stages.append(made[at])
        elif at < batch:
            made_here = kernel == "opencv" and maps_above and at == maps_above[-1]
            stages.append("picture" if made_here else "finish" if at in maps_above else "hand over")
        elif kernel == "opencv":
            stages.append("collect")
        elif at == batch:
            stages.append("picture" if "Map" in name else "batch")
        else:
            stages.append("boxes" if unbatch is not None and at >= unbatch else "picture")
    return stages


def _parsing(names: Sequence[str], source: int) -> int | None:
    """Where TFRecords are parsed: the map nearest to the reader of their frames."""
    reader = next((at for at, name in enumerate(names) if name.startswith("TFRecord")), None)
    if reader is None:
        return None
    maps = [at for at, name in enumerate(names) if "Map" in name and source + 1 < at < reader and name != "FlatMap"]
    return maps[-1] if maps else None
