"""An LMDB file read page by page, without LMDB: where each value lies.

LMDB's library trusts its file: a wrong page number makes it read outside the map, which ends the interpreter. Here
every number is checked before it is followed.

Source: LMDB 0.9, mdb.c: structs MDB_page, MDB_node, MDB_db and MDB_meta, data version 1, 64-bit little-endian.
"""

from __future__ import annotations

import mmap
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from dataio.errors import DataDamaged

_PAGE_HEAD = struct.Struct("<QHHHH")  # number, pad, flags, lower, upper
_META = struct.Struct("<IIQQ")  # magic, version, address, size of the map
_DATABASE = struct.Struct(
    "<IHHQQQQQ"
)  # pad (page size, in the first), flags, depth, branch, leaf, overflow, entries, root
_META_END = struct.Struct("<QQ")  # last page, transaction
_NODE = struct.Struct("<HHHH")  # low, high, flags, bytes of the key

_MAGIC, _VERSION = 0xBEEFC0DE, 1
_BRANCH, _LEAF, _META_PAGE = 0x01, 0x02, 0x08
_BIG = 0x01  # the value lies on pages of its own
_NO_PAGE = 2**64 - 1

#: Deepest tree that is followed. Source: CURSOR_STACK of mdb.c.
_DEEPEST = 32


@dataclass(frozen=True, slots=True)
class TreeValue:
    """One entry of the main database."""

    key: bytes
    """Its key."""
    offset: int
    """Where its value begins, bytes from the start of the file."""
    length: int
    """Bytes of the value."""


@dataclass(frozen=True, slots=True)
class _Meta:
    page_bytes: int
    root: int
    entries: int
    transaction: int


def read_tree(path: Path) -> Iterator[TreeValue]:
    """The entries of the main database in the order of their keys.

    Raises:
        DataDamaged: the file is no LMDB file, or a page of it points where it cannot.
    """
    size = path.stat().st_size
    if size < 2 * 512:
        raise DataDamaged(f"{path}: {size} bytes are no LMDB file")
    with open(path, "rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
        try:
            meta = _newest_meta(content)
            if meta.root != _NO_PAGE:
                yield from _walk(content, meta.root, meta.page_bytes, 0)
        except (struct.error, ValueError) as problem:
            raise DataDamaged(f"{path}: not a sound LMDB file: {problem}") from None


def _newest_meta(content: bytes | mmap.mmap) -> _Meta:
    page_bytes = _meta_at(content, 0).page_bytes
    if page_bytes < 512 or page_bytes & (page_bytes - 1):
        raise ValueError(f"pages of {page_bytes} bytes")
    metas = [_meta_at(content, page * page_bytes) for page in range(2)]
    return max(metas, key=lambda meta: meta.transaction)


def _meta_at(content: bytes | mmap.mmap, offset: int) -> _Meta:
    _, _, flags, _, _ = _PAGE_HEAD.unpack_from(content, offset)
    offset += _PAGE_HEAD.size
    magic, version, _, _ = _META.unpack_from(content, offset)
    if not flags & _META_PAGE or magic != _MAGIC or version != _VERSION:
        raise ValueError("its head is not that of an LMDB file of this machine's kind")
    offset += _META.size
    page_bytes = _DATABASE.unpack_from(content, offset)[0]
    main = _DATABASE.unpack_from(content, offset + _DATABASE.size)
    _, transaction = _META_END.unpack_from(content, offset + 2 * _DATABASE.size)
    return _Meta(page_bytes, main[7], main[6], transaction)


def _walk(content: mmap.mmap, number: int, page_bytes: int, depth: int) -> Iterator[TreeValue]:
    start = number * page_bytes
    if depth > _DEEPEST or start + page_bytes > len(content):
        raise ValueError(f"page {number} is too deep or outside the file")
    found, _, flags, lower, _ = _PAGE_HEAD.unpack_from(content, start)
    if found != number or not flags & (_BRANCH | _LEAF) or not _PAGE_HEAD.size <= lower <= page_bytes:
        raise ValueError(f"page {number} is not a page of the tree")
    nodes = struct.unpack_from(f"<{(lower - _PAGE_HEAD.size) // 2}H", content, start + _PAGE_HEAD.size)
    for node in nodes:
        if node + _NODE.size > page_bytes:
            raise ValueError(f"page {number} has a node outside itself")
        low, high, kind, key_bytes = _NODE.unpack_from(content, start + node)
        if flags & _BRANCH:
            yield from _walk(content, low | high << 16 | kind << 32, page_bytes, depth + 1)
            continue
        key_start = start + node + _NODE.size
        offset, length = key_start + key_bytes, low | high << 16
        if kind & _BIG:
            (page,) = struct.unpack_from("<Q", content, offset)
            offset = page * page_bytes + _PAGE_HEAD.size
        if key_start + key_bytes > start + page_bytes or offset + length > len(content):
            raise ValueError(f"page {number} has a value outside the file")
        yield TreeValue(content[key_start : key_start + key_bytes], offset, length)
