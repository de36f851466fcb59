"""One pass over a source folder: which files are candidates, which class and split each belongs to.

    SRC/<class>/**                  one split, named train
    SRC/<split>/<class>/**          when every top folder is named train, val, valid, validation or test

A candidate is a regular file below a class folder that is not litter and that has a picture's suffix (any
case) or a picture's first bytes; what it really is, `imaging.decide` says. Names are bytes. Links are
followed, loops end.
"""

from __future__ import annotations

import os
import stat
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from dataio.converters.candidates import Candidates, CandidatesBuilder
from dataio.converters.kinds import HEAD_BYTES, has_picture_suffix, picture_kind
from dataio.converters.names import as_text, printable
from dataio.errors import SourceError

#: Top folders that are splits, when all of them are.
SPLIT_NAMES = frozenset({b"train", b"val", b"valid", b"validation", b"test"})

#: The split of a folder that has none.
ONLY_SPLIT = "train"

#: What systems leave behind: macOS (.DS_Store, ._*, __MACOSX), Windows (Thumbs.db, desktop.ini, $RECYCLE.BIN,
#: System Volume Information), Synology (@eaDir, #recycle), Jupyter, and ext4's lost+found. Lower case.
_JUNK = frozenset(
    {
        b".ds_store",
        b"thumbs.db",
        b"ehthumbs.db",
        b"desktop.ini",
        b"__macosx",
        b"@eadir",
        b"#recycle",
        b".ipynb_checkpoints",
        b"$recycle.bin",
        b"system volume information",
        b"lost+found",
    }
)

#: How often `progress` is called: once for this many entries.
_PROGRESS_STEP = 1000

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
        layout found and
            the one expected.
    """
    top = os.fsencode(root)
    if not root.is_dir():
        raise SourceError(f"{root}: {'is not a folder' if root.exists() else 'does not exist'}")
    walk = _Walk(top, progress)
    listing = walk.listing(b"")
    named = {entry.name.lower() for entry in listing.folders}
    split_folders = listing.folders if named and named <= SPLIT_NAMES else []
    if len(named) < len(split_folders):
        raise SourceError(f"{root}: two split folders differ in case only; rename one")
    notes: list[str] = []
    outside = _outside(listing, walk, b"", root, notes)
    groups: list[tuple[str, bytes, _Listing]] = []
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
            walk.collect(prefix + entry.name + b"/", entry, labels[entry.name], builder)
        splits[split] = builder.build()
    if not any(len(candidates) for candidates in splits.values()):
        raise SourceError(_nothing_found(root, outside, bool(split_folders), names))
    notes += _empty_classes(splits, names, root)
    notes += _maybe_too_deep(splits, names, bool(split_folders), root)
    class_names = tuple(as_text(name) for name in names)
    if len(set(class_names)) < len(class_names):
        raise SourceError(f"{root}: two class folders have names that look the same; rename one to UTF-8")
    return Scan(root, class_names, splits, dict(sorted(walk.skipped.items())), tuple(notes))


@dataclass(frozen=True, slots=True)
class _Folder:
    name: bytes
    identity: tuple[int, int]
    """(device, inode): what tells a loop."""
    ancestors: tuple[tuple[int, int], ...]


@dataclass(slots=True)
class _Listing:
    """One folder's entries, in the order in which their paths sort."""

    files: list[tuple[bytes, int, int]] = field(default_factory=list)
    """(name, bytes, mtime_ns)"""
    folders: list[_Folder] = field(default_factory=list)

    def merged(self) -> Iterator[tuple[bytes, int, int] | _Folder]:
        """Files and folders in bytewise order of the paths below: a folder sorts as its name with a slash."""
        folders = iter(self.folders)
        folder = next(folders, None)
        for file in self.files:
            while folder is not None and folder.name + b"/" < file[0]:
                yield folder
                folder = next(folders, None)
            yield file
        while folder is not None:
            yield folder
            folder = next(folders, None)


