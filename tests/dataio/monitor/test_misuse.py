"""Ways to use a monitor by mistake, or to break off a training, and what the user then gets to see."""

from __future__ import annotations

import warnings
from typing import Any

import keras
import pytest
import tensorflow as tf

from dataio import StarvationMonitor
from dataio.monitor import StarvationWarning
from tests.dataio.monitor.sleeping import make_model, make_sleeper

pytestmark = pytest.mark.filterwarnings(
    "ignore:.*shuffle=True.*",
    "ignore:.*build.*",
    "ignore:Your input ran out of data",
    "ignore::dataio.monitor.StarvationWarning",
)


def unknown_length(data: tf.data.Dataset) -> tf.data.Dataset:
    return data.filter(lambda x, y: True)


def breaking_at(batch: int, error: type[BaseException]) -> keras.callbacks.Callback:
    """A callback that ends the training as `error` does."""

    class Breaking(keras.callbacks.Callback):  # type: ignore[misc]
        def on_train_batch_end(self, number: int, logs: Any = None) -> None:
            if number == batch:
                raise error

    return Breaking()


@pytest.mark.parametrize("steps_per_execution", [1, 3])
@pytest.mark.parametrize("length", ["known", "unknown"])
def test_a_fit_whose_callback_was_forgotten_trains_and_says_what_is_missing(
    length: str, steps_per_execution: int
) -> None:
    monitor = StarvationMonitor()
    data = make_sleeper(0.001, 6)
    data = unknown_length(data) if length == "unknown" else data
    with pytest.warns(StarvationWarning, match=r"callbacks=\[monitor\]") as caught:
        history = make_model(0.0, steps_per_execution=steps_per_execution).fit(monitor.watch(data), epochs=2, verbose=0)
    assert len([one for one in caught if one.category is StarvationWarning]) == 1
    assert len(history.history["loss"]) == 2
    assert monitor.stall is None
    assert monitor.epochs == ()
    assert "callbacks=[monitor]" in monitor.summary().reason


def test_a_forgotten_callback_does_not_leave_the_figures_of_an_earlier_fit() -> None:
    monitor = StarvationMonitor()
    model = make_model(0.0)
    model.fit(monitor.watch(make_sleeper(0.005, 12)), callbacks=[monitor], verbose=0)
    assert monitor.stall is not None
    model.fit(monitor.watch(make_sleeper(0.001, 6)), verbose=0)
    assert monitor.stall is None


def test_a_forgotten_watch_is_said_at_the_first_step() -> None:
    class Looking(keras.callbacks.Callback):  # type: ignore[misc]
        seen = -1

        def on_train_batch_begin(self, batch: int, logs: Any = None) -> None:
            if self.seen < 0:
                self.seen = len(caught)

    monitor, looking = StarvationMonitor(), Looking()
    with pytest.warns(StarvationWarning, match=r"monitor\.watch\(train\)") as caught:
        make_model(0.0).fit(make_sleeper(0.001, 5), epochs=2, callbacks=[monitor, looking], verbose=0)
    assert looking.seen >= 1
    assert len([one for one in caught if one.category is StarvationWarning]) == 1


def test_a_dataset_that_is_watched_twice_is_watched_once() -> None:
    monitor = StarvationMonitor()
    watched = monitor.watch(make_sleeper(0.005, 12))
    assert monitor.watch(watched) is watched
    for _ in monitor.watch(watched):
        pass
    assert [epoch.steps for epoch in monitor.epochs] == [12]


def test_a_second_monitor_takes_a_dataset_over() -> None:
    first, second = StarvationMonitor(), StarvationMonitor()
    watched = second.watch(first.watch(make_sleeper(0.005, 12)))
    make_model(0.0).fit(watched, callbacks=[second], verbose=0)
    assert [epoch.steps for epoch in second.epochs] == [12]
    assert first.epochs == ()


