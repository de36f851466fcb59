"""Costs by stage: read from TensorFlow's model, matched by place and kind, adding up to the clock."""

from __future__ import annotations

import pytest
import tensorflow as tf

from dataio.bench import costs as costs_module
from dataio.bench.costs import measure_costs, serial, summarise, typical
from dataio.bench.model_reading import Operator, difference
from dataio.bench.stage_names import assign_stages
from dataio.plan import Plan

#: Operators of `build`'s pipelines, the one nearest to the consumer first, as get_model_proto named them.
TENSORFLOW = ["Root", "BatchV2", "Map", "AssertCardinality", "Unbatch", "Map", "BatchV2", "AssertCardinality"]
OPENCV = ["Root", "Prefetch", "Map", "BatchV2", "AssertCardinality"]
BLOCKS = ["FlatMap", "Map", "AssertCardinality", "Unbatch", "ParallelMapV2", "FlatMap", "Map", "BatchV2", "Range"]
FRAMES = ["FlatMap", "Map", "Map", "Shuffle", "ParallelInterleaveV4", "TFRecord"]


def stages_of(names: list[str], kernel: str) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for name, stage in zip(names, assign_stages(names, kernel=kernel), strict=True):
        found.setdefault(stage, []).append(name)
    return found


def test_with_tensorflows_kernel_pictures_are_made_before_the_batch() -> None:
    found = stages_of([*TENSORFLOW, *BLOCKS], "tensorflow")
    assert found["picture"] == ["Map", "AssertCardinality"]
    assert found["batch"] == ["BatchV2"]
    assert found["boxes"] == ["Unbatch", "Map", "BatchV2", "AssertCardinality"]
    assert found["read"] == BLOCKS


def test_with_opencv_they_are_made_of_a_collected_batch() -> None:
    found = stages_of([*OPENCV, *BLOCKS], "opencv")
    assert found["picture"] == ["Map"]
    assert found["collect"] == ["BatchV2", "AssertCardinality"]
    assert found["hand over"] == ["Root", "Prefetch"]


def test_frames_are_read_and_then_parsed() -> None:
    found = stages_of([*OPENCV, *FRAMES], "opencv")
    assert found["parse"] == ["Map"]
    assert found["cache"] == ["Shuffle"]
    assert found["read"] == ["FlatMap", "Map", "ParallelInterleaveV4", "TFRecord"]


def test_a_map_fused_with_the_batch_counts_as_making_pictures() -> None:
    assert stages_of(["Root", "MapAndBatch", "Unbatch", *BLOCKS], "tensorflow")["picture"] == ["MapAndBatch"]


@pytest.mark.parametrize(
    ("names", "kernel"),
    [
        (["Root", "BatchV2", "Map", "Map", "Map", "AssertCardinality", "Unbatch", "Map", "BatchV2"], "tensorflow"),
        (["Root", "Map", "Map", "BatchV2", "Map", "AssertCardinality", "Unbatch", "Map", "BatchV2"], "tensorflow"),
        (["Root", "Prefetch", "Map", "Map", "Map", "BatchV2", "AssertCardinality"], "opencv"),
    ],
)
def test_a_transform_of_the_recipes_own_is_a_stage_of_its_own(names: list[str], kernel: str) -> None:
    stages = assign_stages([*names, *BLOCKS], kernel=kernel)
    maps = [stage for name, stage in zip(names, stages, strict=False) if name == "Map"]
    assert maps[:3] == ["finish", "transform", "picture"]


def operator(name: str, depth: int, seconds: float, elements: int = 1, size: int = 100) -> Operator:
    return Operator(name, depth, seconds, elements, size)


