"""Runs that are killed, over every format: the next one goes on and ends in the same bytes."""

from __future__ import annotations

import json
import os
import resource
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import psutil
import pytest

from dataio.converters import publishing, workfolder
from dataio.converters.conversion import Progress, convert
from dataio.converters.manifest import WORK_FOLDER
from tests.converters.conversions import contents, every_format, options

ROOT = Path(__file__).resolve().parents[2]


def run_command(source: Path, out: Path, to: str, *, limit_bytes: int | None = None) -> subprocess.Popen[bytes]:
    """A conversion in a process of its own, which can be killed."""
    program = (
        "import sys; from pathlib import Path\n"
        "from dataio.converters.conversion import ConversionOptions, convert\n"
        "source, out, to = sys.argv[1:4]\n"
        "convert(Path(source), Path(out), ConversionOptions(to=to, unit_bytes=2_000_000 // 6), workers=2)\n"
    )

    def limit() -> None:
        if limit_bytes is not None:
            resource.setrlimit(resource.RLIMIT_FSIZE, (limit_bytes, limit_bytes))

    return subprocess.Popen(
        [sys.executable, "-c", program, str(source), str(out), to],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stderr=subprocess.PIPE,
        preexec_fn=limit,
    )


def lines_of_journal(out: Path) -> int:
    try:
        return (out / WORK_FOLDER / "journal.jsonl").read_bytes().count(b"\n")
    except FileNotFoundError:  # not begun yet, or done already
        return 0


def journal(out: Path) -> list[dict[str, Any]]:
    path = out / WORK_FOLDER / "journal.jsonl"
    if not path.exists():
        return []
    return [json.loads(line) for line in path.read_bytes().splitlines(keepends=True) if line.endswith(b"\n")]


@every_format
@pytest.mark.parametrize("lines", [0, 2, 4])
def test_a_run_killed_at_any_moment_is_finished_by_the_next_to_the_same_bytes(
    to: str, lines: int, source: Path, tmp_path: Path, reference: dict[str, dict[str, str]]
) -> None:
    out = tmp_path / "out"
    process = run_command(source, out, to)
    while lines_of_journal(out) < lines and process.poll() is None:
        time.sleep(0.0005)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    written = len([line for line in journal(out) if "written" in line])
    converted = convert(source, out, options(to), workers=2)
    assert contents(out) == reference[to]
    if process.returncode == -signal.SIGKILL and written:
        assert converted.resumed_units >= written - (1 if to == "lmdb" else 0)


@every_format
def test_sigterm_ends_a_run_and_its_workers(to: str, source: Path, tmp_path: Path) -> None:
    process = run_command(source, tmp_path / "out", to)
    while not lines_of_journal(tmp_path / "out") and process.poll() is None:
        time.sleep(0.001)
    children = psutil.Process(process.pid).children(recursive=True) if process.poll() is None else []
    process.terminate()
    process.communicate()
    _, alive = psutil.wait_procs(children, timeout=10)
    assert not alive
    convert(source, tmp_path / "out", options(to))


@every_format
def test_a_full_disk_stops_cleanly_and_the_next_run_goes_on(
    to: str, source: Path, tmp_path: Path, reference: dict[str, dict[str, str]]
) -> None:
    # A limit on the size of files stands in for a full disk: writing fails in the middle of a unit or of the store.
    out = tmp_path / "out"
    largest = max(path.stat().st_size for path in source.rglob("*.jpg"))
    process = run_command(source, out, to, limit_bytes=200_000 if to != "lmdb" else 900_000)
    _, said = process.communicate()
    assert largest < 200_000
    assert process.returncode == 1
    assert b"DestinationError" in said and b"run the same command again" in said, said.decode()
    assert not (out / "dataset.json").exists()
    convert(source, out, options(to))
    assert contents(out) == reference[to]


@every_format
def test_a_run_killed_while_it_publishes_is_finished_by_the_next(
    to: str, source: Path, tmp_path: Path, reference: dict[str, dict[str, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "out"
    calls = 0

    def fail(path: Path) -> None:
        nonlocal calls
        calls += 1
        if calls == 3:
            raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(publishing, "sync_path", fail)
        with pytest.raises(KeyboardInterrupt):
            convert(source, out, options(to))
    assert not (out / "dataset.json").exists()
    convert(source, out, options(to))
    assert contents(out) == reference[to]


@every_format
def test_after_a_crash_of_the_machine_only_what_was_synced_is_trusted(
    to: str, source: Path, tmp_path: Path, reference: dict[str, dict[str, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    class Stop(Exception):
        pass

    def stop(progress: Progress) -> None:
        if progress.files > progress.total_files // 2:
            raise Stop

    out = tmp_path / "out"
    with pytest.raises(Stop):
        convert(source, out, options(to), workers=1, report=stop)
    synced = {tuple(line["synced"]) for line in journal(out) if "synced" in line}
    assert journal(out)
    for path in (out / WORK_FOLDER).glob("*.unit"):
        split, number = path.stem.split("-")
        if (split, int(number)) not in synced:
            path.write_bytes(bytes(path.stat().st_size))  # as a file system may leave what it never wrote
    monkeypatch.setattr(workfolder, "boot_id", lambda: "another start of the machine")
    convert(source, out, options(to), workers=2)
    assert contents(out) == reference[to]
