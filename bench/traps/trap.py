"""What a trap is, and what its finders may ask about a pipeline."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from dataio.bench.traps.graph import Operator, Pipeline
from dataio.records import Record

Cost = Literal["speed", "memory", "wrong"]


class Trap(Record):
    """A known mistake found in a pipeline."""

    name: str
    """Short and stable, such as `serial-map`."""
    operator: str
    """Where it is, such as "map (operator 3)": counted from the source."""
    cost: Cost
    """What it costs: speed, memory, or pictures that are not what they should be (wrong)."""
    finding: str
    """What is there and what follows from it, in a sentence."""
    fix: str
    """What to write instead."""


@dataclass(frozen=True)
class Surroundings:
    """What traps are judged by, besides the graph."""

    memory_bytes: int
    """Memory that this process may still take."""
    cores: int
    """Cores that it may keep busy."""
    replicas: int = 1
    """Workers that share the input; 1 without a distribution strategy."""


#: Operations of TensorFlow that make a function expensive: a millisecond a picture rather than microseconds.
#: Source: own measurement of 500x375 JPEGs: decoding 1.5 ms, tf.image.resize of a 224 crop 0.3 ms.
_COSTLY = (
    "DecodeJpeg",
    "DecodeAndCropJpeg",
    "DecodeImage",
    "DecodePng",
    "DecodeBmp",
    "DecodeGif",
    "DecodeWebP",
    "Resize",
    "CropAndResize",
    "ScaleAndTranslate",
    "ImageProjectiveTransform",
    "AdjustHue",
    "AdjustSaturation",
    "ReadFile",
    "DecodeRaw",
    "DecodeCompressed",
)

_PYTHON = frozenset({"PyFunc", "EagerPyFunc", "PyFuncStateless", "NumpyFunction"})


def costly_calls(operator: Operator) -> list[str]:
    """Operations in the operator's function that take long, Python functions included."""
    return sorted(name for name in operator.calls if name.startswith(_COSTLY) or name in _PYTHON)


BATCHING = ("Batch", "ParallelBatch", "PaddedBatch")


def is_batched(pipeline: Pipeline, operator: Operator) -> bool:
    """Whether the elements that reach the operator are batches: made below and not taken apart again."""
    for below in pipeline.below(operator):
        if below.kind in {"Unbatch", "FlatMap"}:
            return False
        if below.kind in BATCHING:
            return True
    return False


def calls_python(operator: Operator) -> bool:
    """Whether the operator's function calls a Python function."""
    return bool(operator.calls & _PYTHON)


def is_random(operator: Operator) -> bool:
    """Whether elements that the operator gives are drawn at random, with or without a seed."""
    return any(
        name.startswith(("Random", "StatelessRandom", "StatelessTruncated", "StatelessParameterized"))
        or name
        in {"TruncatedNormal", "Multinomial", "StatelessMultinomial", "StatefulUniform", "StatefulStandardNormalV2"}
        or "SampleDistortedBoundingBox" in name
        for name in operator.calls
    )


def say_bytes(count: float) -> str:
    """A number of bytes in words, such as "3.2 GB"."""
    for unit in ("B", "kB", "MB", "GB"):
        if count < 1000:
            return f"{count:.3g} {unit}"
        count /= 1000
    return f"{count:.3g} TB"
