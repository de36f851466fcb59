"""The examples in docs/ run as they stand."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = ROOT / "docs" / "examples"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """25 small pictures in 5 classes: a number that two workers cannot halve."""
    root = tmp_path_factory.mktemp("pictures")
    random = np.random.default_rng(0)
    for number in range(25):
        path = root / f"class{number % 5}" / f"{number}.jpg"
        path.parent.mkdir(exist_ok=True)
        Image.fromarray(random.integers(0, 255, (96, 128, 3), np.uint8)).save(path)
    return root


def run(name: str, *arguments: str, cwd: Path, **environment: str) -> str:
    done = subprocess.run(
        [sys.executable, str(EXAMPLES / name), *arguments],
        cwd=cwd,
        env=os.environ | {"PYTHONPATH": str(ROOT), "CUDA_VISIBLE_DEVICES": "-1"} | environment,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


def test_keras_fit_says_whether_the_step_waited(folder: Path, tmp_path: Path) -> None:
    said = run("keras_fit.py", str(folder), cwd=tmp_path)
    assert re.search(r"the step waited for input .* of the time|too few steps", said)
    assert "epoch 2: 3 steps" in said
    assert (tmp_path / "monitor.json").is_file()


def test_a_custom_loop_says_whether_the_step_waited(folder: Path, tmp_path: Path) -> None:
    said = run("custom_loop.py", str(folder), cwd=tmp_path)
    assert re.search(r"the step waited for input .* of the time|too few steps", said)
    assert "epoch 2: loss" in said


def test_two_workers_see_each_record_once_an_epoch(folder: Path, tmp_path: Path) -> None:
    said = run("two_workers.py", str(folder), cwd=tmp_path)
    assert said.count("saw 50 records in 2 epochs") == 2
    assert {"worker 0", "worker 1"} == set(re.findall(r"worker \d", said))


def test_somebody_elses_pipeline_gets_a_diagnosis(folder: Path, tmp_path: Path) -> None:
    said = run("own_pipeline.py", cwd=tmp_path, DATA=str(folder))
    for expected in ("serial-map", "cache-after-random", "no-prefetch-at-the-end", "verdict: ", "limit: "):
        assert expected in said
