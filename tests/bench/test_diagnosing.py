"""Diagnosis of pipelines that were built elsewhere."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf
from tensorflow.python.data.experimental.ops import testing

from dataio.bench.diagnosing import Diagnosis, diagnose, load_dataset
from dataio.bench.diagnosis_text import describe_diagnosis
from dataio.bench.iterating import LivePipeline
from dataio.bench.step import SimulatedAccelerator
from dataio.errors import StepError


def slow_source() -> tf.data.Dataset:
    """Batches of 8 every 10 ms, whatever the processor does."""
    batch = tf.zeros([8, 4])
    return tf.data.Dataset.from_tensors(batch).repeat(5000).apply(testing.sleep(10_000)).prefetch(2)


def serial_work() -> tf.data.Dataset:
    """Work on one thread, without a prefetch."""
    noise = tf.constant(np.random.default_rng(0).normal(size=(200, 200)), tf.float32)
    dataset = tf.data.Dataset.range(100_000).map(lambda x: tf.linalg.matmul(noise, noise)[0] + tf.cast(x, tf.float32))
    options = tf.data.Options()
    options.experimental_optimization.map_parallelization = False
    options.experimental_optimization.inject_prefetch = False
    return dataset.batch(4).with_options(options)


@pytest.fixture(scope="module")
def starving() -> Diagnosis:
    """Of a source that is slower than the step."""
    return diagnose(slow_source, name="mine:slow", step=SimulatedAccelerator(0.004), budget_seconds=4)


@pytest.fixture(scope="module")
def serial() -> Diagnosis:
    """Of work on one thread, without a step."""
    return diagnose(serial_work, budget_seconds=1.5)


def test_a_pipeline_and_a_step_become_a_verdict_with_its_reasons(starving: Diagnosis) -> None:
    diagnosis = starving
    assert diagnosis.dataset == "mine:slow"
    assert diagnosis.batch_size == 8
    # The sleeper's rate is an upper bound; a machine that is busy otherwise gives less.
    assert 200 < diagnosis.supply_images_per_second.value < 800 * 1.1
    assert diagnosis.verdict is not None
    assert diagnosis.verdict.outcome == "starved"
    assert diagnosis.verdict.supply_images_per_second == diagnosis.supply_images_per_second.value
    assert {one.name for one in diagnosis.operators} >= {"Prefetch", "Sleep"}
    assert ("Prefetch", "buffer_size") in {(one.operator, one.parameter) for one in diagnosis.tuned}


def test_without_a_step_there_is_no_verdict_but_traps_and_costs(serial: Diagnosis) -> None:
    diagnosis = serial
    assert diagnosis.verdict is None
    assert "no-prefetch-at-the-end" in {trap.name for trap in diagnosis.traps}
    mapped = next(one for one in diagnosis.operators if one.name.startswith("Map"))  # fused with batch
    assert mapped.share > 0.5
    assert mapped.threads == 1


def test_a_pipeline_without_autotuning_is_diagnosed_without_operators() -> None:
    def untold() -> tf.data.Dataset:
        options = tf.data.Options()
        options.autotune.enabled = False
        return slow_source().with_options(options)

    diagnosis = diagnose(untold, budget_seconds=1.2)
    assert diagnosis.operators == ()
    assert diagnosis.tuned == ()
    assert diagnosis.limit.startswith("unknown")
    assert diagnosis.supply_images_per_second.value > 0


def test_short_epochs_are_read_again_and_again() -> None:
    diagnosis = diagnose(lambda: slow_source().take(6), budget_seconds=1.2)
    assert diagnosis.supply_images_per_second.value > 100


def test_a_diagnosis_goes_to_json_and_back_and_into_words() -> None:
    diagnosis = diagnose(slow_source, name="mine:slow", step=SimulatedAccelerator(0.02), budget_seconds=2)
    assert Diagnosis.from_json(diagnosis.to_json()) == diagnosis
    text = describe_diagnosis(diagnosis)
    assert "mine:slow delivers" in text
    assert "verdict: " in text
    assert "Prefetch" in text


def test_traps_are_told_with_their_fixes(serial: Diagnosis) -> None:
    text = describe_diagnosis(serial)
    assert "known trap" in text
    assert "fix: end with .prefetch(tf.data.AUTOTUNE)" in text


def test_a_dataset_is_found_by_the_name_of_its_function(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    (tmp_path / "inputs.py").write_text(
        "import tensorflow as tf\n\ndef make():\n    return tf.data.Dataset.range(8)\n\ndef wrong():\n    return [1]\n"
    )
    assert int(load_dataset("inputs:make")().cardinality()) == 8
    with pytest.raises(StepError, match=r"gives a list, not a tf\.data\.Dataset"):
        load_dataset("inputs:wrong")()
    with pytest.raises(StepError, match="has no 'other'"):
        load_dataset("inputs:other")
    sys.modules.pop("inputs", None)


def held_up(monkeypatch: pytest.MonkeyPatch, seconds: float) -> None:
    """Every end of an epoch counts as `seconds` long."""
    monkeypatch.setattr(LivePipeline, "end_seconds", property(lambda live: (seconds,) * len(live.epoch_seconds)))


def test_ends_of_epochs_that_take_long_are_noted_with_the_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    held_up(monkeypatch, 60.0)
    diagnosis = diagnose(lambda: slow_source().take(6), budget_seconds=1.2)
    assert diagnosis.end_of_epoch_share > 0.9
    text = describe_diagnosis(diagnosis)
    assert "note: ends of epochs took " in text
    assert "options.autotune.enabled = False" in text
    assert Diagnosis.from_json(diagnosis.to_json()) == diagnosis


def test_quick_ends_and_ends_without_autotuning_are_not_noted(monkeypatch: pytest.MonkeyPatch) -> None:
    held_up(monkeypatch, 0.0)
    diagnosis = diagnose(lambda: slow_source().take(6), budget_seconds=1.2)
    assert diagnosis.end_of_epoch_share == 0.0
    assert diagnosis.notes == ()
    held_up(monkeypatch, 60.0)
    options = tf.data.Options()
    options.autotune.enabled = False
    diagnosis = diagnose(lambda: slow_source().take(6).with_options(options), budget_seconds=1.2)
    assert diagnosis.end_of_epoch_share > 0.9
    assert diagnosis.notes == (), "the remedy is there already"


def test_ends_seen_with_the_step_are_noted_too(monkeypatch: pytest.MonkeyPatch) -> None:
    held_up(monkeypatch, 60.0)
    step = SimulatedAccelerator(0.004)
    diagnosis = diagnose(lambda: slow_source().take(20), step=step, budget_seconds=4)
    assert len(diagnosis.notes) == 1
    assert diagnosis.verdict is not None
    assert "on average, 60 s" in diagnosis.verdict.reason
