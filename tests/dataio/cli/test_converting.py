"""The commands convert, inspect, verify and repair as a user types them."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

ROOT = Path(__file__).resolve().parents[3]


def dataio(*words: str | Path) -> subprocess.CompletedProcess[str]:
    """Runs the command line in a process of its own."""
    return subprocess.run(
        [sys.executable, "-m", "dataio", *map(str, words)],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Six pictures in two classes, and one bad file."""
    folder = tmp_path_factory.mktemp("source")
    chance = np.random.default_rng(0)
    for number in range(6):
        file = folder / "ab"[number % 2] / f"{number}.jpg"
        file.parent.mkdir(exist_ok=True)
        Image.fromarray(chance.integers(0, 256, (40, 50, 3), np.uint8)).save(file)
    (folder / "a" / "bad.jpg").write_bytes(b"no picture")
    return folder


@pytest.mark.parametrize("to", ["tfrecord", "hdf5", "lmdb"])
def test_the_whole_way_converts_inspects_breaks_verifies_and_repairs(to: str, source: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    converted = dataio("convert", source, out, "--to", to, "--json")
    assert converted.returncode == 0, converted.stderr
    split = json.loads(converted.stdout)["splits"]["train"]
    assert (split["seen"], split["records"], split["rejected"]) == (7, 6, 1)
    assert json.loads(converted.stdout)["outcomes"] == {"rejected: not_an_image": 1}

    inspected = json.loads(dataio("inspect", out, "--json").stdout)
    assert (inspected["format"], inspected["classes"]) == (to, ["a", "b"])
    assert inspected["splits"]["train"]["records"] == 6

    assert dataio("verify", out, "--source", source).returncode == 0
    (shard,) = (path for path in out.rglob("*") if path.suffix in (".h5", ".mdb") or "tfrecord" in path.name)
    content = bytearray(shard.read_bytes())
    content[len(content) // 2] ^= 4
    shard.write_bytes(content)
    verified = dataio("verify", out, "--json")
    assert verified.returncode == 1
    (damage,) = json.loads(verified.stdout)["damages"]
    assert damage["source"].endswith(".jpg") and damage["file"] == str(shard.relative_to(out))
    repaired = dataio("repair", out, "--source", source)
    assert repaired.returncode == 0, repaired.stderr
    assert f"written anew: {shard.relative_to(out)}" in repaired.stdout
    assert dataio("verify", out, "--quiet").stdout == ""


def test_limits_usage_and_errors_have_their_own_exit_codes_and_one_line(source: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    cases = [
        (3, ("convert", source, out, "--to", "hdf5", "--max-bad", "1%", "--quiet"), "1 of 7 files were rejected"),
        (1, ("convert", source, out, "--to", "hdf5", "--on-bad", "fail", "--quiet"), "a/bad.jpg cannot be stored"),
        (1, ("convert", tmp_path / "nowhere", out, "--to", "hdf5"), "does not exist"),
        (2, ("convert", source, out, "--to", "zip"), "zip"),
        (2, ("convert", source, out, "--to", "hdf5", "--encoding", "raw"), "takes size"),
        (2, ("convert", source, out, "--to", "hdf5", "--max-bad", "lots"), "no share"),
        (1, ("verify", source), "not a dataset that dataio converted"),
        (1, ("inspect", tmp_path / "nowhere"), "nothing is there"),
    ]
    for code, words, told in cases:
        done = dataio(*words)
        assert done.returncode == code, (words, done.stderr)
        assert told in done.stderr
        assert "Traceback" not in done.stderr
        assert done.stdout == ""


def test_quiet_says_nothing_and_a_finished_dataset_needs_overwrite(source: Path, tmp_path: Path) -> None:
    quiet = dataio("convert", source, tmp_path / "out", "--to", "tfrecord", "--quiet")
    assert (quiet.returncode, quiet.stdout, quiet.stderr) == (0, "", "")
    again = dataio("convert", source, tmp_path / "out", "--to", "tfrecord", "--quiet")
    assert again.returncode == 1 and "--overwrite" in again.stderr
    assert dataio("convert", source, tmp_path / "out", "--to", "hdf5", "--quiet", "--overwrite").returncode == 0
    assert json.loads(dataio("inspect", tmp_path / "out", "--json").stdout)["format"] == "hdf5"


def test_the_table_shows_each_class_and_reason(source: Path, tmp_path: Path) -> None:
    shown = dataio("convert", source, tmp_path / "out", "--to", "lmdb").stdout
    assert "1 rejected: not_an_image" in shown
    assert "6 of 7 files stored" in shown


def test_a_dry_run_states_records_bytes_and_time_and_writes_nothing(source: Path, tmp_path: Path) -> None:
    done = dataio("convert", source, tmp_path / "out", "--to", "tfrecord", "--dry-run", "--json")
    found = json.loads(done.stdout)
    assert (found["files"], found["records"]) == (7, 6)
    assert found["bytes"] > 0 and found["seconds"] > 0
    assert not list(tmp_path.iterdir())


def test_labels_and_splits_from_options_reach_the_dataset(source: Path, tmp_path: Path) -> None:
    labels = tmp_path / "labels.csv"
    rows = [
        f"{path.relative_to(source)},{'even' if int(path.stem) % 2 == 0 else 'odd'}" for path in source.rglob("?.jpg")
    ]
    labels.write_text("\n".join(["path,label", *sorted(rows)]) + "\n")
    out = tmp_path / "out"
    words = ("convert", source, out, "--to", "hdf5", "--labels", labels, "--split", "train=0.5,val=0.5", "--quiet")
    done = dataio(*words)
    assert done.returncode == 0, done.stderr
    found = json.loads(dataio("inspect", out, "--json").stdout)
    assert found["classes"] == ["even", "odd"]
    assert {name: split["records"] for name, split in found["splits"].items()} == {"train": 3, "val": 3}
    shutil.rmtree(out / "ledger")
    assert dataio("repair", out, "--source", source, "--labels", labels).returncode == 0
    assert dataio("verify", out).returncode == 0


def test_a_run_that_was_stopped_says_what_it_kept(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    dataio("convert", source, tmp_path / "out", "--to", "tfrecord", "--max-bad", "0")
    done = dataio("convert", source, tmp_path / "out", "--to", "tfrecord")
    assert "1 units of an earlier run kept" in done.stdout
