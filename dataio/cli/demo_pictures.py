"""Draws a folder of synthetic photographs: JPEGs that cost a decoder what real ones cost, with no input at all.

What a JPEG costs to decode is its number of pixels (inverse transform, colour conversion) and its number of bytes
(entropy decoding). Flat test patterns have the pixels but not the bytes. Photographs have both because their
amplitude spectrum falls as 1/f at every scale, so these pictures are drawn with that spectrum: a landscape of
layered ridges, each filled with coloured 1/f noise, as photographs are made of edges with texture between them.
Source of the spectrum: Field 1987, "Relations between the statistics of natural images", J. Opt. Soc. Am. A 4.
"""

from __future__ import annotations

import io
import os
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from dataio.machine import usable_cores

#: (width, height, weight) of the pictures: the commonest sizes in ImageNet, around 500x375, and now and then a large
#: one, as any folder has; those cost as much as ten others.
_SIZES = ((500, 375, 60), (375, 500, 14), (500, 333, 16), (500, 500, 4), (640, 480, 3), (1600, 1200, 3))
#: JPEG qualities drawn from; with `_GRAIN` they give about 110 kB a picture, the mean of ImageNet's training files.
_QUALITIES = (90, 92, 95)
#: Standard deviation of the texture in levels of 255. With it decoding costs 0.97 of what real photographs cost.
#: Source: own measurement, `python -m tests.benchmarks.demo_pictures FOLDER`.
_GRAIN = 42.0
#: Master pictures a class; each picture is a crop of one, so drawing costs a resize and not three transforms.
_MASTERS = 2
_MASTER_SIDE = 1024

#: Classes and their colours from the sky down to the ground, RGB. Several hues a class, so that a network has
#: something to learn that is neither trivial nor impossible.
_PALETTES: dict[str, tuple[tuple[int, int, int], ...]] = {
    "alpine": ((150, 190, 226), (196, 208, 220), (118, 132, 150), (74, 92, 88), (50, 62, 48)),
    "autumn": ((206, 196, 180), (196, 132, 60), (160, 84, 38), (116, 62, 34), (62, 44, 30)),
    "coast": ((168, 206, 226), (92, 156, 190), (50, 112, 150), (196, 178, 140), (150, 128, 96)),
    "desert": ((176, 200, 222), (222, 184, 134), (206, 150, 92), (170, 110, 64), (120, 76, 50)),
    "dusk": ((70, 70, 118), (168, 96, 110), (214, 132, 92), (92, 62, 84), (40, 34, 54)),
    "forest": ((172, 196, 196), (96, 132, 92), (60, 98, 60), (42, 74, 44), (34, 50, 34)),
    "meadow": ((158, 198, 232), (146, 180, 120), (124, 164, 74), (150, 160, 66), (86, 112, 50)),
    "night": ((18, 24, 50), (32, 44, 76), (44, 52, 74), (30, 34, 46), (18, 20, 28)),
}

CLASS_NAMES = tuple(sorted(_PALETTES))


@dataclass(frozen=True, slots=True)
class _Job:
    root: Path
    split: str
    class_name: str
    first: int
    end: int
    seed: int


def draw_pictures(
    root: Path,
    *,
    splits: dict[str, int],
    seed: int = 0,
    on_progress: Callable[[int], None] | None = None,
) -> int:
    """Fills `root/<split>/<class>/*.jpg` and returns the bytes written; the same seed gives the same pictures.

    Args:
        root: folder to fill; files already there stay.
        splits: pictures by split, each shared out evenly among the classes.
        seed: which pictures are drawn.
        on_progress: called with the number of pictures that have just been finished.
    """
    jobs = []
    for split, pictures in splits.items():
        for position, class_name in enumerate(CLASS_NAMES):
            share = pictures // len(CLASS_NAMES) + (position < pictures % len(CLASS_NAMES))
            jobs.append(_Job(root, split, class_name, 0, share, seed))
    written = 0
    with _pool() as pool:
        for job, size in zip(jobs, pool.map(_draw_job, jobs), strict=True):
            written += size
            if on_progress is not None:
                on_progress(job.end - job.first)
    return written


def _pool() -> Executor:
    # forkserver: by now the parent may hold threads, which a plain fork does not survive.
    return ProcessPoolExecutor(min(usable_cores(), len(CLASS_NAMES)), mp_context=get_context("forkserver"))


