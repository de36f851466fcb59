"""How far decoding at a fraction changes finished pictures, by the margin it keeps; and what making them
small costs.

Run: pytest tests/benchmarks/test_scaled_decoding.py -s
"""

from __future__ import annotations

import io
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image, JpegImagePlugin

from dataio.converters import shrinking
from dataio.converters.imaging import ImageOptions, decide


@pytest.mark.parametrize("margin", [1, 1.5, 2, 3])
def test_finished_pixels_by_margin(photos: Path, monkeypatch: pytest.MonkeyPatch, margin: float) -> None:
    monkeypatch.setattr(shrinking, "DECODE_MARGIN", margin)
    differences = []
    for path in sorted(photos.rglob("*.jpg")):
        content = path.read_bytes()
        for side in (64, 128, 224, 320):
            image = JpegImagePlugin.JpegImageFile(io.BytesIO(content))
            whole = Image.open(io.BytesIO(content)).convert("RGB")
            cut = shrinking.cut_for(image.height, image.width, 1, ImageOptions(encoding="jpeg", short_side=side))
            if shrinking.decoded_fraction(image.height, image.width, cut) == 1:
                continue
            extent = shrinking.scaled_decoding(image, cut)
            quick = shrinking.shrunk(image, cut, extent).convert("RGB")
            best = whole.resize((cut.width, cut.height), shrinking.FILTER)
            differences.append(float(np.abs(np.asarray(quick).astype(int) - np.asarray(best)).mean()))
    print(
        f"\nmargin {margin}: {len(differences)} pictures decoded at a fraction, "
        f"mean {np.mean(differences):.2f} levels, worst picture {max(differences):.2f}"
    )


def milliseconds(run: Callable[[Any], object], items: list[Any]) -> float:
    """CPU time an item, the best of five for each: what others do on the machine disturbs that least."""
    best = []
    for item in items:
        times = []
        for _ in range(5):
            start = time.process_time()
            run(item)
            times.append(time.process_time() - start)
        best.append(min(times))
    return 1000 * float(np.mean(best))


def test_cost_of_small_jpegs_against_decoding_and_encoding_alone(photos: Path) -> None:
    contents = [path.read_bytes() for path in sorted(photos.rglob("*.jpg"))[::4]]
    pillow = ImageOptions(encoding="jpeg", short_side=256, resizer="pillow")
    small = []
    for content in contents:
        image = Image.open(io.BytesIO(decide(content, pillow).image))  # type: ignore[union-attr]
        image.load()
        small.append(image)
    bare = milliseconds(lambda content: Image.open(io.BytesIO(content)).load(), contents)
    bare += milliseconds(lambda image: image.save(io.BytesIO(), "JPEG", quality=90), small)
    print(f"\nPillow, decode and encode alone: {bare:.2f} ms a picture")
    for resizer in ("pillow", "opencv"):
        options = pillow.replace(resizer=resizer)
        cost = milliseconds(lambda content, options=options: decide(content, options), contents)  # type: ignore[misc]
        print(f"--short-side 256, resizer {resizer}: {cost:.2f} ms, {bare / cost:.2f} of that rate")
