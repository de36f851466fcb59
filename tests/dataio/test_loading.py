"""Functions named by users."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from dataio.errors import RecipeError, StepError
from dataio.loading import load_function


@pytest.fixture
def workplace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    (tmp_path / "mine.py").write_text(
        "def make():\n    return 7\n\nclass Both:\n    make = staticmethod(make)\n\nnumber = 3\n"
    )
    (tmp_path / "broken.py").write_text("import os\nimport a_package_that_is_not_there\n")
    (tmp_path / "using_it.py").write_text("import broken\n")
    (tmp_path / "misspelt.py").write_text("def make(:\n    return 7\n")
    yield tmp_path
    for name in ("mine", "broken", "using_it", "misspelt"):
        sys.modules.pop(name, None)


def test_a_module_in_the_working_directory_is_found(workplace: Path) -> None:
    assert load_function("mine:make", what="dataset", error=StepError)() == 7
    assert load_function("mine:Both.make", what="dataset", error=StepError)() == 7


def test_installed_modules_are_found() -> None:
    assert load_function("os.path:join", what="step", error=StepError) is os.path.join


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("make", "package.module:function"),
        ("mine:", "package.module:function"),
        ("not_there:make", "no module 'not_there'"),
        ("mine.inner:make", "no module 'mine.inner'"),
        ("mine:other", "has no 'other'; it has Both, make, number"),
        ("mine:number", "is of type int, not a function"),
    ],
)
def test_what_is_wrong_with_a_name_is_said(workplace: Path, spec: str, message: str) -> None:
    with pytest.raises(RecipeError, match=message):
        load_function(spec, what="transform", error=RecipeError)


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("broken:make", r"failed in .*broken\.py, line 2: ModuleNotFoundError: .*a_package_that_is_not_there"),
        ("using_it:make", r"importing using_it failed in .*broken\.py, line 2: ModuleNotFoundError"),
        ("misspelt:make", r"importing misspelt failed: SyntaxError: .*misspelt\.py, line 1"),
    ],
)
def test_a_module_that_fails_itself_says_where(workplace: Path, spec: str, message: str) -> None:
    with pytest.raises(StepError, match=message) as caught:
        load_function(spec, what="--step", error=StepError)
    assert isinstance(caught.value.__cause__, ImportError | SyntaxError)
