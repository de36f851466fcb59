"""A source that changes under a conversion, over every format: noticed, and the file named."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from dataio.converters import conversion
from dataio.converters.conversion import convert
from dataio.converters.scan import Scan
from dataio.converters.source import scan_source
from dataio.converters.verification import verify
from dataio.errors import LimitExceeded, SourceChanged
from tests.converters.conversions import every_format, options


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

    def scan_then_change(root: Path, **wanted: object) -> Scan:
        found = scan_source(root, **wanted)  # type: ignore[arg-type]
        (root / "class 2" / "002.jpg").write_bytes(b"something else")
        return found

    monkeypatch.setattr(conversion, "scan_source", scan_then_change)

    with pytest.raises(SourceChanged, match=r"class 2/002\.jpg"):
        convert(copy, tmp_path / "out", options(to))
