"""What concerns the whole process: strategies over several devices, and ending with a live pipeline."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from dataio.monitor import MonitorSummary
from tests.dataio.monitor.process import MODES

ROOT = Path(__file__).resolve().parents[3]


def run(mode: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, str(Path(__file__).with_name("process.py")), mode],
        env=os.environ | {"PYTHONPATH": str(ROOT), "CUDA_VISIBLE_DEVICES": "-1", "TF_CPP_MIN_LOG_LEVEL": "3"},
        capture_output=True,
        text=True,
        timeout=90,
        check=False,
    )


@pytest.fixture(scope="module")
def summaries() -> dict[str, MonitorSummary]:
    """What one process saw of each training under a strategy."""
    done = run("strategy")
    assert done.returncode == 0, done.stderr[-3000:]
    lines = done.stdout.splitlines()[-len(MODES) :]
    return {mode: MonitorSummary.from_json(line) for mode, line in zip(MODES, lines, strict=True)}


def test_under_a_strategy_steps_are_compared_and_no_wait_is_made_up(
    summaries: dict[str, MonitorSummary],
) -> None:
    summary = summaries["mirrored"]
    assert summary.method == "comparison"
    assert summary.stall is not None
    assert summary.stall.high > 0.3  # the interval is wide where other work holds up executions
    assert summary.epochs[0].steps == 50


def test_under_a_strategy_two_watched_datasets_cannot_be_told_apart(
    summaries: dict[str, MonitorSummary],
) -> None:
    summary = summaries["two-watched"]
    assert summary.stall is None
    assert summary.method == "none"
    assert "one dataset only" in summary.reason


def test_under_a_strategy_another_dataset_than_the_watched_one_is_noticed(
    summaries: dict[str, MonitorSummary],
) -> None:
    summary = summaries["other"]
    assert summary.stall is None
    assert summary.epochs == ()
    assert "not watched" in summary.reason


def test_under_a_strategy_the_dataset_of_an_earlier_fit_does_not_count_as_watched(
    summaries: dict[str, MonitorSummary],
) -> None:
    summary = summaries["again"]
    assert summary.method == "comparison"
    assert summary.epochs[0].steps == 50


@pytest.mark.parametrize("attempt", range(2))
def test_a_training_that_fails_in_the_middle_of_an_epoch_ends(attempt: int) -> None:
    done = run("crash")
    assert done.returncode == 1, done.stderr[-3000:]
    assert "ends in the middle of an epoch" in done.stderr
