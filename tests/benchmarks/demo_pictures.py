"""What a synthetic photograph costs a decoder, against real ones.

usage: python -m tests.benchmarks.demo_pictures FOLDER

Draws 800 pictures, takes 800 of FOLDER, and decodes all of them in turn, one thread. Bar: the mean time lies within
15 % of the real ones'.
"""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import simplejpeg

from dataio.cli.demo_pictures import draw_pictures

PICTURES, ROUNDS = 800, 5


def read(folder: Path) -> list[bytes]:
    """Some JPEGs of a folder, evenly spread over their names."""
    files = sorted(path for path in folder.rglob("*") if path.suffix.lower() in (".jpg", ".jpeg"))
    return [
        files[place].read_bytes() for place in np.linspace(0, len(files) - 1, min(PICTURES, len(files))).astype(int)
    ]


def best_seconds(contents: list[bytes]) -> list[float]:
    """For each picture the fastest of the rounds."""
    best = [float("inf")] * len(contents)
    for _ in range(ROUNDS):
        for place, content in enumerate(contents):
            start = time.perf_counter()
            simplejpeg.decode_jpeg(content)
            best[place] = min(best[place], time.perf_counter() - start)
    return best


def main() -> None:
    """Prints both and their ratio."""
    with tempfile.TemporaryDirectory() as folder:
        draw_pictures(Path(folder), splits={"train": PICTURES})
        drawn = read(Path(folder))
    means = {}
    for name, contents in (("drawn", drawn), (sys.argv[1], read(Path(sys.argv[1])))):
        seconds = best_seconds(contents)
        means[name] = float(np.mean(seconds))
        size = np.mean([len(content) for content in contents])
        median = 1000 * np.median(seconds)
        print(f"{name}: {1000 * means[name]:.3f} ms a picture (median {median:.3f}), {size / 1e3:.0f} kB")
    print(f"drawn / real: {means['drawn'] / means[sys.argv[1]]:.2f}")


if __name__ == "__main__":
    main()
