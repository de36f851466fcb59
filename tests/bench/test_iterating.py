"""Reading pipelines epoch after epoch."""

from __future__ import annotations

import weakref

import pytest
import tensorflow as tf

from dataio.bench.iterating import LivePipeline


def test_epochs_follow_one_another_and_batches_are_numbered_within_them() -> None:
    with LivePipeline(lambda: tf.data.Dataset.range(6).batch(2)) as live:
        got = [live.advance() for _ in range(7)]
    assert [(one.epoch, one.position) for one in got] == [(0, 0), (0, 1), (0, 2), (1, 0), (1, 1), (1, 2), (2, 0)]
    assert live.epoch_batches == 3
    assert len(live.first_batch_seconds) == 3
    assert len(live.epoch_seconds) == len(live.end_seconds) == 2, "the third was broken off"


def test_the_last_short_batch_counts_its_own_pictures() -> None:
    with LivePipeline(lambda: tf.data.Dataset.range(5).map(lambda number: (number, number)).batch(2)) as live:
        assert [live.advance().images for _ in range(3)] == [2, 2, 1]


def test_epochs_of_unknown_length_are_counted() -> None:
    with LivePipeline(lambda: tf.data.Dataset.range(6).filter(lambda number: number < 4).batch(2)) as live:
        assert live.epoch_batches is None
        for _ in range(3):
            live.advance()
        assert live.epoch_batches == 2


def test_leaving_the_block_drops_the_iterator_even_after_an_error() -> None:
    with pytest.raises(ZeroDivisionError), LivePipeline(lambda: tf.data.Dataset.range(6)) as live:
        live.advance()
        iterator = weakref.ref(live.iterator)
        raise ZeroDivisionError
    assert iterator() is None


def test_a_pipeline_outside_its_block_is_not_read() -> None:
    with pytest.raises(RuntimeError, match="inside its `with` block"):
        LivePipeline(lambda: tf.data.Dataset.range(6)).advance()
