"""A place that the operating system refuses is one error of ours, whatever the reason."""

from __future__ import annotations

import errno
import itertools
import os
import resource
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from dataio.converters import groups
from dataio.converters.conversion import ConversionOptions, convert
from dataio.converters.destination import destination_errors
from dataio.converters.forecast import forecast
from dataio.converters.inspection import inspect
from dataio.converters.manifest import WORK_FOLDER
from dataio.converters.registry import open_data
from dataio.converters.verification import verify
from dataio.errors import DataioError, DestinationError, LimitExceeded, SourceError

OPTIONS = ConversionOptions(to="hdf5", unit_bytes=4000)


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory, make_jpeg: Callable[..., bytes]) -> Path:
    """Twelve pictures in one class, and a bad file."""
    folder = tmp_path_factory.mktemp("source")
    (folder / "a").mkdir()
    for number in range(12):
        (folder / "a" / f"{number:02d}.jpg").write_bytes(make_jpeg())
    (folder / "a" / "bad.jpg").write_bytes(b"no picture")
    return folder


def open_files() -> set[int]:
    return {int(path.name) for path in Path("/proc/self/fd").iterdir()}


@pytest.fixture
def few_files() -> Iterator[None]:
    """This process may open 40 files more."""
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    taken = open_files()
    free = (number for number in itertools.count() if number not in taken)
    resource.setrlimit(resource.RLIMIT_NOFILE, (next(itertools.islice(free, 40, None)), limits[1]))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, limits)


def test_more_workers_than_files_may_be_open_are_one_error_that_names_the_remedy(
    source: Path, tmp_path: Path, few_files: None
) -> None:
    before = len(open_files())
    for _ in range(3):
        with pytest.raises(DestinationError, match=r"cannot start 64 workers: Too many open files; use fewer"):
            convert(source, tmp_path / "out", OPTIONS, workers=64)
    assert not (tmp_path / "out").exists()
    assert len(open_files()) == before
    assert convert(source, tmp_path / "out", OPTIONS, workers=2).manifest.splits["train"].records == 12


def test_an_unfinished_run_outlives_a_run_with_too_many_workers(source: Path, tmp_path: Path, few_files: None) -> None:
    with pytest.raises(LimitExceeded):
        convert(source, tmp_path / "out", OPTIONS, workers=1, max_bad=0)
    with pytest.raises(DestinationError, match="Too many open files"):
        convert(source, tmp_path / "out", OPTIONS, workers=64)
    assert (tmp_path / "out" / WORK_FOLDER / "journal.jsonl").stat().st_size
    assert convert(source, tmp_path / "out", OPTIONS, workers=1).resumed_units > 0


@pytest.mark.parametrize("is_forked", [True, False])
def test_workers_that_cannot_be_forked_are_one_error(
    is_forked: bool, source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    fork, calls = os.fork, itertools.count()

    def only_once() -> int:
        if next(calls):
            raise BlockingIOError(errno.EAGAIN, "Resource temporarily unavailable")
        return fork()

    if is_forked:
        monkeypatch.setattr(groups, "_count_threads", lambda: 1)
        monkeypatch.setattr(os, "fork", only_once)  # for the group, which then has none for its workers
    else:
        monkeypatch.setattr(groups, "_count_threads", lambda: 0)
        refuse = f"import os; os.fork = lambda: os.read(-1, 1); {groups._PROGRAM}"
        monkeypatch.setattr(groups, "_PROGRAM", refuse)
    with pytest.raises(DestinationError, match="gives no more processes; use fewer --workers"):
        convert(source, tmp_path / "out", OPTIONS, workers=2)
    assert "Traceback" not in capfd.readouterr().err


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("n" * 256, "File name too long; choose a shorter name"),
        ("file/below", "Not a directory|File exists"),
        ("loop/below", "Too many levels of symbolic links|File exists"),
        ("/proc/dataio/out", "No such file"),
    ],
)
def test_a_destination_that_cannot_be_made_is_refused(name: str, told: str, source: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("precious")
    (tmp_path / "loop").symlink_to("loop")
    with pytest.raises(DestinationError, match=told):
        convert(source, tmp_path / name, OPTIONS, workers=1)


def test_names_too_long_for_the_file_system_are_errors_of_ours_everywhere(source: Path, tmp_path: Path) -> None:
    name = tmp_path / ("n" * 256)
    for look in (inspect, open_data, verify):
        with pytest.raises(DataioError, match="File name too long"):
            look(name)
    with pytest.raises(SourceError, match="File name too long"):
        convert(name, tmp_path / "out", OPTIONS, workers=1)
    with pytest.raises(DestinationError, match="File name too long"):
        forecast(source, name, OPTIONS, workers=1)


def test_errors_of_ours_pass_unchanged() -> None:
    ours = DestinationError("as it is")
    with pytest.raises(DestinationError) as caught, destination_errors(Path("out")):
        raise ours
    assert caught.value is ours


def test_workers_whose_parent_was_killed_leave_no_traceback() -> None:
    ours, theirs = os.pipe(), os.pipe()
    heard, told = os.pipe()
    os.close(heard)  # nobody listens any more
    os.close(ours[1])  # and nobody gives units
    program = f"from dataio.converters.worker import main; main([({ours[0]}, {theirs[1]})])"
    done = subprocess.run(
        [sys.executable, "-c", program], stdout=told, stderr=subprocess.PIPE, pass_fds=[ours[0], theirs[1]], check=False
    )
    for descriptor in (ours[0], *theirs, told):
        os.close(descriptor)
    assert (done.returncode, done.stderr) == (0, b"")
