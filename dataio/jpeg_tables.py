"""Whether the tables, the frame and the first scan of a JPEG fit together: damage that a header shows without decoding.

A decoder stops at each of these faults. They are doubts, not rejections: whoever sees one decodes the file to be sure.
Source: ITU-T T.81 (T81 below), annexes B, C, F and G.
"""

from __future__ import annotations

from functools import lru_cache

_PROGRESSIVE = 0xC2


@lru_cache(maxsize=256)
def huffman_tables(segment: bytes) -> frozenset[int]:
    """The tables that a DHT segment defines, by class and number as T81 B.2.4.2 has them in one byte; none if it is
    bad.

    Cached, because most files have the same few tables, those of T81 annex K.
    """
    tables = set()
    position = 0
    while position + 17 <= len(segment):
        table, counts = segment[position], segment[position + 1 : position + 17]
        symbols = segment[position + 17 : position + 17 + sum(counts)]
        free = 1  # codes of the length at hand that are not taken; that of all ones is for nobody, T81 C.2
        for count in counts:
            free = 2 * free - count
            if free < 1:
                return frozenset()
        # Decoders take symbols 0 to 15 as sizes of DC differences (T81 table F.1, and 12 to 15 for other precisions).
        if (
            table & 0xEC
            or len(symbols) < sum(counts)
            or len(symbols) > 256
            or (table < 0x10 and max(symbols, default=0) > 15)
        ):
            return frozenset()
        tables.add(table)
        position += 17 + len(symbols)
    return frozenset(tables) if position == len(segment) else frozenset()


@lru_cache(maxsize=256)
def quantisation_tables(segment: bytes) -> frozenset[int]:
    """The numbers of the tables that a DQT segment defines, T81 B.2.4.1; none if it is bad."""
    tables = set()
    position = 0
    while position < len(segment):
        precision, table = segment[position] >> 4, segment[position] & 15
        size = 1 + 64 * (1 + precision)
        if precision > 1 or table > 3 or position + size > len(segment):
            return frozenset()
        tables.add(table)
        position += size
    return frozenset(tables)


@lru_cache(maxsize=256)
def frame_doubt(components: bytes, quantisation: frozenset[int]) -> str | None:
    """What is odd about the components of a frame, given the tables defined before its scan.

    Args:
        components: the frame header from the number of components on, T81 B.2.2: it is the same in most files.
        quantisation: numbers of the tables.
    """
    identifiers, samplings = components[1::3], components[2::3]
    if len(set(identifiers)) < len(identifiers):
        return "components with the same identifier"
    for identifier, sampling, table in zip(identifiers, samplings, components[3::3], strict=True):
        if not (1 <= sampling >> 4 <= 4 and 1 <= sampling & 15 <= 4):
            return f"component {identifier} has a sampling of {sampling >> 4} x {sampling & 15}"
        if table not in quantisation:
            return f"component {identifier} has no quantisation table"
    across, down = [sampling >> 4 for sampling in samplings], [sampling & 15 for sampling in samplings]
    # Decoders resample by whole factors only, and T81 B.2.3 allows 10 blocks in a unit of several components.
    whole = not any(max(across) % each for each in across) and not any(max(down) % each for each in down)
    if not whole or (len(samplings) > 1 and sum(h * v for h, v in zip(across, down, strict=True)) > 10):
        return "samplings that decoders do not combine"
    return None


@lru_cache(maxsize=256)
def scan_doubt(scan: bytes, components: bytes, kind: int, huffman: frozenset[int]) -> str | None:
    """What is odd about a scan header, T81 B.2.3, given its frame and the tables defined before it.

    Args:
        scan: the scan header from the number of components on.
        components: as for `frame_doubt`.
        kind: second byte of the frame's marker.
        huffman: the tables, by class and number in one byte.
    """
    known = components[1::3]
    count = scan[0]
    if count > 4 or len(set(scan[1 : 1 + 2 * count : 2])) < count:
        return f"a scan of {count} components, some of them twice or too many"
    for start in range(1, 1 + 2 * count, 2):
        identifier, tables = scan[start], scan[start + 1]
        if identifier not in known:
            return f"the scan names component {identifier}, which the frame does not have"
        if tables >> 4 not in huffman or (kind != _PROGRESSIVE and 0x10 | tables & 15 not in huffman):
            return f"component {identifier} has no Huffman table"
    # Of a progressive picture the first scan has DC coefficients only, T81 G.1.1.1.1; else it has all 64.
    selection = scan[-3:]
    if (selection[:2] != b"\0\0" or selection[2] > 13) if kind == _PROGRESSIVE else selection != b"\0\x3f\0":
        return "the scan's spectral selection is not that of its frame"
    return None
