"""The pass over a folder tree: entries in bytewise path order, litter left out, links followed, loops
ended."""

from __future__ import annotations

import os
import stat
import struct
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from dataio.converters.kinds import HEAD_BYTES, has_picture_suffix, picture_kind
from dataio.converters.names import printable
from dataio.errors import SourceError

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

#: Places from which links may lead to one folder.
_MOST_LINKS = 1000

#: How often `progress` is called: once for this many entries.
_PROGRESS_STEP = 1000


#: (name, size in bytes, time of last change in nanoseconds).
File = tuple[bytes, int, int]

#: How a file is kept while its folder is listed: the name, a zero byte, size and time. One object a file
#: instead of four, and sorted as the names are, because no name holds a zero byte.
_NUMBERS = struct.Struct("<qq")


@dataclass(frozen=True, slots=True)
class Folder:
    """A folder that was seen and not yet listed."""

    name: bytes
    """Its own name."""
    identity: tuple[int, int]
    """(device, inode): what tells a loop."""
    ancestors: tuple[tuple[int, int], ...]
    """Identities of the folders it was reached through."""


class Listing:
    """One folder's entries, in the order in which their paths sort."""

    def __init__(self) -> None:
        self.folders: list[Folder] = []
        self._packed: list[bytes] = []

    def add_file(self, name: bytes, size: int, mtime_ns: int) -> None:
        """Adds a regular file, or a broken link with a picture's name."""
        self._packed.append(b"%b\0%b" % (name, _NUMBERS.pack(size, mtime_ns)))

    def sort(self) -> None:
        """Puts the entries in order; to be called once all are there."""
        self._packed.sort()
        self.folders.sort(key=lambda entry: entry.name + b"/")

    def files(self) -> Iterator[File]:
        """The files, sorted by name."""
        for entry in self._packed:
            yield entry[: -1 - _NUMBERS.size], *_NUMBERS.unpack_from(entry, len(entry) - _NUMBERS.size)

    def merged(self) -> Iterator[File | Folder]:
        """Files and folders in bytewise order of the paths below: a folder sorts as its name with a slash."""
        folders = iter(self.folders)
        folder = next(folders, None)
        for file in self.files():
            while folder is not None and folder.name + b"/" < file[0]:
                yield folder
                folder = next(folders, None)
            yield file
        while folder is not None:
            yield folder
            folder = next(folders, None)


class Walk:
    """The pass itself: lists folders, skips litter, counts."""

    skipped: Counter[str]
    """Entries left out so far, by kind; see `Scan.skipped`."""

    def __init__(self, root: Path, progress: Callable[[int], None] | None = None) -> None:
        try:
            if not root.is_dir():
                raise SourceError(f"{root}: {'is not a folder' if root.exists() else 'does not exist'}")
        except OSError as problem:
            raise SourceError(f"{root}: cannot be read: {problem.strerror}") from None
        self._top = os.fsencode(root)
        self._progress = progress
        self._seen = 0
        self._linked: Counter[tuple[int, int]] = Counter()
        self.skipped = Counter()

    def listing(self, prefix: bytes, folder: Folder | None = None) -> Listing:
        """What the folder at `prefix` holds, litter left out."""
        path = self._top + b"/" + prefix
        if folder is None:
            found = Path(os.fsdecode(path)).stat()
            folder = Folder(b"", (found.st_dev, found.st_ino), ())
        chain = (*folder.ancestors, folder.identity)
        listing = Listing()
        try:
            with os.scandir(path) as entries:
                for entry in entries:
                    self._count()
                    self._sort_out(entry, chain, listing)
        except OSError as problem:
            raise SourceError(f"cannot list the folder {printable(path)}: {problem.strerror}") from problem
        listing.sort()
        return listing

    def files(self, prefix: bytes, listing: Listing) -> Iterator[tuple[bytes, File]]:
        """Every file below the folder at `prefix`, whose listing is given: (prefix of its folder, the
        file)."""
        # A stack instead of recursion: a hostile tree may be deeper than Python's stack.
        stack = [(prefix, listing.merged())]
        while stack:
            prefix, entries = stack[-1]
            for entry in entries:
                if isinstance(entry, Folder):
                    below = prefix + entry.name + b"/"
                    stack.append((below, self.listing(below, entry).merged()))
                    break
                yield prefix, entry
            else:
                stack.pop()

    def special_warning(self) -> list[str]:
        """One sentence about pipes, sockets and devices, where there are any: no folder of pictures has them."""
        count = self.skipped["special"]
        if not count:
            return []
        them = "1 pipe, socket or device" if count == 1 else f"{count} pipes, sockets or devices"
        return [f"{printable(self._top)}: {them} left out, unopened"]

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

    def _sort_out(self, entry: os.DirEntry[bytes], chain: tuple[tuple[int, int], ...], listing: Listing) -> None:
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
                listing.add_file(name, 0, 0)
            else:
                self.skipped["not_a_picture"] += 1
            return
        if stat.S_ISDIR(found.st_mode):
            identity = (found.st_dev, found.st_ino)
            if identity in chain:
                self.skipped["link_loop"] += 1
            else:
                if entry.is_symlink():
                    self._count_link(identity, name)
                listing.folders.append(Folder(name, identity, chain))
        elif stat.S_ISREG(found.st_mode):
            listing.add_file(name, found.st_size, found.st_mtime_ns)
        else:
            self.skipped["special"] += 1

    def _count_link(self, identity: tuple[int, int], name: bytes) -> None:
        # Folders that link to each other have no loop on any path and still more paths than can be walked.
        self._linked[identity] += 1
        if self._linked[identity] > _MOST_LINKS:
            raise SourceError(
                f"{printable(self._top)}: links lead from more than {_MOST_LINKS:,} places to one folder, "
                f"{printable(name)}"
            )

    def _count(self) -> None:
        self._seen += 1
        if self._progress is not None and self._seen % _PROGRESS_STEP == 0:
            self._progress(self._seen)
