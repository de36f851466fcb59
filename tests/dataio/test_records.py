from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dataio.errors import PlanError, RecipeError
from dataio.plan import Plan
from dataio.recipe import Recipe
from dataio.records import write_whole

recipes = st.builds(
    Recipe,
    image_size=st.one_of(st.integers(1, 16384), st.tuples(st.integers(1, 16384), st.integers(1, 16384))),
    batch_size=st.integers(1, 65536),
    crop=st.sampled_from(["random-resized", "center", "resize"]),
    flip=st.booleans(),
    dtype=st.sampled_from(["uint8", "float32", "float16", "bfloat16"]),
    normalisation=st.just("none"),
    seed=st.integers(0, 2**63 - 1),
)
plans = st.builds(
    Plan,
    num_parallel_calls=st.one_of(st.just("auto"), st.integers(1, 4096)),
    prefetch=st.one_of(st.just("auto"), st.integers(0, 4096)),
    deterministic=st.booleans(),
)


@given(record=st.one_of(recipes, plans))
def test_what_is_written_as_json_reads_back_equal(record: Recipe | Plan) -> None:
    assert type(record).from_json(record.to_json()) == record


@pytest.mark.parametrize(
    ("values", "named"),
    [
        ({"image_size": 0}, "image_size"),
        ({"batch_sise": 64}, "batch_sise"),
        ({"scale": (0.5, 0.1)}, "scale"),
        ({"ratio": (0, 1)}, "ratio"),
        ({"crop": "middle"}, "random-resized"),
        ({"dtype": "uint8", "normalisation": "unit"}, "float32"),
        ({"seed": -1}, "seed"),
    ],
)
def test_a_bad_recipe_names_the_field_and_what_it_takes(values: dict[str, object], named: str) -> None:
    with pytest.raises(RecipeError, match=named):
        Recipe(**values)  # type: ignore[arg-type]


def test_asking_for_uint8_is_enough_to_get_plain_pixels() -> None:
    assert Recipe(dtype="uint8").normalisation == "none"


def test_a_file_of_the_wrong_form_is_named_in_the_error(tmp_path: Path) -> None:
    path = tmp_path / "plan.json"
    path.write_text(json.dumps({"schema_version": 9}))
    with pytest.raises(PlanError, match=r"plan\.json.*schema_version"):
        Plan.load(path)
    path.write_text("no json")
    with pytest.raises(PlanError, match=r"plan\.json"):
        Plan.load(path)


def test_a_record_cannot_be_changed_only_replaced() -> None:
    plan = Plan()
    with pytest.raises(ValueError, match="frozen"):
        plan.prefetch = 3  # type: ignore[misc]
    assert plan.replace(prefetch=3).prefetch == 3 and plan.prefetch == "auto"
    with pytest.raises(PlanError, match="prefetch"):
        plan.replace(prefetch=-1)


def test_a_file_is_written_whole_or_not_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "out.json"
    write_whole(path, b"old")

    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(OSError, match="No space"):
        write_whole(path, b"new")
    assert path.read_bytes() == b"old"
    assert [entry.name for entry in tmp_path.iterdir()] == ["out.json"]
