"""Labels from a CSV file instead of class folders: strict, by path, never by position.

    path,label
    train/0001.jpg,cat
    "with, comma.jpg",dog

The first line names the two columns. Paths are below the source folder, with `/`. Pictures may lie anywhere
in it; top folders that are all named train, val, valid, validation or test are splits, as without a CSV file.
"""

from __future__ import annotations

import csv
import os
import re
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from dataio.converters.candidates import CandidatesBuilder
from dataio.converters.names import printable
from dataio.converters.scan import ONLY_SPLIT, Scan, splits_among
from dataio.converters.walking import Walk
from dataio.errors import SourceError

_HEADER = ["path", "label"]

#: Rows at fault that a message names; the rest are counted.
_NAMED = 5

_WHOLE_NUMBER = re.compile(r"0|[1-9][0-9]*")


class Labels:
    """What a labels file says."""

    def __init__(self, origin: Path, class_names: tuple[str, ...], rows: dict[bytes, tuple[int, int]]) -> None:
        """Takes the class names and, by path, (label, line)."""
        self.origin = origin
        self.class_names = class_names
        self.rows = rows


def read_labels(path: Path) -> Labels:
    """The labels file at `path`.

    Classes are ordered bytewise by name, as those of class folders are; where all names are whole numbers
    they are ordered as numbers, so that classes numbered from 0 without gaps keep their numbers as labels.

    Raises:
        SourceError: a wrong header, number of columns, path or label, or a path that comes twice; with line
        numbers.
    """
    names: dict[str, int] = {}
    rows: dict[bytes, tuple[int, int]] = {}
    for line, name, label in _parsed(path):
        earlier = rows.get(name)
        if earlier is not None:
            raise SourceError(f"{path}, line {line}: {printable(name)} already has a label, in line {earlier[1]}")
        rows[name] = (names.setdefault(label, len(names)), line)
    if not rows:
        raise SourceError(f"{path}: no labels after the header")
    ordered = class_order(names)
    position = {names[name]: label for label, name in enumerate(ordered)}
    return Labels(path, ordered, {name: (position[label], line) for name, (label, line) in rows.items()})


def class_order(names: Iterable[str]) -> tuple[str, ...]:
    """Class names in the order of their labels: bytewise, or by value where all are whole numbers."""
    if all(_WHOLE_NUMBER.fullmatch(name) for name in names):
        return tuple(sorted(names, key=int))
    return tuple(sorted(names, key=str.encode))


def scan_labelled(root: Path, labels: Labels, *, progress: Callable[[int], None] | None = None) -> Scan:
    """The files below `root` that `labels` names, as candidates.

    A file that is named is a candidate whatever it holds. Pictures that are not named are left out, counted
    as `unlabelled`, and said in a warning.

    Raises:
        SourceError: `labels` names files that are not there; or as for `scan_folder`.
    """
    walk = Walk(root, progress)
    listing = walk.listing(b"")
    at_root = any(walk.is_candidate(b"", name, size) for name, size, _ in listing.files())
    groups = [(ONLY_SPLIT, b"", listing)]
    if not at_root and (folders := splits_among(listing, root)):
        groups = [
            (folder.name.lower().decode(), folder.name + b"/", walk.listing(folder.name + b"/", folder))
            for folder in folders
        ]
    missing = dict(labels.rows)
    splits = {}
    unlabelled: list[bytes] = []
    for split, prefix, inner in groups:
        builder = CandidatesBuilder(split)
        for below, (name, size, changed) in walk.files(prefix, inner):
            row = missing.pop(below + name, None)
            if row is not None:
                builder.add(below + name, row[0], size, changed)
            elif walk.is_candidate(below, name, size):
                unlabelled.append(below + name)
            else:
                walk.skipped["not_a_picture"] += 1
        splits[split] = builder.build()
    if missing:
        raise SourceError(_missing(root, labels, missing))
    warnings = walk.special_warning()
    if unlabelled:
        walk.skipped["unlabelled"] = len(unlabelled)
        warnings.append(
            f"{root}: {len(unlabelled)} pictures have no label in {labels.origin} and are left out; the first is "
            f"{printable(unlabelled[0])}"
        )
    return Scan(root, labels.class_names, splits, dict(sorted(walk.skipped.items())), tuple(warnings))


def _parsed(path: Path) -> Iterator[tuple[int, bytes, str]]:
    """(line, path, label) of each row."""
    line = 0
    try:
        # Names that are not UTF-8 pass through as surrogates, the way os.fsencode takes them back.
        with open(path, encoding="utf-8-sig", errors="surrogateescape", newline="") as file:
            rows = csv.reader(file, strict=True)
            header = next(rows, [])
            if header != _HEADER:
                raise SourceError(f"{path}, line 1: the header is {','.join(header)!r}, not 'path,label'")
            line = rows.line_num + 1
            for row in rows:
                if row:
                    yield (line, *_checked(path, line, row))
                line = rows.line_num + 1
    except csv.Error as problem:
        raise SourceError(f"{path}, line {max(line, 1)}: not CSV: {problem}") from None
    except OSError as problem:
        raise SourceError(f"{path}: cannot be read: {problem.strerror}") from problem


def _checked(path: Path, line: int, row: list[str]) -> tuple[bytes, str]:
    where = f"{path}, line {line}"
    if len(row) != len(_HEADER):
        raise SourceError(f"{where}: {len(row)} columns, not 2; a comma within a name needs quotes around the name")
    name, label = os.fsencode(row[0]), row[1]
    shown = printable(name)
    if not label or label != label.strip():
        raise SourceError(f"{where}: the label {label!r} of {shown} {'has blanks around it' if label else 'is empty'}")
    try:
        label.encode()
    except UnicodeEncodeError:
        raise SourceError(f"{where}: the label of {shown} is not UTF-8") from None
    if any(part in (b"", b".", b"..") for part in name.split(b"/")):
        raise SourceError(f"{where}: {shown!r} is not a path below the source folder, such as a/b.jpg")
    return name, label


def _missing(root: Path, labels: Labels, missing: dict[bytes, tuple[int, int]]) -> str:
    named = sorted(missing.items(), key=lambda item: item[1][1])[:_NAMED]
    shown = "; ".join(f"line {line}: {printable(name)}{_hint(root, name)}" for name, (_, line) in named)
    more = f"; and {len(missing) - len(named)} more" if len(missing) > len(named) else ""
    return f"{labels.origin}: {len(missing)} paths have no file below {root}: {shown}{more}"


def _hint(root: Path, name: bytes) -> str:
    """Why a path may not have been found, where a guess is safe."""
    if _exists(root, name):
        return " (hidden files and litter are not read)"
    if name != name.strip() and _exists(root, name.strip()):
        return " (a file without the blanks around it exists)"
    if b"\\" in name and _exists(root, name.replace(b"\\", b"/")):
        return " (write / instead of \\)"
    return ""


def _exists(root: Path, name: bytes) -> bool:
    try:
        (root / os.fsdecode(name)).lstat()
    except (OSError, ValueError):  # not there, too long to be there, or with a zero byte
        return False
    return True
