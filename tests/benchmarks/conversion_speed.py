"""Speed of conversion against `tar cf` of the same folder; prints the tables of a closing note.

    python -m tests.benchmarks.conversion_speed CORPUS [passthrough|smaller|steadiness|verify|tfds ...]

CORPUS is a folder of pictures such as tests use, page cache warm. Each round runs every contestant once, in turn, so
that drift of the machine meets all alike; a ratio is the median of the rounds' ratios. Conversions are timed inside
the process (start of the interpreter and imports of the parent excluded; starting workers included). What is written
is synced to the disk by dataio and not by tar.
"""

from __future__ import annotations

import io
import itertools
import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import psutil
from PIL import Image

from dataio.converters.conversion import ConversionOptions, Progress, convert
from dataio.converters.picture import ImageOptions
from dataio.converters.registry import WRITABLE
from dataio.converters.verification import verify
from dataio.machine import usable_cores

ROUNDS = 5

#: Least rate as a share of tar's, by format.
WANTED = {"tfrecord": 1.0, "hdf5": 0.8, "lmdb": 0.7}


@contextmanager
def scratch() -> Iterator[Path]:
    """A folder on the disk of the current directory or of TMPDIR."""
    with tempfile.TemporaryDirectory(prefix="conversion-speed-") as folder:
        yield Path(folder)


def seconds_of(work: Callable[[], object]) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def tar(corpus: Path) -> float:
    with scratch() as folder:
        return seconds_of(lambda: subprocess.run(["tar", "cf", folder / "x.tar", "-C", corpus, "."], check=True))


def converted(corpus: Path, to: str, *, image: ImageOptions | None = None, workers: int | None = None) -> float:
    with scratch() as folder:
        options = ConversionOptions(to=to, image=image or ImageOptions())
        return seconds_of(lambda: convert(corpus, folder / "out", options, workers=workers))


def corpus_bytes(corpus: Path) -> int:
    return sum(path.stat().st_size for path in corpus.rglob("*") if path.is_file())


def told(name: str, seconds: list[float], size: int) -> str:
    middle = statistics.median(seconds)
    spread = ", ".join(f"{value:.2f}" for value in sorted(seconds))
    return f"{name:22s} {middle:6.2f} s  {size / 1e6 / middle:7.0f} MB/s   ({spread})"


def passthrough(corpus: Path) -> None:
    """tar and the three formats, interleaved."""
    size = corpus_bytes(corpus)
    tar(corpus)
    rounds: dict[str, list[float]] = {name: [] for name in ("tar", *WRITABLE)}
    for _ in range(ROUNDS):
        rounds["tar"].append(tar(corpus))
        for to in WRITABLE:
            rounds[to].append(converted(corpus, to))
    for name, seconds in rounds.items():
        print(told(name, seconds, size))
    for to in WRITABLE:
        ratios = [first / second for first, second in zip(rounds["tar"], rounds[to], strict=True)]
        print(f"{to:10s} {statistics.median(ratios):.2f} x tar (wanted {WANTED[to]})")


