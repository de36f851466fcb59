"""A picture of 24 megapixels among small ones: it is stored like them, and a worker's memory stays bounded."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
import pytest

from dataio.converters.ledger import Ledger
from dataio.converters.manifest import Manifest
from dataio.converters.registry import WRITABLE

ROOT = Path(__file__).resolve().parents[2]

HEIGHT, WIDTH = 4000, 6000
PIXELS = HEIGHT * WIDTH

#: Bytes that a worker may take beyond the picture's share: its buffers for writing, and what the allocator rounds up.
SLACK_BYTES = 8_000_000

#: Converts the first source and then the second; prints after each the largest resident set of any worker so far. The
#: first has small pictures alone, so that the difference is what the large one took.
PROGRAM = """
import json, resource, sys
from pathlib import Path
from dataio.converters.conversion import ConversionOptions, convert
small, large, out, options = sys.argv[1:]
peaks = []
for name, source in (("small", small), ("large", large)):
    convert(Path(source), Path(out) / name, ConversionOptions.model_validate_json(options), workers=1)
    peaks.append(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024)
print(json.dumps(peaks))
"""


@pytest.fixture(scope="module")
def sources(tmp_path_factory: pytest.TempPathFactory, make_jpeg: Callable[..., bytes]) -> Path:
    """`small`, four pictures; `baseline` and `progressive`, the same and one of 24 megapixels."""
    folder = tmp_path_factory.mktemp("sources")
    chance = np.random.default_rng(0)
    tile = chance.integers(64, 192, (HEIGHT // 10, WIDTH // 10, 3), np.uint8)
    for name in ("small", "baseline", "progressive"):
        (folder / name / "class").mkdir(parents=True)
        for number in range(4):
            (folder / name / "class" / f"{number}.jpg").write_bytes(make_jpeg(tile[:300, :400]))
        if name != "small":
            content = make_jpeg(
                np.tile(tile, (10, 10, 1)), quality=75, subsampling=2, progressive=name == "progressive"
            )
            (folder / name / "class" / "large.jpg").write_bytes(content)
    return folder


def peaks(sources: Path, kind: str, out: Path, options: Mapping[str, object]) -> tuple[int, int]:
    """Bytes that the worker needed for small pictures alone, and with the large one."""
    words = [str(sources / "small"), str(sources / kind), str(out), json.dumps(options)]
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, *words],
        check=True,
        capture_output=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    small, large = json.loads(done.stdout)
    return small, large


def heights(dataset: Path) -> list[int]:
    """Heights of the stored pictures."""
    (shard,) = Manifest.open(dataset).splits["train"].shards
    return sorted(Ledger.load(dataset / shard.ledger.name).rows["height"].tolist())


@pytest.mark.parametrize("to", WRITABLE)
def test_stored_as_it_is_it_takes_its_file_and_no_pixels(to: str, sources: Path, tmp_path: Path) -> None:
    small, large = peaks(sources, "baseline", tmp_path, {"to": to})
    file_bytes = (sources / "baseline" / "class" / "large.jpg").stat().st_size
    assert heights(tmp_path / "large") == [300, 300, 300, 300, HEIGHT]
    assert file_bytes > 5_000_000
    # Never decoded: that would take 72 MB.
    assert large - small < 2 * file_bytes + SLACK_BYTES < 3 * PIXELS


@pytest.mark.parametrize(
    ("to", "kind", "bytes_a_pixel"),
    # Baseline: decoded at an eighth of its size, a row of blocks at a time. Progressive: libjpeg keeps all
    # coefficients, two bytes each, one and a half for every pixel with 4:2:0.
    [*((to, "baseline", 0) for to in WRITABLE), (WRITABLE[0], "progressive", 3)],
)
def test_made_smaller_it_is_never_in_memory_at_full_size(
    to: str, kind: str, bytes_a_pixel: int, sources: Path, tmp_path: Path
) -> None:
    options = {"to": to, "image": {"encoding": "jpeg", "short_side": 256}}
    small, large = peaks(sources, kind, tmp_path, options)
    file_bytes = (sources / kind / "class" / "large.jpg").stat().st_size
    assert heights(tmp_path / "large") == [256] * 5
    assert large - small < bytes_a_pixel * PIXELS + file_bytes + SLACK_BYTES
