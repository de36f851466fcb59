"""Conversion, over every format that dataio writes: what is stored, the same bytes every time, whatever happens."""

from __future__ import annotations

import hashlib
import json
import os
import resource
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import psutil
import pytest

from dataio.converters import conversion
from dataio.converters.conversion import ConversionOptions, Converted, Progress, convert
from dataio.converters.ledger import Ledger
from dataio.converters.manifest import WORK_FOLDER, Manifest
from dataio.converters.registry import WRITABLE, get_writable_format
from dataio.converters.scan import Scan
from dataio.converters.verification import verify
from dataio.errors import (
    DataioError,
    DestinationError,
    LimitExceeded,
    SourceChanged,
    SourceError,
)

ROOT = Path(__file__).resolve().parents[2]

every_format = pytest.mark.parametrize("to", WRITABLE)


@pytest.fixture(scope="session")
def source(tmp_path_factory: pytest.TempPathFactory, make_jpeg: Callable[..., bytes]) -> Path:
    """120 JPEGs in 4 classes, 1 to 60 kB."""
    folder = tmp_path_factory.mktemp("source")
    chance = np.random.default_rng(0)
    for number in range(120):
        side = int(chance.integers(16, 160))
        file = folder / f"class {number % 4}" / f"{number:03d}.jpg"
        file.parent.mkdir(exist_ok=True)
        file.write_bytes(make_jpeg(chance.integers(0, 256, (side, side + 8, 3), np.uint8)))
    return folder


def options(to: str, units: int = 6, total: int = 2_000_000) -> ConversionOptions:
    """Options that make about `units` units of the small source."""
    return ConversionOptions(to=to, unit_bytes=total // units)


def contents(folder: Path) -> dict[str, str]:
    """SHA-256 of every file by name."""
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def stored(folder: Path) -> dict[bytes, tuple[int, int, bytes]]:
    """Path to (label, index, SHA-256 of the image) of every record, read from the shards at the ledgers' offsets."""
    from dataio.converters.format import stored_image

    found = {}
    for split in Manifest.open(folder).splits.values():
        for shard in split.shards:
            ledger = Ledger.load(folder / shard.ledger.name)
            descriptor = os.open(folder / shard.file.name, os.O_RDONLY)
            for position, row in enumerate(ledger.rows):
                image = stored_image(descriptor, folder, ledger, position)
                found[ledger.path(position)] = (int(row["label"]), int(row["index"]), hashlib.sha256(image).digest())
            os.close(descriptor)
    return found


def outcomes(folder: Path) -> dict[str, tuple[str, str]]:
    lines = (folder / "outcomes.jsonl").read_text().splitlines()
    return {line["path"]: (line["outcome"], line["reason"]) for line in map(json.loads, lines)}


@pytest.fixture(scope="session")
def reference(tmp_path_factory: pytest.TempPathFactory, source: Path) -> dict[str, dict[str, str]]:
    """Format to the files of an undisturbed conversion of `source` by one worker."""
    found = {}
    for to in WRITABLE:
        folder = tmp_path_factory.mktemp("reference") / to
        convert(source, folder, options(to), workers=1)
        found[to] = contents(folder)
    return found


@every_format
def test_every_file_is_stored_byte_for_byte_with_its_class_and_rank(to: str, source: Path, tmp_path: Path) -> None:
    convert(source, tmp_path / "out", options(to))
    files = sorted(os.fsencode(path.relative_to(source)) for path in source.rglob("*.jpg"))
    expected = {
        path: (int(path[6:7]), rank, hashlib.sha256((source / os.fsdecode(path)).read_bytes()).digest())
        for rank, path in enumerate(files)
    }
    assert stored(tmp_path / "out") == expected


@every_format
@pytest.mark.parametrize("workers", [2, 7])
def test_the_output_is_the_same_bytes_for_any_number_of_workers(
    to: str, workers: int, source: Path, tmp_path: Path, reference: dict[str, dict[str, str]]
) -> None:
    convert(source, tmp_path / "out", options(to), workers=workers)
    assert contents(tmp_path / "out") == reference[to]


@every_format
def test_the_output_is_the_same_bytes_for_a_copy_whose_folders_list_in_another_order(
    to: str, source: Path, tmp_path: Path, reference: dict[str, dict[str, str]]
) -> None:
    copy = tmp_path / "copy"
    for path in sorted(source.rglob("*.jpg"), key=lambda path: hashlib.md5(str(path.name).encode()).digest()):
        target = copy / path.relative_to(source)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, target)
    convert(copy, tmp_path / "out", options(to))
    assert contents(tmp_path / "out") == reference[to]