def smaller(corpus: Path) -> None:
    """`--short-side 256 --quality 90` against decode and encode in a bare loop, and two workers against one."""
    image = ImageOptions(encoding="jpeg", short_side=256, quality=90)
    files = sorted(path for path in corpus.rglob("*") if path.is_file())

    def bare() -> None:
        for path in files[:: max(1, len(files) // 500)]:
            with Image.open(path) as opened:
                # The converter may decode at a smaller scale too: the same library, the same trick.
                opened.draft("RGB", (256, 256))
                picture = opened.convert("RGB")
            factor = 256 / min(picture.size)
            if factor < 1:
                picture = picture.resize(
                    (round(picture.width * factor), round(picture.height * factor)), reducing_gap=2
                )
            picture.save(io.BytesIO(), "JPEG", quality=90)

    looked_at = len(files[:: max(1, len(files) // 500)])
    bare_rates, one, two = [], [], []
    for _ in range(3):
        bare_rates.append(looked_at / seconds_of(bare))
        one.append(len(files) / converted(corpus, "tfrecord", image=image, workers=1))
        two.append(len(files) / converted(corpus, "tfrecord", image=image, workers=2))
    bare_rate, one_rate, two_rate = (statistics.median(values) for values in (bare_rates, one, two))
    cores = min(2, usable_cores())
    print(f"bare loop {bare_rate:.0f}/s a core; 1 worker {one_rate:.0f}/s; 2 workers {two_rate:.0f}/s")
    print(f"2 workers: {two_rate / (cores * bare_rate):.2f} of cores x bare loop (wanted 0.75)")
    print(f"2 workers: {two_rate / one_rate:.2f} x 1 worker (wanted 1.7)")


def steadiness(corpus: Path) -> None:
    """Speed of the last tenth against the first, and peak memory of all processes together."""
    # Reports come five times a second: what takes longer than stored files do shows more.
    smaller_image = ImageOptions(encoding="jpeg", short_side=256, quality=90)
    for to, image, rounds in [*((to, ImageOptions(), 3) for to in WRITABLE), ("tfrecord", smaller_image, 1)]:
        ratios, peaks = [], []
        for _ in range(rounds):
            marks: list[tuple[float, int]] = []

            def mark(progress: Progress, marks: list[tuple[float, int]] = marks) -> None:
                marks.append((time.perf_counter(), progress.bytes))

            with scratch() as folder, peak_memory() as peak:
                convert(corpus, folder / "out", ConversionOptions(to=to, image=image), report=mark)
            peaks.append(peak[0])
            total = marks[-1][1]
            first, last = rate_between(marks, 0.0, 0.1, total), rate_between(marks, 0.9, 1.0, total)
            ratios.append(last / first)
        ratio, peak_mb = statistics.median(ratios), max(peaks) / 1e6
        print(f"{to:10s} {image.encoding:6s} last tenth {ratio:.2f} x first tenth; peak memory {peak_mb:.0f} MB")


def rate_between(marks: list[tuple[float, int]], low: float, high: float, total: int) -> float:
    """Bytes a second between two shares of the work, by linear interpolation between reports."""

    def when(share: float) -> float:
        for (t0, b0), (t1, b1) in itertools.pairwise(marks):
            if b1 >= share * total and b1 > b0:
                return t0 + (t1 - t0) * (share * total - b0) / (b1 - b0)
        return marks[-1][0]

    return (high - low) * total / max(when(high) - when(low), 1e-9)


@contextmanager
def peak_memory() -> Iterator[list[int]]:
    """Largest sum of the proportional set sizes of this process and its children, sampled."""
    peak = [0]
    done = threading.Event()

    def watch() -> None:
        me = psutil.Process()
        while not done.wait(0.05):
            total = 0
            for process in (me, *me.children(recursive=True)):
                try:
                    total += process.memory_full_info().pss
                except psutil.Error:
                    continue
            peak[0] = max(peak[0], total)

    thread = threading.Thread(target=watch)
    thread.start()
    try:
        yield peak
    finally:
        done.set()
        thread.join()


def verifying(corpus: Path) -> None:
    """`verify` against reading the same files and doing nothing with them."""
    for to in WRITABLE:
        with scratch() as folder:
            convert(corpus, folder / "out", ConversionOptions(to=to))
            files = [str(path) for path in (folder / "out").rglob("*") if path.is_file()]
            ratios = []
            for _ in range(ROUNDS):
                read = seconds_of(partial(_read_through, files))
                ratios.append(read / seconds_of(partial(verify, folder / "out")))
            print(f"{to:10s} verify {statistics.median(ratios):.2f} of sequential reading (wanted 0.8)")


def _read_through(files: list[str]) -> None:
    buffer = bytearray(1 << 20)
    for name in files:
        descriptor = os.open(name, os.O_RDONLY)
        while os.readv(descriptor, [buffer]):
            pass
        os.close(descriptor)


def tfds(corpus: Path) -> None:
    """A TFDS GeneratorBasedBuilder over the same folder, one process; once, because it is slow."""
    program = Path(__file__).with_name("tfds_builder.py")
    with scratch() as folder:
        shown = subprocess.run(
            [sys.executable, program, corpus, folder], check=True, capture_output=True, text=True
        ).stdout
    seconds = float(shown.split()[-1])
    ours = statistics.median(converted(corpus, "tfrecord") for _ in range(3))
    print(f"tfds {seconds:.1f} s, dataio {ours:.2f} s: {seconds / ours:.0f} x (wanted 10)")


def main() -> None:
    corpus = Path(sys.argv[1])
    parts = {
        "passthrough": passthrough,
        "smaller": smaller,
        "steadiness": steadiness,
        "verify": verifying,
        "tfds": tfds,
    }
    for name in sys.argv[2:] or parts:
        print(f"== {name}", flush=True)
        parts[name](corpus)


if __name__ == "__main__":
    main()
