"""An LMDB file written from front to back: values first, then the tree over them, then the head.

LMDB's own writer copies each value into memory of its own and out again, one transaction at a time: 160 us of one
core for a picture of 90 kB, where writing the same bytes to a file takes 20. Here the pages that hold values are
written once, by as many workers as there are, and only joined; and since nothing but the values decides what is
written, the file is the same bytes whatever happened on the way. The map can never be too small, because there is none.

Source: LMDB 0.9, mdb.c: structs MDB_page, MDB_node, MDB_db and MDB_meta, data version 1, 64-bit little-endian. Keys are
`%08d` in ascending order, each value lies on overflow pages of its own (LMDB allows that for any length).
"""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator, Sequence

#: Bytes of a page. LMDB takes what the file's head says, so that the machine's own size does not matter.
PAGE_BYTES = 4096

#: Head of a page: its number, 2 bytes of nothing, flags; then lower and upper bound, or the number of overflow pages.
PAGE_HEAD = struct.Struct("<QHHHH")
_OVERFLOW_HEAD = struct.Struct("<QHHI")

_META = struct.Struct("<IIQQ")  # magic, version, address, size of the map
_DATABASE = struct.Struct("<IHHQQQQQ")  # page bytes or 0, flags, depth, branch, leaf, overflow pages, entries, root
_META_END = struct.Struct("<QQ")  # last page, transaction
_NODE = struct.Struct("<HHHH")

_MAGIC, _VERSION, _NO_PAGE, _INTEGER_KEYS = 0xBEEFC0DE, 1, 2**64 - 1, 0x08
_BRANCH, _LEAF, _OVERFLOW, _META_PAGE, _BIG = 0x01, 0x02, 0x04, 0x08, 0x01

#: The first two pages are the head's two copies.
HEAD_PAGES = 2

#: A key and a page number, and where in the page the node lies.
_KEY_BYTES, _LEAF_NODE_BYTES, _BRANCH_NODE_BYTES, _POINTER_BYTES = 8, 24, 16, 2
_LEAF_ENTRIES = (PAGE_BYTES - PAGE_HEAD.size) // (_LEAF_NODE_BYTES + _POINTER_BYTES)
_BRANCH_ENTRIES = (PAGE_BYTES - PAGE_HEAD.size) // (_BRANCH_NODE_BYTES + _POINTER_BYTES)

#: Most entries: keys have eight digits.
MOST_ENTRIES = 10**_KEY_BYTES


def value_pages(length: int) -> int:
    """Pages that a value of `length` bytes takes."""
    return -(-(PAGE_HEAD.size + length) // PAGE_BYTES)


def value_head(page: int, length: int) -> bytes:
    """What stands before a value whose first page is `page`."""
    return _OVERFLOW_HEAD.pack(page, 0, _OVERFLOW, value_pages(length))


def key_of(position: int) -> bytes:
    """The key of the value at this position."""
    return b"%08d" % position


def write_tree(descriptor: int, pages: Sequence[int], lengths: Sequence[int], next_page: int) -> int:
    """Writes the tree over the values and the head; returns the size of the file.

    Args:
        descriptor: the file, which holds the values already.
        pages: first page of each value, in the order of the keys.
        lengths: bytes of each value.
        next_page: the page after the last value.
    """
    count = len(pages)
    overflow = next_page - HEAD_PAGES
    level: list[tuple[bytes, int]] = []
    page = next_page
    os.lseek(descriptor, page * PAGE_BYTES, os.SEEK_SET)
    for first in range(0, count, _LEAF_ENTRIES):
        entries = range(first, min(first + _LEAF_ENTRIES, count))
        nodes = [
            _NODE.pack(lengths[entry] & 0xFFFF, lengths[entry] >> 16, _BIG, _KEY_BYTES)
            + key_of(entry)
            + pages[entry].to_bytes(8, "little")
            for entry in entries
        ]
        _write(descriptor, _tree_page(page, _LEAF, nodes))
        level.append((key_of(first), page))
        page += 1
    leaves, branches, depth = len(level), 0, 1
    while len(level) > 1:
        above: list[tuple[bytes, int]] = []
        for children in _evenly(level):
            # The first key of a branch page stands for everything before the second, and is empty.
            keys = [b"", *(key for key, _ in children[1:])]
            nodes = [
                _NODE.pack(child & 0xFFFF, child >> 16 & 0xFFFF, child >> 32, len(key)) + key
                for key, (_, child) in zip(keys, children, strict=True)
            ]
            _write(descriptor, _tree_page(page, _BRANCH, nodes))
            above.append((children[0][0], page))
            page += 1
        branches += len(above)
        depth += 1
        level = above
    size = page * PAGE_BYTES
    free = _DATABASE.pack(PAGE_BYTES, _INTEGER_KEYS, 0, 0, 0, 0, 0, _NO_PAGE)
    empty = _DATABASE.pack(0, 0, 0, 0, 0, 0, 0, _NO_PAGE)
    root = level[0][1] if level else _NO_PAGE
    main = _DATABASE.pack(0, 0, depth if level else 0, branches, leaves, overflow, count, root)
    os.ftruncate(descriptor, size)
    os.lseek(descriptor, 0, os.SEEK_SET)
    # Two copies, of which LMDB takes the one with the higher transaction; the next writer replaces the other.
    for number, (database, last) in enumerate(((empty, HEAD_PAGES - 1), (main, page - 1))):
        head = PAGE_HEAD.pack(number, 0, _META_PAGE, 0, 0) + _META.pack(_MAGIC, _VERSION, 0, size)
        _write(descriptor, (head + free + database + _META_END.pack(last, number)).ljust(PAGE_BYTES, b"\0"))
    return size


def _tree_page(number: int, kind: int, nodes: Sequence[bytes]) -> bytes:
    """A page of the tree: pointers from the front in the order of the keys, nodes from the back."""
    pointers = []
    upper = PAGE_BYTES
    for node in nodes:
        upper -= len(node)
        pointers.append(upper)
    lower = PAGE_HEAD.size + _POINTER_BYTES * len(nodes)
    head = PAGE_HEAD.pack(number, 0, kind, lower, upper) + struct.pack(f"<{len(nodes)}H", *pointers)
    return head.ljust(upper, b"\0") + b"".join(reversed(nodes))


def _evenly(level: Sequence[tuple[bytes, int]]) -> Iterator[Sequence[tuple[bytes, int]]]:
    """Groups of at most as many as a branch page holds, none of them with one alone, which LMDB does not allow."""
    groups = -(-len(level) // _BRANCH_ENTRIES)
    for group in range(groups):
        yield level[len(level) * group // groups : len(level) * (group + 1) // groups]


def _write(descriptor: int, content: bytes) -> None:
    while content:
        content = content[os.write(descriptor, content) :]
