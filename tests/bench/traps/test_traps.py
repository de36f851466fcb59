"""Each trap is found where it is set up, and not where it is put right."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

from dataio.bench.traps import Surroundings, Trap, find_traps
from tests.bench.traps.pipelines import MACHINE, decode, encoded, flip, good, names_of, pictures

AUTOTUNE = tf.data.AUTOTUNE
WORKERS = Surroundings(memory_bytes=MACHINE.memory_bytes, cores=MACHINE.cores, replicas=2)


def with_options(dataset: tf.data.Dataset, **settings: object) -> tf.data.Dataset:
    options = tf.data.Options()
    for name, value in settings.items():
        *path, last = name.split("__")
        place = options
        for part in path:
            place = getattr(place, part)
        setattr(place, last, value)
    return dataset.with_options(options)


def by_files(dataset: tf.data.Dataset) -> tf.data.Dataset:
    return with_options(dataset, experimental_distribute__auto_shard_policy=tf.data.experimental.AutoShardPolicy.FILE)


def records(files: int) -> tf.data.Dataset:
    return tf.data.TFRecordDataset([f"{number}.tfrecord" for number in range(files)], num_parallel_reads=AUTOTUNE)


def to_device(dataset: tf.data.Dataset) -> tf.data.Dataset:
    return dataset.apply(tf.data.experimental.copy_to_device("/cpu:0"))


def frames() -> tf.data.Dataset:
    """100,000 decoded pictures of 0.6 MB."""
    return tf.data.Dataset.range(100_000).map(lambda _: tf.zeros([375, 500, 3], tf.uint8), num_parallel_calls=AUTOTUNE)


def yield_numbers() -> Iterator[int]:
    yield from range(10)


def in_python(x: tf.Tensor) -> tf.Tensor:
    return tf.ensure_shape(tf.numpy_function(lambda one: one * 2, [x], tf.int64), x.shape)


def parse(record: tf.Tensor) -> dict[str, tf.Tensor]:
    return tf.io.parse_single_example(record, {"image": tf.io.FixedLenFeature([], tf.string)})


#: Name, a pipeline that has the trap, the same put right, and the surroundings.
CASES: list[tuple[str, Callable[[], tf.data.Dataset], Callable[[], tf.data.Dataset], Surroundings]] = [
    (
        "no-prefetch-at-the-end",
        lambda: pictures().batch(8),
        lambda: pictures().batch(8).prefetch(AUTOTUNE),
        MACHINE,
    ),
    ("tiny-prefetch", lambda: pictures().batch(8).prefetch(0), lambda: pictures().batch(8).prefetch(2), MACHINE),
    (
        "prefetch-of-single-elements",
        lambda: pictures().prefetch(2).batch(8),
        lambda: pictures().batch(8).prefetch(2),
        MACHINE,
    ),
    (
        "unbuffered-device-copy",
        lambda: to_device(good()),
        lambda: good().apply(tf.data.experimental.prefetch_to_device("/cpu:0")),
        MACHINE,
    ),
    (
        "lost-device-prefetch",
        lambda: good().apply(tf.data.experimental.prefetch_to_device("/cpu:0")).map(lambda x: x / 2).prefetch(2),
        lambda: good().map(lambda x: x / 2).apply(tf.data.experimental.prefetch_to_device("/cpu:0")),
        MACHINE,
    ),
    ("serial-map", lambda: encoded().map(decode), lambda: encoded().map(decode, num_parallel_calls=AUTOTUNE), MACHINE),
    (
        "serial-reading",
        lambda: tf.data.TFRecordDataset(["a", "b"]),
        lambda: tf.data.TFRecordDataset(["a", "b"], num_parallel_reads=2),
        MACHINE,
    ),
    (
        "too-many-parallel-calls",
        lambda: encoded().map(decode, num_parallel_calls=64),
        lambda: encoded().map(decode, num_parallel_calls=4),
        MACHINE,
    ),
    (
        "python-function",
        lambda: tf.data.Dataset.range(9).map(in_python, num_parallel_calls=4),
        lambda: tf.data.Dataset.range(9).map(lambda x: x * 2, num_parallel_calls=4),
        MACHINE,
    ),
    (
        "from-generator",
        lambda: tf.data.Dataset.from_generator(yield_numbers, output_signature=tf.TensorSpec([], tf.int64)),
        lambda: tf.data.Dataset.range(10),
        MACHINE,
    ),
    ("cache-after-random", lambda: pictures().map(flip).cache(), lambda: pictures().cache().map(flip), MACHINE),
    ("cache-after-shuffle", lambda: encoded().shuffle(99).cache(), lambda: encoded().cache().shuffle(99), MACHINE),
    ("cache-after-repeat", lambda: encoded().repeat().cache(), lambda: encoded().cache().shuffle(99).repeat(), MACHINE),
    ("cache-partly-read", lambda: encoded().cache().take(1), lambda: encoded().take(1).cache(), MACHINE),
    ("cache-larger-than-memory", lambda: frames().cache(), lambda: frames().cache("/local/disk/cache"), MACHINE),
    ("shuffle-after-batch", lambda: pictures().batch(8).shuffle(99), lambda: pictures().shuffle(99).batch(8), MACHINE),
    (
        "repeat-before-shuffle",
        lambda: tf.data.Dataset.range(9).repeat().shuffle(99),
        lambda: tf.data.Dataset.range(9).shuffle(99).repeat(),
        MACHINE,
    ),
    (
        "shuffle-once",
        lambda: encoded().shuffle(99, reshuffle_each_iteration=False),
        lambda: encoded().shuffle(99),
        MACHINE,
    ),
    ("shuffle-buffer-larger-than-memory", lambda: frames().shuffle(20_000), lambda: frames().shuffle(500), MACHINE),
    ("shuffle-after-decode", lambda: pictures().shuffle(999), lambda: encoded().shuffle(999).map(decode), MACHINE),
    ("tiny-shuffle-buffer", lambda: encoded().shuffle(4), lambda: encoded().shuffle(4000), MACHINE),
    (
        "cheap-map-before-batch",
        lambda: pictures().map(lambda x: tf.cast(x, tf.float32) / 255.0, num_parallel_calls=4).batch(8),
        lambda: pictures().batch(8).map(lambda x: tf.cast(x, tf.float32) / 255.0, num_parallel_calls=4),
        MACHINE,
    ),
    (
        "parse-before-batch",
        lambda: records(2).map(parse, num_parallel_calls=4).map(lambda one: decode(one["image"])),
        lambda: records(2).map(lambda one: decode(parse(one)["image"]), num_parallel_calls=4),
        MACHINE,
    ),
    ("batch-taken-apart", lambda: good().unbatch(), lambda: good().rebatch(4), MACHINE),
    (
        "shard-after-shuffle",
        lambda: encoded().shuffle(99).shard(2, 0),
        lambda: encoded().shard(2, 0).shuffle(99),
        WORKERS,
    ),
    ("shard-after-work", lambda: pictures().shard(2, 0), lambda: encoded().shard(2, 0).map(decode), WORKERS),
    ("too-few-files-to-share", lambda: by_files(records(1)), lambda: by_files(records(4)), WORKERS),
    ("files-do-not-divide", lambda: by_files(records(5)), lambda: by_files(records(4)), WORKERS),
    (
        "compressed-pictures",
        lambda: tf.data.TFRecordDataset(["a"], compression_type="GZIP").map(decode),
        lambda: tf.data.TFRecordDataset(["a"]).map(decode),
        MACHINE,
    ),
    (
        "arrays-in-the-graph",
        lambda: tf.data.Dataset.from_tensor_slices(np.zeros([50, 100_000], np.uint8)),
        lambda: tf.data.Dataset.from_tensor_slices(np.zeros([5, 100_000], np.uint8)),
        Surroundings(memory_bytes=10**8, cores=4),
    ),
    ("ignored-errors", lambda: encoded().ignore_errors(), lambda: encoded(), MACHINE),
    (
        "autotune-without-autotuning",
        lambda: with_options(good(), autotune__enabled=False),
        lambda: with_options(pictures().batch(8).prefetch(AUTOTUNE), autotune__enabled=True),
        MACHINE,
    ),
    (
        "small-thread-pool",
        lambda: with_options(good(), threading__private_threadpool_size=1),
        lambda: with_options(good(), threading__private_threadpool_size=4),
        MACHINE,
    ),
    (
        "small-memory-budget",
        lambda: with_options(good(), autotune__ram_budget=2**20),
        lambda: with_options(good(), autotune__ram_budget=2**30),
        MACHINE,
    ),
]


@pytest.mark.parametrize(("name", "trapped", "right", "around"), CASES, ids=[case[0] for case in CASES])
def test_a_trap_is_found_where_it_is_and_not_where_it_was_put_right(
    name: str,
    trapped: Callable[[], tf.data.Dataset],
    right: Callable[[], tf.data.Dataset],
    around: Surroundings,
) -> None:
    (trap,) = [trap for trap in find_traps(trapped(), around) if trap.name == name]
    assert trap.finding
    assert trap.fix
    assert "operator" in trap.operator
    assert name not in names_of(right(), around)


def test_a_good_pipeline_has_no_trap() -> None:
    assert names_of(good()) == []


def test_every_trap_in_the_source_has_a_case() -> None:
    folder = Path(__file__).resolve().parents[3] / "bench" / "traps"
    named = {
        line.split('"')[1]
        for path in folder.glob("*.py")
        for line in path.read_text().splitlines()
        if line.strip().startswith('name="')
    }
    assert named == {case[0] for case in CASES}


def test_what_makes_pictures_wrong_comes_first() -> None:
    traps = find_traps(encoded().map(decode).shuffle(99).cache().batch(8), MACHINE)
    costs = [trap.cost for trap in traps]
    assert costs == sorted(costs, key=["wrong", "speed", "memory"].index)
    assert {"cache-after-shuffle", "serial-map", "no-prefetch-at-the-end"} <= {trap.name for trap in traps}


def test_the_trap_says_which_operator() -> None:
    (trap,) = [one for one in find_traps(encoded().map(decode), MACHINE) if one.name == "serial-map"]
    assert trap.operator.startswith("map (operator ")
    assert "DecodeJpeg" in trap.finding


def test_one_core_makes_no_trap_of_a_serial_map() -> None:
    assert "serial-map" not in names_of(encoded().map(decode), Surroundings(memory_bytes=10**9, cores=1))


def test_a_trap_goes_to_json_and_back() -> None:
    (trap,) = [one for one in find_traps(encoded().map(decode), MACHINE) if one.name == "serial-map"]
    assert Trap.from_json(trap.to_json()) == trap


def test_the_documentation_lists_every_trap() -> None:
    text = (Path(__file__).resolve().parents[3] / "docs" / "diagnosing.md").read_text()
    listed = {line.split("`")[1] for line in text.splitlines() if line.startswith("| `")}
    assert listed == {case[0] for case in CASES}
