"""Splits made from one: seeded, stratified by class, and the same whatever the order of directories or
runs."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from fractions import Fraction

import numpy as np
import numpy.typing as npt

from dataio.converters.candidates import Candidates
from dataio.converters.scan import Scan
from dataio.errors import SourceError

_NAME = re.compile(r"[A-Za-z0-9_-]+")


def parse_shares(text: str) -> dict[str, Fraction]:
    """The shares of `train=0.9,val=0.1` by name, exactly.

    Raises:
        SourceError: not of that form, a share outside (0, 1), or shares that do not sum to 1.
    """
    shares: dict[str, Fraction] = {}
    for part in text.split(","):
        name, _, share = part.strip().partition("=")
        if not _NAME.fullmatch(name) or name in shares:
            raise SourceError(f"--split {text!r}: {part!r} needs a name of its own, such as train=0.9")
        try:
            shares[name] = Fraction(share)
        except (ValueError, ZeroDivisionError):
            raise SourceError(f"--split {text!r}: {share!r} is not a number") from None
        if not 0 < shares[name] < 1:
            raise SourceError(f"--split {text!r}: the share of {name} must be between 0 and 1")
    if len(shares) < 2 or sum(shares.values()) != 1:
        raise SourceError(f"--split {text!r}: two or more shares that sum to 1 are needed, such as train=0.9,val=0.1")
    return shares


def only_split(scan: Scan, option: str) -> Candidates:
    """The candidates of a source without splits.

    Raises:
        SourceError: it has splits; `option` is named in the message.
    """
    if len(scan.splits) != 1:
        raise SourceError(f"{scan.root}: {option} needs one split to divide, and found {', '.join(scan.splits)}")
    return next(iter(scan.splits.values()))


def split_stratified(scan: Scan, shares: Mapping[str, Fraction], *, seed: int) -> Scan:
    """`scan` with its one split divided: each class in about these shares, each split in exactly its share,
    rounded.

    A file's place depends on the seed and on the order of SHA-256(seed, path) within its class, so that it
    does not depend on the machine, and a few files more or less move few others. A class of several files
    keeps one in the largest split.

    Args:
        scan: a source with one split.
        shares: by name, summing to 1.
        seed: another seed, another division.

    Raises:
        SourceError: it has several splits, or too few files for one in each.
    """
    candidates = only_split(scan, "--split")
    counts = rounded_shares(len(candidates), list(shares.values()))
    if min(counts) == 0:
        wanted = ", ".join(f"{name} {count}" for name, count in zip(shares, counts, strict=True))
        raise SourceError(f"{scan.root}: {len(candidates)} files divided by --split give {wanted}; none may be empty")
    of_class = _shuffled_by_class(candidates, len(scan.class_names), seed)
    largest = max(range(len(counts)), key=lambda split: (counts[split], -split))
    table = _table([len(members) for members in of_class], list(shares.values()), counts, largest)
    chosen: list[list[npt.NDArray[np.int64]]] = [[] for _ in counts]
    for members, row in zip(of_class, table, strict=True):
        ends = np.cumsum(row)
        for split, (end, count) in enumerate(zip(ends, row, strict=True)):
            chosen[split].append(members[end - count : end])
    splits = {
        name: candidates.select(np.sort(np.concatenate(parts)), split=name)
        for name, parts in zip(shares, chosen, strict=True)
    }
    return Scan(scan.root, scan.class_names, splits, scan.skipped, scan.warnings)


def rounded_shares(total: int, shares: list[Fraction]) -> list[int]:
    """Whole numbers in these shares that sum to `total`, none of them 0 where there are enough.

    The largest remainders are rounded up (Hamilton's method); then each 0 takes one from the largest.
    """
    counts = [int(total * share) for share in shares]
    by_remainder = sorted(range(len(shares)), key=lambda split: (counts[split] - total * shares[split], split))
    for split in by_remainder[: total - sum(counts)]:
        counts[split] += 1
    if total >= len(counts):
        while min(counts) == 0:
            counts[counts.index(max(counts))] -= 1
            counts[counts.index(0)] += 1
    return counts


def _shuffled_by_class(candidates: Candidates, classes: int, seed: int) -> list[npt.NDArray[np.int64]]:
    """The positions of each class's candidates, in the order in which they are dealt out."""
    keys = np.array(
        [int.from_bytes(hashlib.sha256(f"{seed}/".encode() + path).digest()[:8], "big") for path in candidates.paths()],
        np.uint64,
    )
    order = np.lexsort((keys, candidates.labels)).astype(np.int64)
    ends = np.cumsum(np.bincount(candidates.labels, minlength=classes))
    return np.split(order, ends[:-1])


def _table(sizes: list[int], shares: list[Fraction], counts: list[int], largest: int) -> npt.NDArray[np.int64]:
    """int64[classes, splits]: how many of each class go to each split; rows sum to `sizes`, columns to
    `counts`.

    Splits other than the largest are filled one after the other by largest remainder; the largest takes the
    rest.
    """
    table = np.zeros((len(sizes), len(counts)), np.int64)
    left = np.array(sizes, np.int64)
    for split in sorted((split for split in range(len(counts)) if split != largest), key=lambda s: (counts[s], s)):
        wanted = [size * shares[split] for size in sizes]
        most = np.array([-(-share // 1) for share in wanted], np.int64)
        # As long as that is possible, one of each class stays for the largest split, and none gets more than
        # its share rounded up; the first matters more.
        for kept, bound in ((1, most), (1, left), (0, most), (0, left)):
            taken = _dealt(wanted, np.minimum(left - kept, bound).clip(0), counts[split])
            if taken.sum() == counts[split]:
                break
        table[:, split] = taken
        left -= taken
    table[:, largest] = left
    return table


def _dealt(wanted: list[Fraction], room: npt.NDArray[np.int64], count: int) -> npt.NDArray[np.int64]:
    """`count` items dealt to classes near what they want, none above its room; fewer where there is no
    room."""
    taken = np.minimum([int(share) for share in wanted], room).astype(np.int64)
    # By how much a class falls short decides who gets the next one.
    while taken.sum() < count:
        short = [(taken[i] - wanted[i], i) for i in range(len(wanted)) if taken[i] < room[i]]
        if not short:
            break
        for _, i in sorted(short)[: count - int(taken.sum())]:
            taken[i] += 1
    while taken.sum() > count:
        _, i = max((taken[i] - wanted[i], i) for i in range(len(wanted)) if taken[i])
        taken[i] -= 1
    return taken