def test_another_seed_is_another_order_and_no_shuffle_is_path_order(source: Path, tmp_path: Path) -> None:
    def order(name: str, **changes: object) -> list[int]:
        convert(source, tmp_path / name, ConversionOptions(to="tfrecord", **changes))
        (shard,) = Manifest.open(tmp_path / name).splits["train"].shards
        return [int(index) for index in Ledger.load(tmp_path / name / shard.ledger.name).rows["index"]]

    assert order("plain", shuffle=False) == list(range(120))
    first, second = order("first", seed=1), order("second", seed=2)
    assert first != second and sorted(first) == sorted(second) == list(range(120))


@every_format
def test_odd_files_get_the_outcome_that_their_content_deserves(
    to: str, odd_files: tuple[object, ...], tmp_path: Path
) -> None:
    for file in odd_files:
        path = tmp_path / "source" / file.outcome / f"{file.name}.jpg"  # type: ignore[attr-defined]
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(file.content)  # type: ignore[attr-defined]
    convert(tmp_path / "source", tmp_path / "out", options(to))
    split = Manifest.open(tmp_path / "out").splits["train"]
    assert split.seen == split.records + split.rejected == len(odd_files)
    told = outcomes(tmp_path / "out")
    for file in odd_files:
        path = f"{file.outcome}/{file.name}.jpg"  # type: ignore[attr-defined]
        fate = {"accept": None, "reject": "rejected", "transcode": "transcoded"}[file.outcome]  # type: ignore[attr-defined]
        assert told.get(path) == (None if fate is None else (fate, file.reason)), path  # type: ignore[attr-defined]
    kept = stored(tmp_path / "out")
    for file in odd_files:
        if file.outcome == "accept":  # type: ignore[attr-defined]
            name = f"accept/{file.name}.jpg".encode()  # type: ignore[attr-defined]
            assert kept[name][2] == hashlib.sha256(file.content).digest(), file  # type: ignore[attr-defined]


@every_format
def test_names_are_bytes_from_end_to_end(to: str, make_jpeg: Callable[..., bytes], tmp_path: Path) -> None:
    names = ["ä.jpg", "two words.JPG", "line\nbreak.jpeg", "many.dots.in.it.jpg", "x" * 251 + ".jpg", "bad\udcff.jfif"]
    for folder in ("a", "b"):
        (tmp_path / "source" / folder).mkdir(parents=True)
        for name in names:
            (tmp_path / "source" / folder / name).write_bytes(make_jpeg())
    convert(tmp_path / "source", tmp_path / "out", options(to))
    assert set(stored(tmp_path / "out")) == {os.fsencode(f"{folder}/{name}") for folder in "ab" for name in names}


@every_format
def test_a_line_break_in_a_class_name_shifts_no_label(to: str, make_jpeg: Callable[..., bytes], tmp_path: Path) -> None:
    for name in ("a", "b\nc", "d"):
        (tmp_path / "source" / name).mkdir(parents=True)
        (tmp_path / "source" / name / "1.jpg").write_bytes(make_jpeg())
    convert(tmp_path / "source", tmp_path / "out", options(to))
    assert Manifest.open(tmp_path / "out").class_names == ("a", "b\nc", "d")
    if to == "tfrecord":
        assert len((tmp_path / "out" / "label.labels.txt").read_text().splitlines()) == 3


@pytest.mark.parametrize("to", ["tfrecord", "hdf5"])
def test_no_shard_is_empty_when_more_are_asked_than_there_are_pictures(to: str, source: Path, tmp_path: Path) -> None:
    few = tmp_path / "few" / "a"
    few.mkdir(parents=True)
    for path in sorted(source.rglob("*.jpg"))[:3]:
        shutil.copy(path, few)
    convert(tmp_path / "few", tmp_path / "out", ConversionOptions(to=to, shards=10))
    assert [shard.records for shard in Manifest.open(tmp_path / "out").splits["train"].shards] == [1, 1, 1]


