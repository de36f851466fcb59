"""Remedies: what they promise follows from the work they save, and nothing impossible is proposed."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from dataio.bench import remedies
from dataio.bench.bare import Sample, decoded, take_sample
from dataio.bench.costs import Costs, StageSeconds
from dataio.bench.predicting import Predictor
from dataio.bench.remedies import Situation, cores_needed, find_remedies
from dataio.bench.results import Remedy
from dataio.data import Split
from dataio.plan import Plan
from dataio.recipe import Recipe

from .test_bounds import Pictures

RECIPE = Recipe(image_size=32, batch_size=4, dtype="uint8")
SECONDS = {"read": 0.4e-3, "boxes": 0.05e-3, "picture": 1.4e-3, "op overhead": 0.15e-3}


def predictor(cores: int = 2) -> Predictor:
    stages = tuple(
        StageSeconds(stage=stage, seconds_per_image=seconds, bytes_per_image=None, share=seconds / 2e-3)  # type: ignore[arg-type]
        for stage, seconds in SECONDS.items()
    )
    made = Predictor(cores)
    made.calibrate(Plan(), Costs(images=100, seconds_per_image=2e-3, stages=stages))
    return made


@pytest.fixture(scope="module")
def situation() -> Situation:
    return Situation(
        data=Pictures(),
        recipe=RECIPE,
        split="train",
        plan=Plan(num_parallel_calls=2, cycle_length=1, prefetch=2),
        images_per_second=1000.0,
        predictor=predictor(),
        cores=2,
        free_bytes=10**10,
    )


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Short bare loops, and no trials, which have tests of their own: twice and five times what is supplied now."""
    monkeypatch.setattr(remedies, "TRIAL_SECONDS", 0.02)
    monkeypatch.setattr(remedies, "try_raw", lambda *_, **__: 2000.0)
    monkeypatch.setattr(remedies, "try_cache", lambda *_, images_per_second, **__: 5 * images_per_second)


def titled(remedies: tuple[Remedy, ...], word: str) -> Remedy | None:
    return next((remedy for remedy in remedies if word in remedy.title), None)


def test_a_cache_saves_what_reading_takes(situation: Situation) -> None:
    cache = titled(find_remedies(situation), "encoded records in memory")
    assert cache is not None
    assert cache.images_per_second == pytest.approx(1000 * 2.0 / 1.603, rel=0.01)
    assert "10 GB" in cache.cost or "10.0 GB" in cache.cost


def test_a_cache_that_does_not_fit_is_not_proposed(situation: Situation) -> None:
    assert titled(find_remedies(replace(situation, free_bytes=1000)), "in memory") is None


def test_a_cache_of_decoded_pictures_promises_more_than_one_of_records(situation: Situation) -> None:
    remedies = find_remedies(situation)
    records, pixels = titled(remedies, "encoded records"), titled(remedies, "decoded pictures")
    assert records is not None and pixels is not None
    assert (pixels.images_per_second or 0) > (records.images_per_second or 0)
    held = replace(situation, plan=Plan(kernel="opencv", cache="decoded"))
    assert titled(find_remedies(held), "decoded pictures") is None