@pytest.mark.parametrize("error", [KeyboardInterrupt, ValueError])
def test_a_fit_that_was_broken_off_keeps_what_it_showed(error: type[BaseException]) -> None:
    monitor = StarvationMonitor()
    with pytest.raises(error):
        make_model(0.0).fit(
            monitor.watch(make_sleeper(0.010, 40)), callbacks=[monitor, breaking_at(20, error)], verbose=0
        )
    summary = monitor.summary()
    assert summary.epochs[0].steps == 21
    assert summary.stall is not None
    assert summary.stall.value > 0.2
    assert summary.epochs == monitor.epochs
    assert summary.advice


def test_after_a_fit_that_was_broken_off_a_loop_counts_for_itself() -> None:
    monitor = StarvationMonitor()
    watched = monitor.watch(make_sleeper(0.005, 30))
    with pytest.raises(KeyboardInterrupt):
        make_model(0.0).fit(watched, callbacks=[monitor, breaking_at(5, KeyboardInterrupt)], verbose=0)
    for _ in watched:
        pass
    assert [epoch.steps for epoch in monitor.epochs] == [30]


def test_after_a_fit_that_was_broken_off_another_starts_anew() -> None:
    monitor = StarvationMonitor()
    model = make_model(0.0)
    with pytest.raises(KeyboardInterrupt):
        model.fit(
            monitor.watch(make_sleeper(0.005, 30)),
            callbacks=[monitor, breaking_at(5, KeyboardInterrupt)],
            verbose=0,
        )
    model.fit(monitor.watch(make_sleeper(0.005, 12)), callbacks=[monitor], verbose=0)
    assert [epoch.steps for epoch in monitor.epochs] == [12]


def test_a_loop_after_a_fit_is_not_added_to_it() -> None:
    monitor = StarvationMonitor()
    watched = monitor.watch(make_sleeper(0.005, 12))
    make_model(0.0).fit(watched, callbacks=[monitor], epochs=2, verbose=0)
    for _ in watched:
        pass
    assert [epoch.steps for epoch in monitor.epochs] == [12]


@pytest.mark.parametrize("callbacks", ["given", "none"])
@pytest.mark.parametrize("method", ["evaluate", "predict"])
def test_evaluating_over_a_watched_dataset_leaves_the_training_as_it_was(method: str, callbacks: str) -> None:
    monitor = StarvationMonitor()
    model = make_model(0.0)
    data = unknown_length(make_sleeper(0.005, 12))
    model.fit(monitor.watch(data), callbacks=[monitor], verbose=0)
    before = monitor.summary()
    with warnings.catch_warnings():
        warnings.simplefilter("error", StarvationWarning)
        given = {"callbacks": [monitor]} if callbacks == "given" else {}
        getattr(model, method)(monitor.watch(data), verbose=0, **given)
    assert monitor.summary() == before


def test_a_callback_that_looks_at_watched_batches_is_not_taken_for_training() -> None:
    monitor = StarvationMonitor()
    other = monitor.watch(make_sleeper(0.001, 4))

    class Looking(keras.callbacks.Callback):  # type: ignore[misc]
        def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
            assert len(list(other)) == 4

        def on_train_batch_begin(self, batch: int, logs: Any = None) -> None:
            if batch == 0:
                assert len(list(other)) == 4

    make_model(0.0).fit(monitor.watch(make_sleeper(0.005, 12)), callbacks=[monitor, Looking()], epochs=2, verbose=0)
    assert [epoch.steps for epoch in monitor.epochs] == [12, 12]


def test_one_dataset_for_training_and_validation_counts_training_only() -> None:
    monitor = StarvationMonitor()
    watched = monitor.watch(make_sleeper(0.005, 12))
    make_model(0.0).fit(watched, validation_data=watched, callbacks=[monitor], initial_epoch=2, epochs=4, verbose=0)
    assert [(epoch.epoch, epoch.steps) for epoch in monitor.epochs] == [(2, 12), (3, 12)]
