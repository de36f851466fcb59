"""What tests of conversion share: every format, options for small units, and what an output holds."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from dataio.converters.conversion import ConversionOptions
from dataio.converters.format import stored_image
from dataio.converters.ledger import Ledger
from dataio.converters.manifest import Manifest
from dataio.converters.registry import WRITABLE

every_format = pytest.mark.parametrize("to", WRITABLE)


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


def records(folder: Path) -> Iterator[tuple[bytes, Any, bytes]]:
    """(path, ledger's row, image) of every record, read from the shards at the ledgers' offsets."""
    for split in Manifest.open(folder).splits.values():
        for shard in split.shards:
            ledger = Ledger.load(folder / shard.ledger.name)
            descriptor = os.open(folder / shard.file.name, os.O_RDONLY)
            for position, row in enumerate(ledger.rows):
                yield ledger.path(position), row, stored_image(descriptor, folder, ledger, position)
            os.close(descriptor)


def stored(folder: Path) -> dict[bytes, tuple[int, int, bytes]]:
    """Path to (label, index, SHA-256 of the image) of every record."""
    return {
        path: (int(row["label"]), int(row["index"]), hashlib.sha256(image).digest())
        for path, row, image in records(folder)
    }
