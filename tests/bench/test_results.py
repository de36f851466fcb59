"""results.json: its form, and that nothing contradictory gets into it."""

from __future__ import annotations

import json

import pytest

from dataio.bench.results import Results
from dataio.errors import RecordError
from tests.bench.sample_results import sample_results


def test_results_survive_json_unchanged() -> None:
    results = sample_results()
    assert Results.from_json(results.to_json()) == results


def test_results_of_an_earlier_release_without_fill_and_gpu_still_load() -> None:
    values = json.loads(sample_results().to_json())
    for loop in values["loops"]:
        for name in ("first_fill", "gpu_utilisation", "host_to_device_bytes_per_second"):
            del loop[name]
    loaded = Results.from_json(json.dumps(values))
    assert [loop.gpu_utilisation for loop in loaded.loops] == [None, None]


def test_programs_find_verdict_and_runs_where_they_rely_on_them() -> None:
    values = json.loads(sample_results().to_json())
    assert values["verdict"]["outcome"] == "fed"
    assert set(values["verdict"]["stall"]) == {"value", "low", "high"}
    assert {"supply_images_per_second", "demand_images_per_second", "reason"} <= set(values["verdict"])
    assert {"name", "data", "plan", "images_per_second", "peak_memory_bytes", "chosen"} <= set(values["runs"][0])
    assert set(values["runs"][0]["images_per_second"]) == {"median", "low", "high"}
    assert sum(run["chosen"] for run in values["runs"]) == 1


def test_without_a_step_both_verdicts_are_null() -> None:
    values = json.loads(sample_results(step=False).to_json())
    assert values["verdict"] is None
    assert values["verdict_before"] is None


@pytest.mark.parametrize("count", [0, 2])
def test_exactly_one_run_is_chosen(count: int) -> None:
    results = sample_results()
    runs = tuple(run.replace(chosen=place < count) for place, run in enumerate(results.runs))
    with pytest.raises(RecordError, match="exactly one chosen run"):
        results.replace(runs=runs)


def test_a_run_on_a_dataset_that_is_not_listed_is_refused() -> None:
    results = sample_results()
    with pytest.raises(RecordError, match="elsewhere"):
        results.replace(runs=(*results.runs[:-1], results.runs[-1].replace(data="elsewhere")))


def test_an_unknown_key_is_refused_and_named() -> None:
    values = json.loads(sample_results().to_json()) | {"speed": 3}
    with pytest.raises(RecordError, match="speed"):
        Results.from_json(json.dumps(values))


def test_a_wait_for_a_ready_batch_counts_as_none() -> None:
    loop = sample_results().loops[0].replace(wait_seconds=(0.3, 0.2, 0.1), ready=(0, 2, None), step_seconds=(1, 1, 1))
    assert loop.counted_wait_seconds == (0.3, 0.0, 0.1)
