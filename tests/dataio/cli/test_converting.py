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

from dataio.cli.app import make_app
from dataio.errors import DestinationError, LimitExceeded

ROOT = Path(__file__).resolve().parents[3]


def dataio(*words: str | Path) -> subprocess.CompletedProcess[str]:
    """Runs the command line in a process of its own."""
    return subprocess.run(
        [sys.executable, "-m", "dataio", *map(str, words)],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )


def typed(*words: str | Path) -> int:
    """Runs the command line in this process, where that is quicker; returns the exit code."""
    try:
        make_app()([str(word) for word in words])
    except SystemExit as left:
        return int(left.code or 0)
    return 0


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
        (2, ("convert", source, out, "--to", "hdf5", "--encoding", "raw"), "takes --size"),
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
    assert "6 of 7 files stored in 1 shard in" in shown


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
    assert "1 unit of an earlier run kept" in done.stdout


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ("--size 5x5", "--size: is for raw pixels: add --encoding raw"),
        ("--encoding jpeg --short-side 5 --size 5x5", "--size: is for raw pixels"),
        ("--encoding raw --size 0x5", "height and width are 1 to 16384"),
        (f"--encoding raw --size {'9' * 5000}x5", "height and width are 1 to 16384"),
        ("--encoding raw --size 5", "is no size"),
        ("--encoding jpeg", "--encoding: jpeg takes one of --short-side PX and --max-side PX"),
        ("--encoding jpeg --short-side 5 --max-side 5", "jpeg takes one of"),
        ("--encoding jpeg --short-side 99999", "'--short-side'"),
        ("--short-side 5", "--short-side: is for smaller JPEGs: add --encoding jpeg"),
        ("--quality 80", "--quality: is for smaller JPEGs: add --encoding jpeg"),
        ("--encoding raw --size 5x5 --quality 80", "--quality: is for smaller JPEGs"),
        ("--split train=0.9", "two or more shares that sum to 1"),
        ("--split train=x,val=y", "'x' is not a number"),
        ("--split-like keras", "--split-like: needs the shares too"),
        ("--split a=0.5,b=0.25,c=0.25 --split-like keras", "makes two parts"),
        ("--split a=0.5,b=0.5 --split-like keras --labels x.csv", "leave out --labels or --split-like"),
        (f"--seed {2**63}", "'--seed'"),
        ("--labels=", "'--labels': is empty"),
    ],
)
def test_wrong_use_is_a_plain_sentence_that_names_the_option(
    words: str, told: str, source: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert typed("convert", source, tmp_path / "out", "--to", "tfrecord", *words.split()) == 2
    said = " ".join(capsys.readouterr().err.replace("\u2502", " ").split())
    assert told in said, said
    assert "ImageOptions" not in said and "input_value" not in said
    assert not (tmp_path / "out").exists()


def test_lmdb_refuses_a_number_of_shards(source: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert typed("convert", source, tmp_path / "out", "--to", "lmdb", "--shards", "2") == 2
    assert "LMDB keeps each split in one file" in capsys.readouterr().err


@pytest.mark.parametrize(
    "words",
    [
        ("inspect", ""),
        ("verify", ""),
        ("verify", "data", "--source", ""),
        ("repair", "", "--source", "x"),
        ("convert", "", "out", "--to", "hdf5"),
        ("convert", "src", "", "--to", "hdf5"),
    ],
)
def test_an_empty_path_is_refused_and_not_taken_for_this_folder(
    words: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    assert typed(*words) == 2
    assert "is empty; name a path" in capsys.readouterr().err


def test_a_run_with_other_options_is_told_which_differ(
    source: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    start = ("convert", source, tmp_path / "out", "--to", "hdf5", "-q")
    smaller = ("--encoding", "jpeg", "--short-side", "20")
    with pytest.raises(LimitExceeded):
        typed(*start, *smaller, "--max-bad", "0")
    with pytest.raises(DestinationError) as caught:
        typed(*start, *smaller, "--quality", "80", "--no-shuffle", "--shards", "2")
    told = "(--quality was 90 and is 80, --shards was not given and is 2, --shuffle was on and is off)"
    assert told in str(caught.value)


def test_what_was_left_out_is_told_and_pipes_are_warned_of(
    source: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    shutil.copytree(source, tmp_path / "source")
    os.mkfifo(tmp_path / "source" / "a" / "pipe.jpg")
    (tmp_path / "source" / "a" / "notes.txt").write_text("no picture")
    (tmp_path / "source" / "a" / ".DS_Store").write_text("litter")
    assert typed("convert", tmp_path / "source", tmp_path / "out", "--to", "hdf5") == 0
    told = capfd.readouterr()
    assert "left out: 1 file of litter, 1 file that is no picture, 1 pipe, socket or device" in told.out
    assert "1 pipe, socket or device left out, unopened" in " ".join(told.err.split())
    assert typed("convert", tmp_path / "source", tmp_path / "out", "--to", "hdf5", "--overwrite", "--json") == 0
    assert json.loads(capfd.readouterr().out)["skipped"] == {"junk": 1, "not_a_picture": 1, "special": 1}


def test_no_name_commands_the_terminal(source: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    hostile = tmp_path / "so\x1b]0;hacked\x07urce\n"
    shutil.copytree(source, hostile)
    (hostile / "a").rename(hostile / "a\x1b[31m\nb")
    (hostile / "empty\x1b[2J").mkdir()
    os.mkfifo(hostile / "b" / "pipe.jpg")
    out = tmp_path / "out\x1b[2J"
    assert typed("convert", hostile, out, "--to", "hdf5") == 0
    assert typed("convert", hostile, out, "--to", "hdf5", "--overwrite", "--dry-run") == 0
    for path in (hostile, out):
        assert typed("inspect", path) == 0
    assert typed("verify", out) == 0
    (out / "outcomes.jsonl").unlink()
    assert typed("verify", out) == 1
    assert typed("repair", out, "--source", hostile) == 0
    assert typed("repair", out, "--source", hostile) == 0
    (hostile / "new").mkdir()
    shutil.copy(hostile / "b" / "1.jpg", hostile / "new" / "1.jpg")
    assert typed("verify", out, "--source", hostile) == 1
    said = capfd.readouterr()
    for text in (said.out, said.err):
        assert "\x1b" not in text and "\x07" not in text
    assert "a\\x1b[31m\\nb" in said.out


def test_inspect_stays_within_eighty_columns(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    picture = Image.new("RGB", (1600, 1200))
    for number in range(30):
        (tmp_path / f"a class with a long name {number}").mkdir()
        picture.save(tmp_path / f"a class with a long name {number}" / "1.jpg")
    assert typed("inspect", tmp_path) == 0
    first, *lines = capsys.readouterr().out.splitlines()
    assert first == f"{tmp_path}: folder, jpeg"
    assert all(len(line) <= 80 for line in lines), lines
    assert lines[0].startswith("  train: 30 records, 30 files, ")
    assert "    height 1200, 1200, 1200, width 1600, 1600, 1600 px" in lines