@pytest.mark.parametrize("shards", [2, 5, 7, 13])
def test_shards_are_balanced_by_bytes_within_one_record(shards: int, source: Path, tmp_path: Path) -> None:
    convert(source, tmp_path / "out", ConversionOptions(to="tfrecord", shards=shards))
    manifest = Manifest.open(tmp_path / "out")
    largest = max(path.stat().st_size for path in source.rglob("*.jpg"))
    sizes = [shard.file.bytes for shard in manifest.splits["train"].shards]
    assert len(sizes) == shards
    mean = sum(sizes) / shards
    assert all(abs(size - mean) <= max(0.05 * mean, largest + 400) for size in sizes), sizes


@every_format
def test_units_whose_every_file_is_rejected_leave_no_shard(
    to: str, make_jpeg: Callable[..., bytes], tmp_path: Path
) -> None:
    folder = tmp_path / "source" / "a"
    folder.mkdir(parents=True)
    for number in range(12):
        (folder / f"{number:02d}.jpg").write_bytes(make_jpeg() if number == 5 else b"x" * 4000)
    made = ConversionOptions(to=to, shuffle=False, unit_bytes=8000)
    convert(tmp_path / "source", tmp_path / "out", made)
    split = Manifest.open(tmp_path / "out").splits["train"]
    assert (split.records, split.rejected, len(split.shards)) == (1, 11, 1)
    assert "00000-of-00001" in split.shards[0].ledger.name
    assert not verify(tmp_path / "out").damages


@every_format
def test_a_source_of_rejected_files_alone_is_an_error_that_names_one(to: str, tmp_path: Path) -> None:
    (tmp_path / "source" / "a").mkdir(parents=True)
    (tmp_path / "source" / "a" / "1.jpg").write_bytes(b"no picture")
    with pytest.raises(SourceError, match=r"all 1 files of split train were rejected.*a/1\.jpg"):
        convert(tmp_path / "source", tmp_path / "out", options(to))
    assert not (tmp_path / "out" / "dataset.json").exists()


@every_format
def test_too_many_rejected_files_publish_nothing_and_a_higher_limit_goes_on(
    to: str, source: Path, tmp_path: Path
) -> None:
    shutil.copytree(source, tmp_path / "source")
    (tmp_path / "source" / "class 0" / "bad.jpg").write_bytes(b"no picture")
    with pytest.raises(LimitExceeded, match="1 of 121"):
        convert(tmp_path / "source", tmp_path / "out", options(to), max_bad=0.005)
    assert not (tmp_path / "out" / "dataset.json").exists()
    converted = convert(tmp_path / "source", tmp_path / "out", options(to), max_bad=0.01)
    assert converted.resumed_units > 0
    assert Manifest.open(tmp_path / "out").splits["train"].rejected == 1


@every_format
def test_failing_on_bad_files_stops_at_the_first_and_names_it(to: str, source: Path, tmp_path: Path) -> None:
    shutil.copytree(source, tmp_path / "source")
    (tmp_path / "source" / "class 0" / "bad.jpg").write_bytes(b"no picture")
    with pytest.raises(SourceError, match=r"class 0/bad\.jpg cannot be stored: not_an_image"):
        convert(tmp_path / "source", tmp_path / "out", options(to), fail_on_bad=True)


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


def journal(out: Path) -> list[dict[str, object]]:
    path = out / WORK_FOLDER / "journal.jsonl"
    if not path.exists():
        return []
    return [json.loads(line) for line in path.read_bytes().splitlines(keepends=True) if line.endswith(b"\n")]


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
def test_a_worker_that_dies_is_replaced_and_its_unit_done_again(
    to: str, source: Path, tmp_path: Path, reference: dict[str, dict[str, str]]
) -> None:
    disturbed = Disturbance(signal.SIGKILL)
    convert(source, tmp_path / "out", options(to), workers=2, report=disturbed)
    assert disturbed.happened
    assert contents(tmp_path / "out") == reference[to]


@every_format
def test_a_worker_that_hangs_is_replaced_and_its_unit_done_again(
    to: str, source: Path, tmp_path: Path, reference: dict[str, dict[str, str]]
) -> None:
    disturbed = Disturbance(signal.SIGSTOP)
    convert(source, tmp_path / "out", options(to), workers=2, report=disturbed, quiet_seconds=2)
    assert disturbed.happened
    assert contents(tmp_path / "out") == reference[to]


