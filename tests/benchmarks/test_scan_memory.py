"""Scanning a tree of a million names: memory and time. Run: pytest tests/benchmarks/test_scan_memory.py -s"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

#: Peak resident memory that scanning a million names may take, interpreter and libraries included.
MOST_BYTES = 300_000_000

#: (folders, names in each): many middling folders, and one huge one, where nothing can be let go in between.
SHAPES = [(1000, 1000), (1, 1_000_000)]

#: Scans a folder and prints what that took. A process of its own: peak memory never goes down again.
SCAN = """
import json, resource, sys, time
from pathlib import Path
from dataio.converters.scan import scan_folder
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
start = time.perf_counter()
scan = scan_folder(Path(sys.argv[1]))
seconds = time.perf_counter() - start
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
print(json.dumps({
    "candidates": sum(len(part) for part in scan.splits.values()),
    "seconds": round(seconds, 2),
    "start_bytes": before,
    "peak_bytes": peak,
}))
"""


@pytest.mark.parametrize("folders, names", SHAPES)
def test_a_million_names_are_scanned_in_bounded_memory(tmp_path: Path, folders: int, names: int) -> None:
    for folder in range(folders):
        place = tmp_path / f"n{folder:08}"
        place.mkdir()
        for number in range(names):
            # As long as ImageNet's: n01440764_10026.JPEG.
            open(f"{place}/n{folder:08}_{number:06}.JPEG", "wb").close()
    done = subprocess.run([sys.executable, "-c", SCAN, str(tmp_path)], capture_output=True, text=True, check=True)
    result = json.loads(done.stdout)
    print(f"\n{folders} folders of {names} names: {result}")
    assert result["candidates"] == folders * names
    assert result["peak_bytes"] < MOST_BYTES