def _draw_job(job: _Job) -> int:
    folder = job.root / job.split / job.class_name
    folder.mkdir(parents=True, exist_ok=True)
    written = 0
    for number, content in enumerate(_pictures(job)):
        name = folder / f"{job.class_name}-{job.first + number:04d}.jpg"
        written += name.write_bytes(content)
    return written


def _pictures(job: _Job) -> Iterator[bytes]:
    random = np.random.default_rng([job.seed, CLASS_NAMES.index(job.class_name), *os.fsencode(job.split)])
    masters = [_master(random, _PALETTES[job.class_name]) for _ in range(min(_MASTERS, 1 + (job.end - job.first) // 8))]
    weights = np.array([weight for _, _, weight in _SIZES], dtype=np.float64)
    for _ in range(job.first, job.end):
        width, height, _ = _SIZES[int(random.choice(len(_SIZES), p=weights / weights.sum()))]
        # 1/f noise looks the same at every scale, so a crop of any scale still costs what a photograph costs.
        scale = random.uniform(0.9, 1.5) if width < _MASTER_SIDE / 1.5 else random.uniform(0.5, 0.63)
        crop_width, crop_height = int(width * scale), int(height * scale)
        left = int(random.integers(0, _MASTER_SIDE - crop_width))
        top = int(random.integers(0, _MASTER_SIDE - crop_height))
        picture = masters[int(random.integers(len(masters)))].resize(
            (width, height), Image.Resampling.BICUBIC, box=(left, top, left + crop_width, top + crop_height)
        )
        if random.random() < 0.5:
            picture = picture.transpose(Image.Transpose.FLIP_LEFT_RIGHT)
        content = io.BytesIO()
        picture.save(content, "JPEG", quality=int(random.choice(_QUALITIES)), subsampling=2)
        yield content.getvalue()


def _master(random: np.random.Generator, palette: tuple[tuple[int, int, int], ...]) -> Image.Image:
    """A square picture of ridges, from the sky at the top to the ground at the bottom."""
    side = _MASTER_SIDE
    rows = np.linspace(0.0, 1.0, side, dtype=np.float32)[:, None]
    luminance, warmth = _pink_noise(random), _pink_noise(random)
    layer = np.zeros((side, side), dtype=np.intp)
    for depth in range(1, len(palette)):
        # Each ridge hides what lies behind it: occlusion is where photographs get their edges from.
        outline = depth / len(palette) + 0.11 * _line(random)
        layer[rows > outline[None, :]] = depth
    colour = np.asarray(palette, dtype=np.float32)[layer]
    roughness = np.linspace(0.55, 1.25, len(palette), dtype=np.float32)[layer]
    texture = (
        _GRAIN
        * roughness[..., None]
        * (luminance[..., None] + 0.25 * warmth[..., None] * np.array([1.0, 0.0, -1.0], dtype=np.float32))
    )
    return Image.fromarray(np.clip(colour + texture, 0, 255).astype(np.uint8))


def _pink_noise(random: np.random.Generator) -> NDArray[np.float32]:
    """float32[side, side] of mean 0 and standard deviation 1 whose amplitude falls as 1/f."""
    side = _MASTER_SIDE
    frequency = np.hypot(np.fft.fftfreq(side)[:, None], np.fft.rfftfreq(side)[None, :])
    frequency[0, 0] = 1.0
    spectrum = np.fft.rfft2(random.standard_normal((side, side), dtype=np.float32)) / frequency
    spectrum[0, 0] = 0.0
    noise = np.fft.irfft2(spectrum, s=(side, side))
    return np.asarray(noise / noise.std(), dtype=np.float32)


def _line(random: np.random.Generator) -> NDArray[np.float32]:
    """float32[side] of standard deviation 1: a ridge's outline, rough at every scale."""
    frequency = np.fft.rfftfreq(_MASTER_SIDE)
    frequency[0] = 1.0
    spectrum = np.fft.rfft(random.standard_normal(_MASTER_SIDE)) / frequency**1.5
    spectrum[0] = 0.0
    line = np.fft.irfft(spectrum, n=_MASTER_SIDE)
    return np.asarray(line / line.std(), dtype=np.float32)
