"""The last step: finished files get their names, the manifest last, so that a folder with a manifest is whole.

What is to be moved and removed is written down first; a run that is killed in between leaves that list, and the next
one carries it out to the end.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from pathlib import Path

from dataio.converters.manifest import MANIFEST, Manifest
from dataio.converters.worker import sync_path
from dataio.errors import DataDamaged, DataNotFound
from dataio.records import write_whole

_LIST = "publishing.json"


def prepare(work: Path, manifest: Manifest, moves: Sequence[tuple[str, str]], replaced: Iterable[str]) -> None:
    """Writes down what `publish` does.

    Args:
        work: the work folder.
        manifest: sealed; it becomes the dataset's.
        moves: (name in the work folder, final name in the destination).
        replaced: names of files of a dataset that this one replaces.
    """
    kept = {entry.name for entry in manifest.all_files()}
    content = {
        "manifest": manifest.to_json(),
        "moves": [list(move) for move in moves],
        "removes": sorted(set(replaced) - kept),
    }
    write_whole(work / _LIST, json.dumps(content).encode())
    sync_path(work)


def is_prepared(work: Path) -> bool:
    """Whether an earlier run came as far as publishing."""
    return (work / _LIST).exists()


def publish(work: Path, destination: Path) -> Manifest:
    """Carries out what was prepared, from wherever an earlier run was stopped; returns the dataset's manifest."""
    content = json.loads((work / _LIST).read_bytes())
    manifest = Manifest.from_json(content["manifest"], origin=str(work / _LIST))
    if _published(destination, manifest):
        return manifest
    # From here on the old dataset is none any more; a reader must not take new shards for those of the old manifest.
    (destination / MANIFEST).unlink(missing_ok=True)
    sync_path(destination)
    folders = {destination}
    for name, final in content["moves"]:
        target = destination / final
        target.parent.mkdir(parents=True, exist_ok=True)
        folders.add(target.parent)
        if (work / name).exists():
            (work / name).replace(target)
    for name in content["removes"]:
        target = destination / name
        target.unlink(missing_ok=True)
        if target.parent != destination and target.parent.is_dir() and not any(target.parent.iterdir()):
            target.parent.rmdir()
            folders.discard(target.parent)
    for folder in sorted(folders):
        sync_path(folder)
    write_whole(destination / MANIFEST, content["manifest"].encode())
    sync_path(destination)
    return manifest


def _published(destination: Path, manifest: Manifest) -> bool:
    try:
        return Manifest.open(destination) == manifest
    except (DataNotFound, DataDamaged):
        return False
