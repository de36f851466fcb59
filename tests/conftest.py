"""Fixtures for every test: where real pictures lie, and quiet TensorFlow."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "1")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "-1")

#: A folder of real pictures that lies beside the checkout where the project is developed; absent elsewhere.
SHARED = Path(__file__).resolve().parents[2] / "shared" / "data"


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """The folder of real pictures; skips the test where it is absent."""
    if not SHARED.is_dir():
        pytest.skip(f"needs the real pictures in {SHARED}, which are not part of the project")
    return SHARED


@pytest.fixture(scope="session")
def photos(shared_data: Path) -> Path:
    """47 real photographs in 19 class folders."""
    return shared_data / "photos"
