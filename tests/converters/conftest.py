"""Fixtures for every test of conversion: pictures, odd files, a small source and what becomes of it.

A test that takes `odd_file` runs once for each of them; `odd_files` gives them all.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from dataio.converters.conversion import convert
from dataio.converters.registry import WRITABLE
from tests.converters.conversions import contents, options
from tests.converters.crafting import Pixels, jpeg, picture
from tests.converters.odd_files import ODD_FILES, OddFile


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "odd_file" in metafunc.fixturenames:
        metafunc.parametrize("odd_file", ODD_FILES, ids=lambda file: file.name)


@pytest.fixture(scope="session")
def odd_files() -> tuple[OddFile, ...]:
    """All odd files, made once."""
    return ODD_FILES


@pytest.fixture(scope="session")
def make_jpeg() -> Callable[..., bytes]:
    """Makes a JPEG: `make_jpeg(pixels, quality=…, progressive=…)`."""
    return jpeg


@pytest.fixture(scope="session")
def make_picture() -> Callable[..., Pixels]:
    """Makes pixels: `make_picture(height, width)`."""
    return picture


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


@pytest.fixture(scope="session")
def reference(tmp_path_factory: pytest.TempPathFactory, source: Path) -> dict[str, dict[str, str]]:
    """Format to the files of an undisturbed conversion of `source` by one worker."""
    found = {}
    for to in WRITABLE:
        folder = tmp_path_factory.mktemp("reference") / to
        convert(source, folder, options(to), workers=1)
        found[to] = contents(folder)
    return found
