"""Dividing one split: shares, strata, seeds."""

from __future__ import annotations

from collections import Counter
from fractions import Fraction
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dataio.converters.candidates import CandidatesBuilder
from dataio.converters.scan import Scan
from dataio.converters.splits import parse_shares, rounded_shares, split_stratified
from dataio.errors import SourceError


def made(sizes: list[int], *, first: int = 0) -> Scan:
    """A scan with so many files a class."""
    builder = CandidatesBuilder("train")
    for label, size in enumerate(sizes):
        for number in range(first, size):
            builder.add(b"%03d/%06d.jpg" % (label, number), label, 100, 0)
    names = tuple(f"{label:03}" for label in range(len(sizes)))
    return Scan(Path("source"), names, {"train": builder.build()}, {"junk": 1}, ("a warning",))


def per_class(scan: Scan, split: str) -> Counter[int]:
    return Counter(scan.splits[split].labels.tolist())


def divided(sizes: list[int], text: str, seed: int = 0) -> Scan:
    return split_stratified(made(sizes), parse_shares(text), seed=seed)


def test_shares_are_read_exactly() -> None:
    assert parse_shares("train=0.9,val=0.1") == {"train": Fraction(9, 10), "val": Fraction(1, 10)}
    assert parse_shares("a=0.1, b=0.2, c=0.7") == {"a": Fraction(1, 10), "b": Fraction(1, 5), "c": Fraction(7, 10)}
    assert parse_shares("x=1/3,y=2/3") == {"x": Fraction(1, 3), "y": Fraction(2, 3)}


@pytest.mark.parametrize(
    "text",
    [
        "",
        "train",
        "train=1",
        "train=0.9",
        "train=0.9,val=0.2",
        "train=0.9,train=0.1",
        "=0.5,val=0.5",
        "train=x,val=0.1",
        "train=1.5,val=-0.5",
        "a/b=0.5,val=0.5",
        "train=0.5,val=0.5,",
        "a=1/0,b=1",
        "a=nan,b=0.5",
    ],
)
def test_shares_that_cannot_be_are_refused(text: str) -> None:
    with pytest.raises(SourceError, match="--split"):
        parse_shares(text)


def test_each_class_is_divided_in_the_same_shares() -> None:
    scan = divided([100, 200, 50], "train=0.8,val=0.2")
    assert per_class(scan, "val") == {0: 20, 1: 40, 2: 10}
    assert per_class(scan, "train") == {0: 80, 1: 160, 2: 40}
    assert (scan.skipped, scan.warnings) == ({"junk": 1}, ("a warning",))


def test_small_classes_are_rounded_so_that_the_whole_is_right() -> None:
    scan = divided([5] * 20, "train=0.9,val=0.1")
    assert len(scan.splits["val"]) == 10
    assert set(per_class(scan, "val").values()) == {1}


def test_a_class_of_few_files_keeps_one_for_training() -> None:
    scan = divided([1, 1, 1, 97], "train=0.5,val=0.5")
    assert len(scan.splits["val"]) == 50
    assert set(per_class(scan, "train")) == {0, 1, 2, 3}


def test_ten_files_at_a_twentieth_leave_one_on_each_side() -> None:
    scan = divided([5, 5], "train=0.95,val=0.05")
    assert (len(scan.splits["train"]), len(scan.splits["val"])) == (9, 1)


def test_too_few_files_for_one_each_are_an_error() -> None:
    with pytest.raises(SourceError, match="none may be empty"):
        divided([1, 1], "train=0.8,val=0.1,test=0.1")
    with pytest.raises(SourceError, match="none may be empty"):
        divided([1], "train=0.5,val=0.5")


def test_another_seed_divides_otherwise_and_the_same_seed_the_same() -> None:
    first, again, other = (list(divided([40, 40], "train=0.5,val=0.5", seed).splits["val"]) for seed in (1, 1, 2))
    assert first == again != other


def test_a_new_file_moves_few_others() -> None:
    def held_out(first: int) -> set[bytes]:
        scan = split_stratified(made([1000], first=first), parse_shares("train=0.9,val=0.1"), seed=3)
        return set(scan.splits["val"].paths())

    assert len(held_out(0) ^ held_out(1)) <= 4


def test_the_parts_keep_path_order_and_count_their_own_indices() -> None:
    scan = divided([30, 30], "train=0.7,val=0.2,test=0.1")
    for name, part in scan.splits.items():
        paths = list(part.paths())
        assert paths == sorted(paths)
        assert [candidate.index for candidate in part] == list(range(len(part)))
        assert {candidate.split for candidate in part} == {name}


def test_a_source_that_has_splits_cannot_be_divided() -> None:
    scan = made([10])
    parts = {"train": scan.splits["train"], "val": scan.splits["train"]}
    with pytest.raises(SourceError, match="found train, val"):
        split_stratified(Scan(scan.root, scan.class_names, parts, {}, ()), parse_shares("a=0.5,b=0.5"), seed=0)


sizes_and_shares = st.tuples(
    st.lists(st.integers(0, 30), min_size=1, max_size=12), st.lists(st.integers(1, 20), min_size=2, max_size=4)
)


@settings(max_examples=200, deadline=None)
@given(sizes_and_shares, st.integers(0, 5))
def test_any_division_uses_each_file_once_and_rounds_each_class_and_the_whole(
    given_sizes: tuple[list[int], list[int]], seed: int
) -> None:
    sizes, weights = given_sizes
    shares = {f"s{number}": Fraction(weight, sum(weights)) for number, weight in enumerate(weights)}
    scan = made(sizes)
    if sum(sizes) < len(shares):
        with pytest.raises(SourceError):
            split_stratified(scan, shares, seed=seed)
        return
    parts = split_stratified(scan, shares, seed=seed).splits
    paths = [path for part in parts.values() for path in part.paths()]
    assert sorted(paths) == list(scan.splits["train"].paths())
    assert [len(part) for part in parts.values()] == rounded_shares(sum(sizes), list(shares.values()))
    assert all(len(part) for part in parts.values())


@given(st.integers(0, 1000), st.lists(st.integers(1, 50), min_size=1, max_size=6))
def test_rounded_shares_sum_to_the_whole_and_miss_by_less_than_one_except_where_one_would_be_empty(
    total: int, weights: list[int]
) -> None:
    shares = [Fraction(weight, sum(weights)) for weight in weights]
    counts = rounded_shares(total, shares)
    assert sum(counts) == total
    if total >= len(counts):
        assert min(counts) >= 1
    if all(int(total * share) for share in shares):
        assert all(abs(count - total * share) < 1 for count, share in zip(counts, shares, strict=True))
