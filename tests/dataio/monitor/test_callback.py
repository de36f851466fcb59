"""The monitor in real fits and loops, over a pipeline of known rate and a step of known length."""

from __future__ import annotations

import json
import warnings
from pathlib import Path

import pytest
import tensorflow as tf

from dataio import StarvationMonitor
from dataio.monitor import MonitorSummary, StarvationWarning, Timing
from dataio.monitor.epochs import ComparedEpoch
from tests.dataio.monitor.sleeping import make_model, make_sleeper

pytestmark = pytest.mark.filterwarnings(
    "ignore:.*shuffle=True.*", "ignore:.*build.*", "ignore::dataio.monitor.StarvationWarning"
)

#: Seconds a batch and a step. Far apart and with loose bounds, since other work may hold up a step a great deal;
#: tests/benchmarks has tight bounds.
STARVED, FED = 0.030, 0.0005
STEP = 0.001


def fit(monitor: StarvationMonitor, data: tf.data.Dataset, *, epochs: int = 1, **options: object) -> None:
    compile_options = {name: options.pop(name) for name in ("steps_per_execution",) if name in options}
    model = make_model(options.pop("step_seconds", STEP), **compile_options)
    model.fit(monitor.watch(data), epochs=epochs, callbacks=[monitor], verbose=0, **options)


def test_a_starved_fit_is_seen_epoch_by_epoch_and_warned_about_once() -> None:
    monitor = StarvationMonitor()
    with pytest.warns(StarvationWarning, match=r"waited for input .* of the time .* starved.*dataio bench") as caught:
        fit(monitor, make_sleeper(0.080, 20), epochs=2, validation_data=make_sleeper(0.001, 3))
    assert len([one for one in caught if one.category is StarvationWarning]) == 1
    summary = monitor.summary()
    assert summary.method == "waits"
    assert summary.outcome == "starved"
    assert [epoch.epoch for epoch in summary.epochs] == [0, 1]
    assert [epoch.steps for epoch in summary.epochs] == [20, 20]
    for epoch in summary.epochs:
        assert epoch.stall is not None
        assert 0.3 < epoch.stall.value < 1
        assert epoch.images_per_second == pytest.approx(8 / 0.080, rel=0.3)
    assert monitor.stall is not None
    assert monitor.stall.low <= monitor.stall.value <= monitor.stall.high
    waits, steps = monitor.steps[0]
    assert len(waits) == len(steps) == 18
    assert min(steps) >= STEP


def test_a_fed_fit_is_reported_as_under_its_floor() -> None:
    monitor = StarvationMonitor()
    with warnings.catch_warnings():
        warnings.simplefilter("error", StarvationWarning)
        fit(monitor, make_sleeper(FED, 40), step_seconds=0.02)
    summary = monitor.summary()
    assert summary.outcome == "fed"
    assert summary.indistinguishable
    assert summary.stall is not None
    assert summary.stall.value == 0
    assert 0 < summary.stall.high < 0.05
    assert "under" in summary.reason


def test_the_dataset_keeps_its_elements_and_its_length() -> None:
    plain = tf.data.Dataset.range(10).batch(3)
    watched = StarvationMonitor().watch(plain)
    assert [batch.numpy().tolist() for batch in watched] == [batch.numpy().tolist() for batch in plain]
    assert watched.element_spec == plain.element_spec
    assert len(watched) == 4
    assert [int(sum(batch)) for batch in watched.unbatch().batch(5)] == [10, 35]


def test_a_loop_of_ones_own_is_timed_and_each_iteration_is_an_epoch() -> None:
    monitor = StarvationMonitor()
    watched = monitor.watch(make_sleeper(STARVED, 15))
    for _ in range(2):
        for _ in watched:
            pass
    summary = monitor.summary()
    assert [epoch.steps for epoch in summary.epochs] == [15, 15]
    assert summary.outcome == "starved"
    assert summary.stall is not None
    assert summary.stall.value > 0.8


def test_a_loop_that_is_left_early_counts_what_it_did() -> None:
    monitor = StarvationMonitor()
    for number, _ in enumerate(monitor.watch(make_sleeper(0.002, 30))):
        if number == 9:
            break
    (epoch,) = monitor.epochs
    assert epoch.steps == 10
    assert epoch.stall is not None


def test_a_loop_over_a_pipeline_without_autotuning_is_timed_by_its_calls() -> None:
    monitor = StarvationMonitor()
    for _ in monitor.watch(make_sleeper(STARVED, 20, autotune=False)):
        pass
    assert monitor.stall is not None
    assert monitor.stall.value > 0.8


def test_a_fit_without_autotuning_is_compared_with_steps_on_ready_batches() -> None:
    monitor = StarvationMonitor()
    fit(monitor, make_sleeper(STARVED, 50, autotune=False))
    summary = monitor.summary()
    assert summary.method == "comparison"
    assert summary.stall is not None
    assert summary.stall.high > 0.3  # the interval is wide where other work holds up executions


def test_several_steps_an_execution_are_compared_with_executions_on_ready_batches() -> None:
    monitor = StarvationMonitor()
    fit(monitor, make_sleeper(0.015, 140), steps_per_execution=4)
    summary = monitor.summary()
    assert summary.method == "comparison"
    assert summary.epochs[0].steps == 35
    assert summary.stall is not None
    assert summary.stall.high > 0.3  # the interval is wide where other work holds up executions


def test_epochs_that_are_compared_have_executions_of_their_own() -> None:
    monitor = StarvationMonitor()
    fit(monitor, make_sleeper(0.010, 60), steps_per_execution=2, epochs=2, validation_data=make_sleeper(0.001, 3))
    assert [epoch.steps for epoch in monitor.epochs] == [30, 30]
    first, second = (len(epoch.usual_seconds) for epoch in monitor._epochs if isinstance(epoch, ComparedEpoch))
    assert 5 < first <= 29
    assert 5 < second <= 29