class Disturbance:
    """Sends a signal to one worker when the conversion reports for the first time, before any unit is done."""

    def __init__(self, number: signal.Signals) -> None:
        self._number = number
        self.happened = False

    def __call__(self, progress: Progress) -> None:
        if not self.happened:
            # The workers are children of our newest child; older ones are other tests' (multiprocessing's tracker).
            group = max(psutil.Process().children(), key=lambda child: child.create_time())
            until = time.monotonic() + 30
            while not group.children():
                assert time.monotonic() < until, "the workers did not start"
                time.sleep(0.01)
            group.children()[-1].send_signal(self._number)
            self.happened = True


@every_format
@pytest.mark.parametrize("change", ["added", "removed", "edited"])
def test_a_source_that_changed_between_runs_is_noticed_and_the_file_named(
    to: str, change: str, source: Path, tmp_path: Path
) -> None:
    copy, out = tmp_path / "source", tmp_path / "out"
    shutil.copytree(source, copy)
    (copy / "class 1" / "bad.jpg").write_bytes(b"no picture")
    with pytest.raises(LimitExceeded):
        convert(copy, out, options(to), max_bad=0)
    victim = copy / "class 0" / "000.jpg"
    if change == "added":
        victim = copy / "class 0" / "new.jpg"
        shutil.copy(copy / "class 0" / "000.jpg", victim)
    elif change == "removed":
        victim.unlink()
    else:
        victim.write_bytes(victim.read_bytes()[:-1] + b"x")
    with pytest.raises(SourceChanged, match=f"class 0/{victim.name} .{change}.*--overwrite"):
        convert(copy, out, options(to))
    convert(copy, out, options(to), overwrite=True)
    assert not verify(out, source=copy).damages


