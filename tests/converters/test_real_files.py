"""Real pictures, good and odd, through every format: what `odd/expected.json` says, and every JPEG by its hash."""

from __future__ import annotations

import hashlib
import io
import json
import os
from pathlib import Path

import numpy as np
from PIL import Image

from dataio.converters.conversion import ConversionOptions, convert
from tests.converters.conversions import every_format, records


def images(folder: Path) -> dict[str, tuple[bytes, int]]:
    """Path to (image, orientation) of every record."""
    return {os.fsdecode(path): (image, int(row["orientation"])) for path, row, image in records(folder)}


@every_format
def test_photographs_are_stored_byte_for_byte(to: str, photos: Path, tmp_path: Path) -> None:
    convert(photos, tmp_path / "out", ConversionOptions(to=to))
    expected = {
        str(path.relative_to(photos)): hashlib.sha256(path.read_bytes()).hexdigest() for path in photos.rglob("*.jpg")
    }
    assert len(expected) == 47
    stored = {path: hashlib.sha256(image).hexdigest() for path, (image, _) in images(tmp_path / "out").items()}
    assert stored == expected


@every_format
def test_odd_files_meet_what_is_expected_of_them(to: str, shared_data: Path, tmp_path: Path) -> None:
    odd = shared_data / "odd"
    convert(odd, tmp_path / "out", ConversionOptions(to=to))
    lines = (tmp_path / "out" / "outcomes.jsonl").read_text().splitlines()
    told = {line["path"]: line for line in map(json.loads, lines)}
    stored = images(tmp_path / "out")
    expected = json.loads((odd / "expected.json").read_text())
    for path, wanted in expected.items():
        if path.startswith("_"):
            continue
        if wanted["outcome"] == "reject":
            assert (told[path]["outcome"], told[path]["reason"]) == ("rejected", wanted["reason"]), path
            assert path not in stored
        elif wanted["outcome"] == "accept":
            assert path not in told
            assert stored[path][0] == (odd / path).read_bytes(), path
        else:
            assert told[path]["outcome"] == "transcoded", path
            with Image.open(io.BytesIO(stored[path][0])) as opened:
                assert opened.format == "JPEG" and opened.mode in ("RGB", "L")
                pixels = np.asarray(opened.convert("RGB"), np.float64)
            if "truth" in wanted:
                with Image.open(odd / wanted["truth"]) as opened:
                    truth = np.asarray(opened.convert("RGB"), np.float64)
                assert abs(pixels - truth).mean() <= 3, path


@every_format
def test_orientation_is_stored_with_the_untouched_bytes(to: str, shared_data: Path, tmp_path: Path) -> None:
    folder = shared_data / "odd"
    convert(folder, tmp_path / "out", ConversionOptions(to=to))
    stored = images(tmp_path / "out")
    for kind in ("Landscape", "Portrait"):
        for orientation in range(1, 9):
            path = f"orientation/{kind}_{orientation}.jpg"
            assert stored[path] == ((folder / path).read_bytes(), orientation)