@pytest.fixture
def roomy_disk(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A folder for caches on a disk with room, read at 1 GB/s."""
    monkeypatch.setenv("DATAIO_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr("dataio.bench.footprint.lies_in_memory", lambda folder: False)
    monkeypatch.setattr("dataio.bench.footprint.cache_room_bytes", lambda folder: 10**12)
    monkeypatch.setattr("dataio.bench.remedies.cache_bytes_per_second", lambda folder: 1e9)


def too_many(situation: Situation) -> Situation:
    """The same pictures so often that neither they nor their pixels fit into memory."""
    data = Pictures()
    data.splits = {"train": Split(10**6, 1, 10**6 * 20_000)}
    return replace(situation, data=data, free_bytes=10**9)


@pytest.mark.usefixtures("roomy_disk")
def test_decoded_pictures_that_do_not_fit_into_memory_may_lie_on_disk_as_fast_as_it_reads(
    situation: Situation, monkeypatch: pytest.MonkeyPatch
) -> None:
    remedy = titled(find_remedies(too_many(situation)), "decoded pictures on disk")
    assert remedy is not None and 'cache="decoded_disk"' in remedy.how
    assert (remedy.images_per_second or 0) <= 1e9 / (300 * 400 * 3)
    monkeypatch.setattr("dataio.bench.remedies.cache_bytes_per_second", lambda folder: 1e8)
    assert titled(find_remedies(too_many(situation)), "on disk") is None  # slower than decoding


@pytest.mark.usefixtures("roomy_disk")
@pytest.mark.parametrize(("data", "cache", "proposed"), [("network", "ssd", True), ("disk", "virtual", True),
    ("ssd", "ssd", False), ("network", "network", False), ("disk", "disk", False)])  # fmt: skip
def test_encoded_records_are_kept_on_disk_only_where_it_is_better_than_where_they_lie(
    situation: Situation, monkeypatch: pytest.MonkeyPatch, data: str, cache: str, proposed: bool
) -> None:
    monkeypatch.setattr("dataio.bench.remedies.storage_kind", lambda path: data if path == Path("pictures") else cache)
    assert (titled(find_remedies(too_many(situation)), "this machine's disk") is not None) == proposed


def test_a_folder_is_converted_and_a_packed_dataset_is_not(situation: Situation) -> None:
    folder = Pictures()
    folder.format = "folder"
    packed = titled(find_remedies(replace(situation, data=folder)), "packed")
    assert packed is not None and packed.images_per_second is not None
    assert 1000 * 2.0 / 1.65 < packed.images_per_second < 1000 * 2.0 / 1.6
    assert packed.how == "dataio convert pictures pictures-tfrecord --to tfrecord"
    assert titled(find_remedies(situation), "packed") is None


def test_the_plan_that_was_found_comes_with_a_line_that_uses_it(situation: Situation) -> None:
    tuned = Plan(kernel="opencv", num_parallel_calls=3)
    remedy = titled(find_remedies(replace(situation, tuned=(tuned, 1800.0))), "plan that was found")
    assert remedy is not None and remedy.images_per_second == 1800
    assert eval(remedy.how.split("recipe, ")[1][:-1], {"dataio": __import__("dataio")}) == tuned


def test_more_cores_are_counted_from_what_one_supplies(situation: Situation) -> None:
    starving = replace(situation, demand_images_per_second=3400.0)
    assert cores_needed(starving) == pytest.approx(3400 * 1.1 / 500)
    cores = titled(find_remedies(starving), "8 cores")
    assert cores is not None and "needs 7.5 cores; there are 2" in cores.cost
    assert titled(find_remedies(starving), "3 more machines") is not None


def test_a_step_that_is_fed_needs_no_cores(situation: Situation) -> None:
    assert titled(find_remedies(replace(situation, demand_images_per_second=500.0)), "cores") is None
    assert cores_needed(situation) is None


def test_the_greatest_gain_comes_first_and_small_ones_not_at_all(situation: Situation) -> None:
    remedies = find_remedies(situation, sample=take_sample(situation.data, split="train"))
    rates = [remedy.images_per_second for remedy in remedies]
    assert rates == sorted(rates, key=lambda rate: -(rate or 0))
    assert all(rate is not None and rate >= 1050 for rate in rates)


def test_pixels_that_are_raw_already_are_not_stored_anew(situation: Situation) -> None:
    raw = Pictures()
    raw.encoding = "raw"
    assert titled(find_remedies(replace(situation, data=raw)), "Store") is None


def test_what_a_bare_loop_saves_is_not_promised_whole(situation: Situation, monkeypatch: pytest.MonkeyPatch) -> None:
    full = take_sample(situation.data, split="train", records=4)
    monkeypatch.setattr(remedies, "bare_seconds", lambda sample, *_, **__: 1.0e-3 if sample is full else 0.4e-3)
    small = titled(find_remedies(situation, sample=full), "short side")
    assert small is not None
    # Of 2 ms reading (0.4) becomes packed reading (0.02), and 0.93 of the 0.6 saved by decoding less are gone.
    assert small.images_per_second == pytest.approx(1000 * 2.0 / (2.0 - 0.4 + 0.02 - 0.93 * 0.6), rel=0.01)


def test_raw_pixels_are_promised_what_the_plan_reaches_on_some(
    situation: Situation, full: Sample, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[tuple[str, float, Plan]] = []

    def tried(data: object, sample: Sample, recipe: Recipe, plan: Plan, *, split: str) -> float:
        seen.append((sample.encoding, sample.record_bytes, plan))
        return 4321.0

    monkeypatch.setattr(remedies, "try_raw", tried)
    fused = situation.plan.replace(kernel="opencv", fused_decode_and_crop=True)
    raw = titled(find_remedies(replace(situation, plan=fused), sample=full), "raw pixels")
    assert raw is not None and raw.images_per_second == 4321.0
    assert seen == [("raw", 256 * 256 * 3, fused.replace(fused_decode_and_crop=False))]
    find_remedies(replace(situation, plan=fused.replace(cache="memory")), sample=full)
    assert len(seen) == 1  # a cache of the sample says nothing about one of the whole


def test_no_remedy_is_promised_the_impossible_after_a_disturbed_calibration(
    situation: Situation, full: Sample, monkeypatch: pytest.MonkeyPatch
) -> None:
    disturbed = predictor()
    slow = {stage: seconds * (20 if stage == "read" else 1) for stage, seconds in SECONDS.items()}
    stages = tuple(
        StageSeconds(stage=stage, seconds_per_image=seconds, bytes_per_image=None, share=seconds / sum(slow.values()))  # type: ignore[arg-type]
        for stage, seconds in slow.items()
    )
    disturbed.calibrate(Plan(), Costs(images=100, seconds_per_image=sum(slow.values()), stages=stages))
    fast = situation.plan.replace(kernel="opencv")
    disturbed.learn(fast, 2000.0)
    monkeypatch.setattr(remedies, "try_raw", lambda *_, **__: 0.0)
    folder = Pictures()
    folder.format = "folder"
    found = find_remedies(
        replace(situation, data=folder, plan=fast, images_per_second=2000.0, predictor=disturbed), sample=full
    )
    for word in ("encoded records", "packed"):
        remedy = titled(found, word)
        assert remedy is None or 0 < (remedy.images_per_second or 0) <= 4.001 * 2000


def promised(situation: Situation, full: Sample) -> float:
    remedy = titled(find_remedies(situation, sample=full), "decoded pictures")
    assert remedy is not None and remedy.images_per_second is not None
    return remedy.images_per_second


@pytest.fixture
def full(situation: Situation, monkeypatch: pytest.MonkeyPatch) -> Sample:
    """A sample that takes a core 1 ms a picture in the bare loop, and 0.1 ms once it is decoded."""
    full = take_sample(situation.data, split="train", records=4)
    monkeypatch.setattr(remedies, "bare_seconds", lambda sample, *_, **__: 1.0e-3 if sample is full else 0.1e-3)
    return full


@pytest.mark.parametrize("kernel", ["tensorflow", "opencv"])
def test_decoded_pictures_in_memory_are_promised_what_a_cache_of_some_brings(
    situation: Situation, full: Sample, monkeypatch: pytest.MonkeyPatch, kernel: str
) -> None:
    seen: list[tuple[Plan, str, float]] = []

    def tried(data: object, recipe: Recipe, plan: Plan, *, split: str, images_per_second: float) -> float:
        seen.append((plan, split, images_per_second))
        return 5432.0

    monkeypatch.setattr(remedies, "try_cache", tried)
    fused = situation.plan.replace(kernel=kernel, fused_decode_and_crop=True)
    assert promised(replace(situation, plan=fused), full) == 5432.0
    assert seen == [(fused.replace(cache="decoded", fused_decode_and_crop=False), "train", 1000.0)]


def test_decoded_pictures_in_memory_are_promised_what_was_measured(
    situation: Situation, full: Sample, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(remedies, "try_cache", lambda *_, **__: pytest.fail("nothing is left to try"))
    plan = situation.plan.replace(kernel="opencv")
    known = predictor()
    known.learn(plan.replace(cache="decoded"), 7000.0)
    assert promised(replace(situation, plan=plan, predictor=known), full) == pytest.approx(7000)


def test_decoded_pictures_on_disk_are_promised_less_the_larger_they_are(
    situation: Situation, full: Sample, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(remedies, "refusal", lambda footprint, **_: None if footprint.disk_bytes else "too large")
    monkeypatch.setattr(remedies, "cache_bytes_per_second", lambda _: 1e12)
    kept = decoded(full)

    def of(copies: int) -> float:
        larger = replace(kept, images=[image * copies for image in kept.images])
        monkeypatch.setattr(remedies, "decoded", lambda sample: larger)
        return promised(situation, full)

    assert of(2) < 0.9 * of(1)
