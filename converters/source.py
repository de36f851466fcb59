"""A source as the user describes it: a folder, perhaps with a labels file, perhaps to be divided into
splits."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Literal

from dataio.converters.keras_split import split_like_keras
from dataio.converters.labels import read_labels, scan_labelled
from dataio.converters.scan import Scan, scan_folder
from dataio.converters.splits import parse_shares, split_stratified
from dataio.errors import SourceError


def scan_source(
    root: Path,
    *,
    labels: Path | None = None,
    split: str | None = None,
    split_like: Literal["keras"] | None = None,
    seed: int = 0,
    progress: Callable[[int], None] | None = None,
) -> Scan:
    """The candidates of a source, labelled and divided as asked.

    Args:
        root: the folder.
        labels: a CSV file of `path,label`; None takes class folders.
        split: shares such as `train=0.9,val=0.1`; None keeps the splits that the folders make.
        split_like: `keras` divides as Keras's `validation_split` does; `split` then names two parts, training
        first. seed: of the division.
        progress: called with the number of entries seen so far, every thousand entries.

    Raises:
        SourceError: the folder, the labels or the division cannot be used; the message says why.
    """
    if split_like and split is None:
        raise SourceError("--split-like keras needs the shares too, such as --split train=0.8,val=0.2")
    if split_like and labels is not None:
        raise SourceError("--split-like keras takes classes from folders and cannot be combined with --labels")
    shares = None if split is None else parse_shares(split)
    if labels is not None:
        scan = scan_labelled(root, read_labels(labels), progress=progress)
    else:
        scan = scan_folder(root, progress=progress)
    if shares is None:
        return scan
    if split_like is None:
        return split_stratified(scan, shares, seed=seed)
    if len(shares) != 2:
        raise SourceError(f"--split-like keras makes two parts, and --split {split!r} names {len(shares)}")
    training, validation = shares
    return split_like_keras(scan, validation_split=float(shares[validation]), seed=seed, names=(training, validation))
