"""What `dataio verify --source` says of another source and of one that changed."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from dataio.cli.app import make_app
from dataio.converters.conversion import ConversionOptions, convert


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with `source`, 60 pictures, and `dataset` made from it."""
    folder = tmp_path_factory.mktemp("made")
    chance = np.random.default_rng(0)
    for number in range(60):
        file = folder / "source" / "ab"[number % 2] / f"{number}.jpg"
        file.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(chance.integers(0, 256, (16, 16, 3), np.uint8)).save(file)
    convert(folder / "source", folder / "dataset", ConversionOptions(to="hdf5"), workers=1)
    return folder


def verified(made: Path, source: Path, capsys: pytest.CaptureFixture[str]) -> tuple[int, list[str]]:
    """(exit code, lines of stdout)."""
    with pytest.raises(SystemExit) as left:
        make_app()(["verify", str(made / "dataset"), "--source", str(source), "--quiet"])
    return int(left.value.code or 0), capsys.readouterr().out.splitlines()


def test_another_source_is_asked_about_and_not_listed_record_by_record(
    made: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, lines = verified(made, tmp_path, capsys)
    assert code == 1
    assert len([line for line in lines if "its source file cannot be read" in line]) == 20
    assert lines[20] == "… and 40 more"
    assert lines[21:] == [f"{tmp_path}: 60 of 60 records were not made from what is there: is this the right source?"]


def test_a_source_that_changed_is_no_damage_that_repair_could_mend(
    made: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copytree(made / "source", tmp_path / "source")
    (tmp_path / "source" / "a" / "0.jpg").write_bytes((made / "source" / "b" / "1.jpg").read_bytes())
    code, lines = verified(made, tmp_path / "source", capsys)
    assert code == 1
    assert "made from a/0.jpg" in lines[0]
    assert lines[1:] == [
        f"{tmp_path / 'source'}: 1 difference since the conversion; convert again to take in what changed"
    ]


def test_damage_of_the_dataset_itself_is_still_what_repair_mends(
    made: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copytree(made / "dataset", tmp_path / "dataset")
    shard = next((tmp_path / "dataset").glob("*.h5"))
    content = bytearray(shard.read_bytes())
    content[len(content) // 2] ^= 4
    shard.write_bytes(content)
    code, lines = verified(tmp_path, made / "source", capsys)
    assert code == 1
    assert "1 difference; `dataio repair" in lines[-1]
    assert not any("right source" in line for line in lines)


def test_a_source_that_is_not_there_is_an_error(made: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from dataio.errors import SourceError

    with pytest.raises(SourceError, match="is no folder"):
        make_app()(["verify", str(made / "dataset"), "--source", str(tmp_path / "nowhere"), "--quiet"])


def test_a_repair_of_many_records_tells_twenty_of_them(
    made: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copytree(made / "dataset", tmp_path / "dataset")
    shard = next((tmp_path / "dataset").glob("*.h5"))
    shard.write_bytes(b"\xff" * shard.stat().st_size)
    make_app()(
        ["repair", str(tmp_path / "dataset"), "--source", str(made / "source"), "--quiet"], standalone_mode=False
    )
    lines = capsys.readouterr().out.splitlines()
    assert len([line for line in lines if "made from" in line]) == 20
    assert lines[20].startswith("was broken: … and 4")
    assert lines[21:] == [f"written anew: {shard.name}"]