@every_format
def test_a_file_that_changes_while_it_is_converted_is_noticed(
    to: str, source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    copy = tmp_path / "source"
    shutil.copytree(source, copy)

    from dataio.converters.source import scan_source as scan

    def scan_then_change(root: Path, **wanted: object) -> Scan:
        found = scan(root, **wanted)  # type: ignore[arg-type]
        (root / "class 2" / "002.jpg").write_bytes(b"something else")
        return found

    monkeypatch.setattr(conversion, "scan_source", scan_then_change)

    with pytest.raises(SourceChanged, match=r"class 2/002\.jpg"):
        convert(copy, tmp_path / "out", options(to))


@every_format
def test_a_second_run_into_the_same_folder_is_refused(to: str, source: Path, tmp_path: Path) -> None:
    def again(progress: Progress) -> None:
        with pytest.raises(DestinationError, match="another dataio is writing there"):
            convert(source, tmp_path / "out", options(to))

    convert(source, tmp_path / "out", options(to), report=again)
    assert not verify(tmp_path / "out").damages


@every_format
def test_a_finished_dataset_is_refused_and_stays_until_its_replacement_is_whole(
    to: str, source: Path, tmp_path: Path, reference: dict[str, dict[str, str]]
) -> None:
    out = tmp_path / "out"
    convert(source, out, options(to))
    with pytest.raises(DestinationError, match=r"finished dataset.*--overwrite"):
        convert(source, out, options(to))

    class Stop(Exception):
        pass

    def stop(progress: Progress) -> None:
        if progress.files == progress.total_files:
            raise Stop

    with pytest.raises(Stop):
        convert(source, out, options(to, units=2), overwrite=True, report=stop)
    assert {name: value for name, value in contents(out).items() if WORK_FOLDER not in name} == reference[to]
    convert(source, out, options(to, units=2), overwrite=True)
    assert not verify(out).damages
    names = {entry.name for entry in Manifest.open(out).all_files()} | {"dataset.json"}
    assert set(contents(out)) == names  # nothing of the old one is left


@every_format
def test_a_run_killed_while_it_publishes_is_finished_by_the_next(
    to: str, source: Path, tmp_path: Path, reference: dict[str, dict[str, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    from dataio.converters import publishing

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
def test_another_format_or_seed_is_not_mixed_into_an_unfinished_run(to: str, source: Path, tmp_path: Path) -> None:
    copy = tmp_path / "source"
    shutil.copytree(source, copy)
    (copy / "class 1" / "bad.jpg").write_bytes(b"no picture")
    with pytest.raises(LimitExceeded):
        convert(copy, tmp_path / "out", options(to), max_bad=0)
    with pytest.raises(DestinationError, match="other options"):
        convert(copy, tmp_path / "out", options(to).replace(seed=5))


def test_a_destination_that_is_something_else_is_refused(source: Path, tmp_path: Path) -> None:
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "thesis.txt").write_text("precious")
    (tmp_path / "file").write_text("precious")
    for out, told in (
        (tmp_path / "full", "not empty"),
        (tmp_path / "file", "not a folder"),
        (source / "out", "inside the source"),
    ):
        with pytest.raises(DestinationError, match=told):
            convert(source, out, options("tfrecord"), overwrite=True)
    assert (tmp_path / "full" / "thesis.txt").read_text() == "precious"


def test_too_little_space_is_refused_before_anything_is_written(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    usage = shutil.disk_usage(tmp_path)
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage._replace(free=1000))
    with pytest.raises(DestinationError, match=r"are needed and 0.00 GB are free"):
        convert(source, tmp_path / "out", options("tfrecord"))
    assert not (tmp_path / "out").exists()


def test_the_manifest_says_what_is_in_each_class(source: Path, tmp_path: Path) -> None:
    converted: Converted = convert(source, tmp_path / "out", options("hdf5"))
    split = converted.manifest.splits["train"]
    assert [entry.records for entry in split.classes] == [30] * 4
    for label, entry in enumerate(split.classes):
        assert entry.bytes == sum(path.stat().st_size for path in (source / f"class {label}").iterdir())


@pytest.mark.parametrize("count", [1, 156, 157, 500, 156 * 226 + 1])
def test_lmdb_s_own_library_reads_copies_and_extends_trees_of_any_size(count: int, tmp_path: Path) -> None:
    import lmdb

    from dataio.converters.lmdb_pages import HEAD_PAGES, PAGE_BYTES, value_head, value_pages, write_tree
    from dataio.converters.lmdb_tree import read_tree

    values = [b"value %d " % number * (1 + number % 3 * 200) for number in range(count)]
    pages, page = [], HEAD_PAGES
    with open(tmp_path / "data.mdb", "w+b", buffering=0) as file:
        for value in values:
            pages.append(page)
            os.pwrite(file.fileno(), value_head(page, len(value)) + value, page * PAGE_BYTES)
            page += value_pages(len(value))
        size = write_tree(file.fileno(), pages, [len(value) for value in values], page)
    assert (tmp_path / "data.mdb").stat().st_size == size
    expected = [(b"%08d" % number, value) for number, value in enumerate(values)]
    assert [entry.key for entry in read_tree(tmp_path / "data.mdb")] == [key for key, _ in expected]
    (tmp_path / "copy").mkdir()
    with lmdb.open(str(tmp_path), map_size=size + (64 << 20)) as environment:
        with environment.begin() as transaction:
            assert list(transaction.cursor()) == expected
            assert all(transaction.get(key) == value for key, value in expected[:: max(1, count // 50)])
        environment.copy(str(tmp_path / "copy"), compact=True)
        with environment.begin(write=True) as transaction:
            transaction.put(b"99999999", b"new")
            transaction.delete(b"00000000")
            transaction.put(b"%08d" % (count - 1), b"x" * 9000)
        with environment.begin() as transaction:
            kept = dict(transaction.cursor())
    changed = dict(expected) | {b"%08d" % (count - 1): b"x" * 9000, b"99999999": b"new"}
    if count > 1:
        del changed[b"00000000"]
    assert kept == changed
    with lmdb.open(str(tmp_path / "copy"), readonly=True, map_size=0) as copy, copy.begin() as transaction:
        assert list(transaction.cursor()) == expected


def test_lmdb_s_own_library_reads_the_environment_and_every_key_is_a_sample(source: Path, tmp_path: Path) -> None:
    import lmdb

    from dataio.converters.formats.example import parse_record

    convert(source, tmp_path / "out", options("lmdb"))
    path = tmp_path / "out" / "train.lmdb"
    size = (path / "data.mdb").stat().st_size
    with lmdb.open(str(path), readonly=True, lock=False, map_size=0) as environment, environment.begin() as transaction:
        entries = list(transaction.cursor())
        info, stat = environment.info(), environment.stat()
    assert [key for key, _ in entries] == [b"%08d" % number for number in range(120)]
    records = {record.path: record for record in (parse_record(value) for _, value in entries)}
    assert {path: hashlib.sha256(record.image).digest() for path, record in records.items()} == {
        path: digest for path, (_, _, digest) in stored(tmp_path / "out").items()
    }
    used = (info["last_pgno"] + 1) * stat["psize"]
    assert info["map_size"] == size and used <= size <= 1.05 * used


def test_hdf5_s_own_library_reads_the_shards(source: Path, tmp_path: Path) -> None:
    import h5py

    convert(source, tmp_path / "out", options("hdf5"))
    expected, found = stored(tmp_path / "out"), {}
    for path in sorted((tmp_path / "out").glob("*.h5")):
        with h5py.File(path) as file:
            assert [name.decode() for name in file["class_names"]] == [f"class {number}" for number in range(4)]
            offsets, ends = file["offsets"][:], file["path_offsets"][:]
            for number in range(len(file["label"])):
                image = file["images"][offsets[number] : offsets[number + 1]].tobytes()
                name = file["paths"][ends[number] : ends[number + 1]].tobytes()
                found[name] = (int(file["label"][number]), int(file["index"][number]), hashlib.sha256(image).digest())
    assert found == expected


def test_ten_thousand_class_names_fit_into_every_shard(tmp_path: Path, make_jpeg: Callable[..., bytes]) -> None:
    import h5py

    for number in range(10_000):
        (tmp_path / "source" / f"a class with a long name {number:05d}").mkdir(parents=True)
    (tmp_path / "source" / "a class with a long name 07777" / "1.jpg").write_bytes(make_jpeg())
    convert(tmp_path / "source", tmp_path / "out", ConversionOptions(to="hdf5"))
    with h5py.File(tmp_path / "out" / "train-00000-of-00001.h5") as file:
        assert len(file["class_names"]) == 10_000
        assert file["class_names"][file["label"][0]] == b"a class with a long name 07777"


def test_every_error_of_a_conversion_is_one_of_ours(source: Path, tmp_path: Path) -> None:
    with pytest.raises(DataioError, match="does not exist"):
        convert(tmp_path / "nowhere", tmp_path / "out", options("tfrecord"))
    assert get_writable_format("hdf5").name == "hdf5"


@every_format
def test_after_a_crash_of_the_machine_only_what_was_synced_is_trusted(
    to: str, source: Path, tmp_path: Path, reference: dict[str, dict[str, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    from dataio.converters import workfolder

    class Stop(Exception):
        pass

    def stop(progress: Progress) -> None:
        if progress.files > progress.total_files // 2:
            raise Stop

    out = tmp_path / "out"
    with pytest.raises(Stop):
        convert(source, out, options(to), workers=1, report=stop)
    synced = {tuple(line["synced"]) for line in journal(out) if "synced" in line}  # type: ignore[arg-type]
    assert journal(out)
    for path in (out / WORK_FOLDER).glob("*.unit"):
        split, number = path.stem.split("-")
        if (split, int(number)) not in synced:
            path.write_bytes(bytes(path.stat().st_size))  # as a file system may leave what it never wrote
    monkeypatch.setattr(workfolder, "boot_id", lambda: "another start of the machine")
    convert(source, out, options(to), workers=2)
    assert contents(out) == reference[to]


@every_format
def test_a_file_too_large_for_a_record_is_rejected_without_being_read(
    to: str, source: Path, tmp_path: Path, make_jpeg: Callable[..., bytes]
) -> None:
    shutil.copytree(source, tmp_path / "source")
    huge = tmp_path / "source" / "class 0" / "huge.jpg"
    huge.write_bytes(make_jpeg())
    os.truncate(huge, (1 << 30) + 1)  # sparse: it takes no space on the disk
    converted = convert(tmp_path / "source", tmp_path / "out", ConversionOptions(to=to), workers=1)
    split = converted.manifest.splits["train"]
    assert (split.records, split.rejected) == (120, 1)
    (line,) = (tmp_path / "out" / "outcomes.jsonl").read_text().splitlines()
    assert json.loads(line) == {"path": "class 0/huge.jpg", "outcome": "rejected", "reason": "unreadable"}
    assert not verify(tmp_path / "out", source=tmp_path / "source").damages
