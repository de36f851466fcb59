"""Steps that the user names on the command line."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest
import tensorflow as tf

from dataio.bench.user_step import FunctionStep, load_step
from dataio.errors import StepError

BATCH = (tf.zeros([2, 64, 64, 3]), tf.zeros([2], tf.int64))
DOCS = Path(__file__).resolve().parents[2] / "docs" / "steps.md"


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The file of an importable module `my_training`, to be written by the test."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.delitem(sys.modules, "my_training", raising=False)
    return tmp_path / "my_training.py"


def test_a_function_of_one_batch_is_the_step(module: Path) -> None:
    module.write_text("seen = []\ndef train(batch):\n    seen.append(batch)\n")
    step = load_step("my_training:train")
    step(BATCH)
    assert sys.modules["my_training"].seen == [BATCH]
    assert step.name == "my_training:train"
    assert step.step_seconds is None


def test_a_function_without_arguments_makes_the_step(module: Path) -> None:
    module.write_text("made = []\ndef make():\n    made.append(1)\n    return lambda batch: made.append(batch)\n")
    step = load_step("my_training:make")
    step(BATCH)
    assert sys.modules["my_training"].made == [1, BATCH]


def test_a_method_of_an_object_in_the_module_can_be_named(module: Path) -> None:
    module.write_text("class Trainer:\n    def train(self, batch):\n        self.batch = batch\ntrainer = Trainer()\n")
    load_step("my_training:trainer.train")(BATCH)
    assert sys.modules["my_training"].trainer.batch is BATCH


@pytest.mark.parametrize(
    ("source", "spec", "message"),
    [
        ("", "my_training", "name a function as package.module:function"),
        ("", ":train", "name a function as package.module:function"),
        ("", "no_such_module:train", "there is no module 'no_such_module'; looked in"),
        ("import no_such_thing", "my_training:train", r"importing my_training failed in .*, line 1: .*'no_such_thing'"),
        ("1 / 0", "my_training:train", r"importing my_training failed in .*my_training\.py, line 1: ZeroDiv"),
        ("def other(batch): pass", "my_training:train", "has no 'train'; it has other"),
        ("train = 3", "my_training:train", "is of type int, not a function"),
        ("def train(images, labels): pass", "my_training:train", r"takes one argument, the batch .* it takes 2"),
        ("def make(): return 3", "my_training:make", "must return the step.* it returned int"),
        ("def make(): return lambda: 0", "my_training:make", "it takes 0"),
        ("def make(): 1 / 0", "my_training:make", "calling it failed: ZeroDivisionError"),
    ],
)
def test_what_cannot_be_a_step_is_refused_with_what_to_do(module: Path, source: str, spec: str, message: str) -> None:
    module.write_text(source)
    with pytest.raises(StepError, match=message):
        load_step(spec)


def test_a_step_that_fails_says_on_which_batch() -> None:
    def train(batch: object) -> None:
        raise ValueError("expected 224")

    with pytest.raises(StepError, match=r"failed on a batch of .*float32\[2, 64, 64, 3\].*ValueError: expected 224"):
        FunctionStep(train, name="mine")(BATCH)


def test_the_example_in_the_docs_runs(module: Path) -> None:
    (source,) = re.findall(r"```python\n(.*?)```", DOCS.read_text(), re.DOTALL)
    module.write_text(source)
    step = load_step("my_training:make")
    step(BATCH)
    step(BATCH)