def test_what_is_missing_from_the_clock_is_op_overhead_and_shares_add_up() -> None:
    operators = [
        operator("Root", 0, 0.0),
        operator("Map", 1, 0.6),
        operator("BatchV2", 2, 0.1),
        operator("FlatMap", 3, 0.1),
    ]
    costs = summarise(operators, plan=Plan(kernel="opencv"), images=100, wall_seconds=1.0)
    assert costs.seconds_per_image == pytest.approx(0.01)
    assert costs.seconds("op overhead") == pytest.approx(0.002)
    assert sum(stage.seconds_per_image for stage in costs.stages) == pytest.approx(costs.seconds_per_image)
    assert sum(stage.share for stage in costs.stages) == pytest.approx(1.0)
    assert costs.slowest.stage == "picture"


def test_readings_of_several_epochs_add_up() -> None:
    one = [operator("Map", 0, 0.2, size=64), operator("BatchV2", 1, 0.1), operator("FlatMap", 2, 0.1)]
    costs = summarise([*one, *one], plan=Plan(kernel="opencv"), images=4, wall_seconds=1.0)
    assert costs.seconds("picture") == pytest.approx(0.1)
    assert costs.stages[-2].stage == "picture" and costs.stages[-2].bytes_per_image == pytest.approx(32)


def test_a_difference_starts_from_nothing_for_operators_that_are_new() -> None:
    before = [operator("Root", 0, 1.0, 10, 1000)]
    after = [operator("Root", 0, 1.5, 15, 1500), operator("Map", 1, 0.3, 5, 50)]
    assert difference(before, after) == [operator("Root", 0, 0.5, 5, 500), operator("Map", 1, 0.3, 5, 50)]


def test_a_serial_plan_keeps_its_work_and_the_model() -> None:
    plan = serial(Plan(kernel="opencv", cache="memory", num_parallel_calls=8, prefetch=4, autotune=False, threads=3))
    assert (plan.kernel, plan.cache) == ("opencv", "memory")
    assert (plan.num_parallel_calls, plan.cycle_length, plan.prefetch, plan.autotune) == (1, 1, 0, True)


def test_the_typical_reading_is_the_middle_one() -> None:
    def taking(seconds: float) -> object:
        return summarise([operator("Map", 0, 0.1)], plan=Plan(), images=1, wall_seconds=seconds)

    assert typical([taking(5.0), taking(1.0), taking(2.0)]).seconds_per_image == 2.0  # type: ignore[list-item]


@pytest.mark.parametrize("batches", [40, 3])
def test_a_real_pipeline_adds_up_in_long_and_in_very_short_epochs(batches: int) -> None:
    def work(batch: tf.Tensor) -> tf.Tensor:
        square = tf.ones([400, 400]) * tf.cast(batch[0], tf.float32)
        return tf.reduce_sum(square @ square)

    def build(plan: Plan) -> tf.data.Dataset:
        assert plan == serial(plan)
        records = tf.data.Dataset.range(1).flat_map(lambda _: tf.data.Dataset.range(batches * 4))
        options = tf.data.Options()
        options.experimental_optimization.map_parallelization = False
        options.experimental_optimization.inject_prefetch = False
        return records.batch(4).map(work).with_options(options)

    costs = measure_costs(build, Plan(kernel="opencv"), seconds=0.2)
    assert {"read", "collect", "picture", "hand over", "op overhead"} == {stage.stage for stage in costs.stages}
    assert sum(stage.seconds_per_image for stage in costs.stages) == pytest.approx(costs.seconds_per_image, rel=0.02)
    assert costs.seconds("picture") > costs.seconds("read", "collect", "hand over")


def test_reading_epochs_of_a_few_batches_ends_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    class Ticking:
        """Every look at the clock takes a second, so that most time passes between the windows."""

        now = 0.0

        def __call__(self) -> float:
            self.now += 1.0
            return self.now

    def build(plan: Plan) -> tf.data.Dataset:
        records = tf.data.Dataset.range(1).flat_map(lambda _: tf.data.Dataset.range(12))
        return records.batch(4).map(lambda batch: batch + 1)

    monkeypatch.setattr(costs_module, "MOST_TIMES", 1)
    clock = Ticking()
    costs = measure_costs(build, Plan(kernel="opencv"), seconds=120.0, clock=clock)
    assert costs.images > 0
    assert clock.now < 120 + 25
