"""A sample of a folder as links."""

from __future__ import annotations

from pathlib import Path

import pytest
from PIL import Image

from dataio.cli.sampling import link_sample
from dataio.errors import SourceError


@pytest.fixture
def source(tmp_path: Path) -> Path:
    for split, count in (("train", 40), ("val", 10)):
        for number in range(count):
            path = tmp_path / "source" / split / f"class{number % 3}" / f"{number:02d}.jpg"
            path.parent.mkdir(parents=True, exist_ok=True)
            Image.new("RGB", (16, 16), (number, 0, 0)).save(path, "JPEG")
    return tmp_path / "source"


def test_the_sample_is_spread_over_splits_and_classes(source: Path, tmp_path: Path) -> None:
    taken, total = link_sample(source, tmp_path / "sample", most=20)
    assert total == 50
    assert 20 <= taken <= 26
    for split in ("train", "val"):
        assert sorted(path.name for path in (tmp_path / "sample" / split).iterdir()) == ["class0", "class1", "class2"]
    trained = len(list((tmp_path / "sample" / "train").rglob("*.jpg")))
    assert 15 <= trained <= 19


def test_links_lead_to_the_files_themselves(source: Path, tmp_path: Path) -> None:
    link_sample(source, tmp_path / "sample", most=1000)
    links = sorted((tmp_path / "sample").rglob("*.jpg"))
    assert len(links) == 50
    assert all(link.is_symlink() and link.read_bytes() == link.resolve().read_bytes() for link in links)


def test_a_folder_without_pictures_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "source").mkdir()
    with pytest.raises(SourceError):
        link_sample(tmp_path / "source", tmp_path / "sample", most=10)