class _Walk:
    """The pass itself: lists folders, skips litter, counts."""

    def __init__(self, top: bytes, progress: Callable[[int], None] | None) -> None:
        self._top = top
        self._progress = progress
        self._seen = 0
        self.skipped: Counter[str] = Counter()

    def listing(self, prefix: bytes, folder: _Folder | None = None) -> _Listing:
        """What the folder at `prefix` holds, litter left out."""
        path = self._top + b"/" + prefix
        if folder is None:
            found = Path(os.fsdecode(path)).stat()
            folder = _Folder(b"", (found.st_dev, found.st_ino), ())
        chain = (*folder.ancestors, folder.identity)
        listing = _Listing()
        try:
            with os.scandir(path) as entries:
                for entry in entries:
                    self._count()
                    self._sort_out(entry, chain, listing)
        except OSError as problem:
            raise SourceError(f"cannot list the folder {printable(path)}: {problem.strerror}") from problem
        listing.files.sort()
        listing.folders.sort(key=lambda entry: entry.name + b"/")
        return listing

    def collect(self, prefix: bytes, folder: _Folder, label: int, builder: CandidatesBuilder) -> None:
        """Adds the candidates below a class folder, in bytewise path order."""
        # A stack instead of recursion: a hostile tree may be deeper than Python's stack.
        stack = [(prefix, self.listing(prefix, folder).merged())]
        while stack:
            prefix, entries = stack[-1]
            for entry in entries:
                if isinstance(entry, _Folder):
                    below = prefix + entry.name + b"/"
                    stack.append((below, self.listing(below, entry).merged()))
                    break
                name, size, changed = entry
                if self.is_candidate(prefix, name, size):
                    builder.add(prefix + name, label, size, changed)
                else:
                    self.skipped["not_a_picture"] += 1
            else:
                stack.pop()

    def is_candidate(self, prefix: bytes, name: bytes, size: int) -> bool:
        """Whether a file looks like a picture by its suffix or, failing that, by its first bytes."""
        if has_picture_suffix(name):
            return True
        if not size:
            return False
        try:
            with open(self._top + b"/" + prefix + name, "rb", buffering=0) as file:
                return picture_kind(file.read(HEAD_BYTES)) is not None
        except OSError:
            # Neither its name nor anything that can be read says that it is a picture.
            return False

    def _sort_out(self, entry: os.DirEntry[bytes], chain: tuple[tuple[int, int], ...], listing: _Listing) -> None:
        name = entry.name
        lower = name.lower()
        if lower in _JUNK or lower.startswith(b"._"):
            self.skipped["junk"] += 1
            return
        if name.startswith(b"."):
            self.skipped["hidden"] += 1
            return
        try:
            found = entry.stat()
        except OSError:
            # A link to nowhere, or a file that vanished. With a picture's name it becomes a candidate, so
            # that the outcome names it as unreadable: a tree of broken links must not look like an empty one.
            if has_picture_suffix(name):
                listing.files.append((name, 0, 0))
            else:
                self.skipped["not_a_picture"] += 1
            return
        if stat.S_ISDIR(found.st_mode):
            identity = (found.st_dev, found.st_ino)
            if identity in chain:
                self.skipped["link_loop"] += 1
            else:
                listing.folders.append(_Folder(name, identity, chain))
        elif stat.S_ISREG(found.st_mode):
            listing.files.append((name, found.st_size, found.st_mtime_ns))
        else:
            self.skipped["special"] += 1

    def _count(self) -> None:
        self._seen += 1
        if self._progress is not None and self._seen % _PROGRESS_STEP == 0:
            self._progress(self._seen)


def _outside(listing: _Listing, walk: _Walk, prefix: bytes, folder: Path, notes: list[str]) -> int:
    """Counts the pictures that lie beside class folders and belong to none."""
    pictures = [name for name, size, _ in listing.files if walk.is_candidate(prefix, name, size)]
    others = len(listing.files) - len(pictures)
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
