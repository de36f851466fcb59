"""One pass over a source folder: which files are candidates, which class and split each belongs to.

    SRC/<class>/**                  one split, named train
    SRC/<split>/<class>/**          when every top folder is named train, val, valid, validation or test

A candidate is a regular file below a class folder that is not litter and that has a picture's suffix (any
case) or a picture's first bytes; what it really is, `imaging.decide` says. Names are bytes. Links are
followed, loops end.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from dataio.converters.candidates import Candidates, CandidatesBuilder
from dataio.converters.names import as_text, printable
from dataio.converters.walking import Folder, Listing, Walk
from dataio.errors import SourceError

#: Top folders that are splits, when all of them are.
SPLIT_NAMES = frozenset({b"train", b"val", b"valid", b"validation", b"test"})

#: The split of a folder that has none.
ONLY_SPLIT = "train"

EXPECTED_LAYOUT = "SRC/<class>/<pictures> or SRC/<split>/<class>/<pictures> with splits named train, val, test"


@dataclass(frozen=True, slots=True)
class Scan:
    """What a source folder holds."""

    root: Path
    """The folder."""
    class_names: tuple[str, ...]
    """Names of the classes in bytewise order, the same for every split; empty classes keep their place."""
    splits: Mapping[str, Candidates]
    """Candidates by split."""
    skipped: Mapping[str, int]
    """Entries left out without an outcome, by kind: `junk` (litter of systems), `hidden` (name begins with a
    dot), `not_a_picture` (neither name nor first bytes are a picture's), `outside_class` (pictures beside
    class folders), `special` (pipes, devices), `link_loop`. A skipped folder counts once."""
    warnings: tuple[str, ...]
    """What a user should know: empty classes, pictures outside class folders …; one sentence each."""


def scan_folder(root: Path, *, progress: Callable[[int], None] | None = None) -> Scan:
    """The candidates below `root`, found in one pass over it.

    Memory grows by the length of a path plus some 30 bytes for each file.

    Args:
        root: the source folder.
        progress: called with the number of entries seen so far, every thousand entries.

    Raises:
        SourceError: no folder, one that cannot be listed, or no candidates in it; the message names the
        layout
            found and the one expected.
    """
    walk = Walk(root, progress)
    listing = walk.listing(b"")
    split_folders = splits_among(listing, root)
    notes: list[str] = []
    outside = _outside(listing, walk, b"", root, notes)
    groups: list[tuple[str, bytes, Listing]] = []
    if split_folders:
        for entry in split_folders:
            inner = walk.listing(entry.name + b"/", entry)
            outside += _outside(inner, walk, entry.name + b"/", root / os.fsdecode(entry.name), notes)
            groups.append((entry.name.lower().decode(), entry.name + b"/", inner))
    else:
        groups.append((ONLY_SPLIT, b"", listing))
    names = sorted({entry.name for _, _, inner in groups for entry in inner.folders})
    labels = {name: label for label, name in enumerate(names)}
    splits = {}
    for split, prefix, inner in groups:
        builder = CandidatesBuilder(split)
        for entry in inner.folders:
            below = prefix + entry.name + b"/"
            for folder, (name, size, changed) in walk.files(below, walk.listing(below, entry)):
                if walk.is_candidate(folder, name, size):
                    builder.add(folder + name, labels[entry.name], size, changed)
                else:
                    walk.skipped["not_a_picture"] += 1
        splits[split] = builder.build()
    if not any(len(candidates) for candidates in splits.values()):
        raise SourceError(_nothing_found(root, outside, bool(split_folders), names))
    notes += walk.special_warning()
    notes += _empty_classes(splits, names, root)
    notes += _maybe_too_deep(splits, names, bool(split_folders), root)
    class_names = tuple(as_text(name) for name in names)
    if len(set(class_names)) < len(class_names):
        raise SourceError(f"{root}: two class folders have names that look the same; rename one to UTF-8")
    return Scan(root, class_names, splits, dict(sorted(walk.skipped.items())), tuple(notes))


def splits_among(listing: Listing, root: Path) -> list[Folder]:
    """The top folders when all of them are named as splits, else none."""
    named = {entry.name.lower() for entry in listing.folders}
    if not named or not named <= SPLIT_NAMES:
        return []
    if len(named) < len(listing.folders):
        raise SourceError(f"{root}: two split folders differ in case only; rename one")
    return listing.folders


def _outside(listing: Listing, walk: Walk, prefix: bytes, folder: Path, notes: list[str]) -> int:
    """Counts the pictures that lie beside class folders and belong to none."""
    pictures = [name for name, size, _ in listing.files() if walk.is_candidate(prefix, name, size)]
    others = sum(1 for _ in listing.files()) - len(pictures)
    if others:
        walk.skipped["not_a_picture"] += others
    if pictures:
        walk.skipped["outside_class"] += len(pictures)
        notes.append(
            f"{folder}: {len(pictures)} pictures lie beside the class folders and belong to no class "
            f"(the first is {printable(pictures[0])}); they are left out"
        )
    return len(pictures)


def _nothing_found(root: Path, outside: int, has_splits: bool, names: Sequence[bytes]) -> str:
    if outside and has_splits:
        found = f"{outside} pictures directly in the split folders, and no class folders with pictures"
    elif outside and not names:
        found = f"{outside} pictures directly in it, and no class folders"
    elif outside:
        found = f"{outside} pictures directly in it, and none in its {len(names)} folders"
    elif names:
        shown = ", ".join(printable(name) for name in names[:5])
        found = f"{len(names)} class folders ({shown}{', …' if len(names) > 5 else ''}) without any picture"
    else:
        found = "no class folders and no pictures"
    return f"{root}: found {found}; expected {EXPECTED_LAYOUT}"


def _empty_classes(splits: Mapping[str, Candidates], names: Sequence[bytes], root: Path) -> list[str]:
    notes = []
    for split, candidates in splits.items():
        filled = set(candidates.labels.tolist())
        empty = [printable(name) for label, name in enumerate(names) if label not in filled]
        if empty:
            where = f"{root}: split {split}" if len(splits) > 1 else str(root)
            shown = ", ".join(empty[:10]) + (", …" if len(empty) > 10 else "")
            notes.append(f"{where}: {len(empty)} classes without pictures keep their labels: {shown}")
    return notes


def _maybe_too_deep(
    splits: Mapping[str, Candidates], names: Sequence[bytes], has_splits: bool, root: Path
) -> list[str]:
    """Refuses one class whose pictures all lie in several subfolders of it: those are the classes, most
    likely."""
    if len(names) != 1:
        return []
    depth = 2 if has_splits else 1
    below: set[bytes] = set()
    for candidates in splits.values():
        for path in candidates.paths():
            parts = path.split(b"/", depth + 1)
            if len(parts) < depth + 2:
                return []
            below.add(parts[depth])
    only = printable(names[0])
    shown = ", ".join(printable(name) for name in sorted(below)[:5]) + (", …" if len(below) > 5 else "")
    if len(below) > 1:
        raise SourceError(
            f"{root}: found one class folder, {only}, with {len(below)} folders of pictures in it ({shown}): "
            f"one level too many; expected {EXPECTED_LAYOUT}. Point at the folder that holds the class folders"
        )
    return [f"{root}: all pictures lie in {only}/{shown}; the only class is {only}"]