def test_too_few_executions_to_compare_give_no_number() -> None:
    monitor = StarvationMonitor()
    fit(monitor, make_sleeper(STARVED, 16), steps_per_execution=4)
    summary = monitor.summary()
    assert summary.stall is None
    assert summary.method == "none"
    assert summary.outcome == "inconclusive"
    assert "not observable" in summary.reason


def test_batches_too_large_to_hold_for_a_comparison_give_no_number(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dataio.monitor.fitting._COMPARISON_BYTES", 4 * (8 * 4 * 4 + 8 * 4) - 1)
    monitor = StarvationMonitor()
    fit(monitor, make_sleeper(0.001, 100), steps_per_execution=4)
    assert monitor.stall is None
    assert "hold 4 batches" in monitor.summary().reason


def test_a_dataset_that_is_not_watched_is_said() -> None:
    monitor = StarvationMonitor()
    model = make_model(0.001)
    with pytest.warns(StarvationWarning, match=r"monitor\.watch\(train\)"):
        model.fit(make_sleeper(0.001, 5), callbacks=[monitor], verbose=0)
    assert monitor.stall is None
    assert "not watched" in monitor.summary().reason


def test_epochs_count_on_from_initial_epoch() -> None:
    monitor = StarvationMonitor()
    fit(monitor, make_sleeper(0.002, 8), epochs=5, initial_epoch=3)
    assert [epoch.epoch for epoch in monitor.epochs] == [3, 4]


def test_an_iterator_that_lives_across_epochs_is_timed_in_each() -> None:
    monitor = StarvationMonitor()
    endless = make_sleeper(STARVED, 10).repeat()
    fit(monitor, endless, epochs=3, steps_per_epoch=12, validation_data=make_sleeper(0.02, 2))
    assert [epoch.steps for epoch in monitor.epochs] == [12, 12, 12]
    for epoch in monitor.epochs:
        assert epoch.stall is not None
        assert epoch.stall.value > 0.1


def test_a_dataset_of_unknown_length_is_timed_to_its_end() -> None:
    monitor = StarvationMonitor()
    unknown = make_sleeper(STARVED, 20).filter(lambda x, y: True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Keras warns that the data ran out, as it must to learn the length
        fit(monitor, unknown, epochs=2)
    assert [epoch.steps for epoch in monitor.epochs] == [20, 20]


def test_class_weights_do_not_hide_the_dataset() -> None:
    monitor = StarvationMonitor()
    data = make_sleeper(STARVED, 20).map(lambda x, y: (x, tf.zeros([8], tf.int64)))
    fit(monitor, data, class_weight={0: 1.0, 1: 2.0})
    assert monitor.stall is not None
    assert monitor.stall.value > 0.15


def test_a_watched_validation_set_does_not_count() -> None:
    monitor = StarvationMonitor()
    fit(monitor, make_sleeper(0.002, 10), epochs=2, validation_data=monitor.watch(make_sleeper(0.03, 4)))
    assert [epoch.steps for epoch in monitor.epochs] == [10, 10]
    assert monitor.stall is not None
    assert monitor.stall.value < 0.5


def test_the_summary_goes_to_json_and_back(tmp_path: Path) -> None:
    monitor = StarvationMonitor()
    fit(monitor, make_sleeper(STARVED, 20))
    monitor.summary().save(tmp_path / "monitor.json")
    assert MonitorSummary.load(tmp_path / "monitor.json") == monitor.summary()
    assert json.loads((tmp_path / "monitor.json").read_text())["method"] == "waits"


def test_scalars_are_written_for_tensorboard(tmp_path: Path) -> None:
    monitor = StarvationMonitor(log_dir=tmp_path)
    fit(monitor, make_sleeper(STARVED, 12), epochs=2)
    written: dict[str, list[int]] = {}
    for path in tmp_path.glob("events*"):
        for event in tf.compat.v1.train.summary_iterator(str(path)):
            for value in event.summary.value:
                written.setdefault(value.tag, []).append(event.step)
    assert written == {
        "dataio/stall": [0, 1],
        "dataio/wait_ms": [0, 1],
        "dataio/images_per_second": [0, 1],
    }


def test_a_second_fit_starts_anew() -> None:
    monitor = StarvationMonitor()
    fit(monitor, make_sleeper(0.002, 8), epochs=2)
    fit(monitor, make_sleeper(0.002, 6))
    assert [epoch.steps for epoch in monitor.epochs] == [6]


def test_nothing_but_a_dataset_can_be_watched() -> None:
    with pytest.raises(TypeError, match=r"takes a tf\.data\.Dataset"):
        StarvationMonitor().watch([1, 2, 3])


def test_before_any_step_there_is_no_stall() -> None:
    monitor = StarvationMonitor()
    assert monitor.stall is None
    assert monitor.epochs == ()
    assert "no step" in monitor.summary().reason


def test_with_a_device_to_wait_for_a_fifth_of_the_steps_is_observed() -> None:
    waits_for_device = 0

    def synchronise() -> None:
        nonlocal waits_for_device
        waits_for_device += 1

    monitor = StarvationMonitor(timing=Timing(synchronise=synchronise))
    fit(monitor, make_sleeper(0.01, 110))
    ((waits, _),) = monitor.steps
    assert 20 <= len(waits) <= 30
    assert waits_for_device <= 32
    assert monitor.epochs[0].steps == 110
    assert monitor.stall is not None
    assert monitor.stall.high > 0.3  # twenty steps: the interval is wide where other work holds them up
