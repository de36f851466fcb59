"""The tiles at the top of a report, and what the gaps in its strips are."""

from __future__ import annotations

from dataio.bench.gains import gain
from dataio.bench.results import Dataset, Results
from dataio.bench.words import (
    HELD_UP_PLAN,
    byte_words,
    chosen_loop,
    gap_words,
    rate_words,
    ratio_words,
    share_words,
    tells_end,
)


def facts(results: Results, dataset: Dataset) -> list[dict[str, str]]:
    """The tiles: a figure each, and what it is."""
    chosen, verdict, before = results.chosen, results.verdict, results.verdict_before
    tiles = [
        {"value": rate_words(chosen.images_per_second.median), "words": "images/s supplied by the plan chosen"},
    ]
    if results.step is not None:
        tiles.append(
            {"value": rate_words(results.step.images_per_second), "words": f"images/s demanded ({results.step.name})"}
        )
    if verdict is not None:
        interval = f"{share_words(verdict.stall.low)} to {share_words(verdict.stall.high)}"
        tiles.append({"value": share_words(verdict.stall.value), "words": f"stall now ({interval})"})
    if before is not None:
        interval = f"{share_words(before.stall.low)} to {share_words(before.stall.high)}"
        tiles.append({"value": share_words(before.stall.value), "words": f"stall with TensorFlow's guide ({interval})"})
    for name, words in (("autotune", "TensorFlow's guide"), ("autotune_fused", "it with decode and crop in one op")):
        times = gain(chosen, results.run(name, chosen.data), noise=results.noise)
        if times is not None and (before is None or name == "autotune"):
            noise = ", within the noise" if times.is_noise else ""
            tiles.append(
                {"value": f"{times.value:.2f} ×", "words": f"the supply of {words} ({ratio_words(times)}){noise}"}
            )
    loop = chosen_loop(results)
    if loop is not None and loop.gpu_utilisation is not None:
        tiles.append({"value": share_words(loop.gpu_utilisation), "words": "GPU busy while the step ran (NVML)"})
    if loop is not None and loop.host_to_device_bytes_per_second is not None:
        rate = loop.host_to_device_bytes_per_second
        tiles.append({"value": f"{rate_words(rate / 1e6)} MB/s", "words": "pictures of a batch copied to the GPU"})
    tiles.append(
        {"value": f"{dataset.records:,}", "words": f"pictures in {results.split}, {byte_words(dataset.bytes)}"}
    )
    return tiles


def fill_sentence(results: Results) -> str:
    """What start and end of an epoch take with the plan chosen, where that was measured; empty otherwise."""
    loop = chosen_loop(results)
    fill = loop.first_fill if loop is not None else None
    if fill is None or (fill.seconds == 0 and not tells_end(fill)):
        return ""
    told = (
        f"With the plan chosen {gap_words(fill)}, {share_words(fill.share)} of the time of an epoch of "
        f"{fill.epoch_batches:,} batches."
    )
    if tells_end(fill):
        told += " No gap shows the end: the loop did not wait for it, but training does."
    return f"{told} {HELD_UP_PLAN}." if tells_end(fill) and results.chosen.plan.autotune else told
