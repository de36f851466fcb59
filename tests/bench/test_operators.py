"""Loads of operators, what limits a pipeline, and what AUTOTUNE chose."""

from __future__ import annotations

import pytest
import tensorflow as tf

from dataio.bench.operators import Node, OperatorLoad, Reading, TuningLog, loads_between, name_limit, read_model


def node(name: str, path: tuple[int, ...], seconds: float, *, threads: int = 1, thread: tuple[int, ...] = ()) -> Node:
    return Node(
        name, path, thread, threads, seconds, elements=int(seconds * 100), bytes=int(seconds * 1000), parameters=()
    )


def load(name: str, *, share: float, busy: float, threads: int = 1) -> OperatorLoad:
    return OperatorLoad(
        name=name,
        depth=1,
        cpu_milliseconds_per_image=1.0,
        share=share,
        threads=threads,
        busy=busy,
        bytes_per_image=1.0,
    )


def test_a_load_is_the_difference_of_two_readings() -> None:
    before = Reading((node("Prefetch", (), 0.1), node("Map", (0,), 2.0, thread=(-3,))))
    after = Reading((node("Prefetch", (), 0.2), node("Map", (0,), 3.5, thread=(-3,))))
    prefetch, mapped = loads_between(before, after, seconds=2.0, images=100)
    assert mapped.cpu_milliseconds_per_image == pytest.approx(15)
    assert mapped.busy == pytest.approx(0.75)
    assert mapped.bytes_per_image == pytest.approx(15)
    assert prefetch.share == pytest.approx(0.1 / 1.6)


def test_operators_on_one_thread_are_busy_together_and_several_threads_share_the_work() -> None:
    nothing = Reading(())
    after = Reading(
        (
            node("ParallelMapV2", (), 3.0, threads=4, thread=(-1,)),
            node("Map", (0,), 0.4, thread=(-3,)),
            node("TFRecord", (0, 0), 0.2, thread=(-3,)),
        )
    )
    parallel, mapped, reader = loads_between(nothing, after, seconds=1.0, images=10)
    assert parallel.busy == pytest.approx(0.75)
    assert mapped.busy == reader.busy == pytest.approx(0.6)


def test_an_operator_that_began_anew_in_between_counts_from_its_beginning() -> None:
    before = Reading((node("Map", (), 5.0),))
    after = Reading((node("Map", (), 1.0),))
    (mapped,) = loads_between(before, after, seconds=2.0, images=10)
    assert mapped.cpu_milliseconds_per_image == pytest.approx(100)


def test_threads_of_a_real_pipeline_are_told_apart() -> None:
    dataset = tf.data.Dataset.range(100).map(lambda x: x + 1).map(lambda x: x * 2, num_parallel_calls=3).prefetch(2)
    options = tf.data.Options()
    options.experimental_optimization.map_parallelization = False
    iterator = iter(dataset.with_options(options))
    next(iterator)
    reading = read_model(iterator)
    assert reading is not None
    by_name = {one.name: one for one in reading.nodes}
    assert by_name["ParallelMapV2"].threads == 3
    assert by_name["Map"].thread == by_name["Range"].thread != by_name["ParallelMapV2"].thread
    assert by_name["Prefetch"].thread == by_name["Root"].thread != by_name["ParallelMapV2"].thread


def test_a_pipeline_without_autotuning_has_no_reading() -> None:
    options = tf.data.Options()
    options.autotune.enabled = False
    assert read_model(iter(tf.data.Dataset.range(3).with_options(options))) is None


def test_what_autotune_chose_is_kept_where_it_changes() -> None:
    log = TuningLog()
    for seconds, value in ((0.0, 1), (0.5, 1), (1.0, 4), (1.5, 4), (2.0, 2)):
        log.add(seconds, Reading((Node("ParallelMapV2", (0,), (), 1, 0.0, 0, 0, (("parallelism", value),)),)))
    (choice,) = log.choices()
    assert (choice.operator, choice.parameter, choice.depth) == ("ParallelMapV2", "parallelism", 1)
    assert choice.seconds == (0.0, 1.0, 2.0)
    assert choice.values == (1, 4, 2)


def test_busy_cores_are_the_limit_before_any_thread_is() -> None:
    words, operator = name_limit([load("MapAndBatch", share=0.9, busy=1.0, threads=2)], busy_cores=1.9, cores=2)
    assert "1.9 of 2 cores are busy" in words
    assert operator == "MapAndBatch"


def test_a_thread_that_never_rests_is_the_limit_of_an_idle_machine() -> None:
    loads = [load("Prefetch", share=0.01, busy=0.01), load("Map", share=0.99, busy=0.9)]
    words, operator = name_limit(loads, busy_cores=1.0, cores=8)
    assert operator == "Map"
    assert "only thread is busy 90 %" in words


def test_on_one_thread_the_operator_with_most_work_is_named() -> None:
    loads = [
        load("Batch", share=0.1, busy=0.95),
        load("Map", share=0.8, busy=0.95),
        load("Range", share=0.1, busy=0.95),
    ]
    assert name_limit(loads, busy_cores=1.0, cores=8)[1] == "Map"


def test_an_idle_machine_with_idle_threads_waits_for_something_else() -> None:
    loads = [load("Map", share=1.0, busy=0.1)]
    assert name_limit(loads, busy_cores=0.2, cores=2)[0].startswith("something other than the processor")
    assert name_limit(loads, busy_cores=0.9, cores=2, calls_python=True)[0].startswith("Python")


def test_other_processes_on_the_machine_are_named() -> None:
    loads = [load("Map", share=1.0, busy=0.3)]
    words, operator = name_limit(loads, busy_cores=0.5, cores=2, other_busy_cores=1.4)
    assert words.startswith("other processes")
    assert operator is None


def test_without_autotuning_nothing_is_claimed() -> None:
    assert name_limit([], busy_cores=2.0, cores=2)[0].startswith("unknown")
