"""The division that Keras makes, file by file, so that results stay comparable with earlier runs.

Source: keras/src/utils/dataset_utils.py (3.15): index_directory, iter_valid_files,
get_training_or_validation_split, as keras.utils.image_dataset_from_directory calls them with shuffle=True.
The list is the one that Keras makes, before anything is rejected: it holds names that end in five suffixes,
whatever the files contain.
"""

from __future__ import annotations

import os
from collections.abc import Iterator

import numpy as np

from dataio.converters.candidates import Candidates, CandidatesBuilder
from dataio.converters.names import as_text, printable
from dataio.converters.scan import Scan
from dataio.converters.splits import only_split
from dataio.errors import SourceError

#: Source: ALLOWLIST_FORMATS in keras/src/utils/image_dataset_utils.py.
_SUFFIXES = (".bmp", ".gif", ".jpeg", ".jpg", ".png")


def split_like_keras(scan: Scan, *, validation_split: float, seed: int, names: tuple[str, str]) -> Scan:
    """`scan` with its one split divided as Keras does with `validation_split` and `seed`.

    Classes are those of Keras too: every folder whose name does not begin with a dot, in Keras's order.
    Candidates that Keras does not list (other suffixes, linked folders below a class) are left out, counted
    and said.

    Args:
        scan: what `scan_folder` returned for the folder.
        validation_split: share for validation, in (0, 1), as Keras takes it: a float.
        seed: as given to Keras, 0 to 2**32 - 1.
        names: what the training and the validation part are called.

    Raises:
        SourceError: the source has splits, or one of the parts would be empty.
    """
    candidates = only_split(scan, "--split-like keras")
    if not 0 < validation_split < 1:
        raise SourceError(f"--split-like keras: the share of {names[1]} must be between 0 and 1")
    if not 0 <= seed < 2**32:
        raise SourceError(f"--split-like keras: Keras takes seeds from 0 to 2**32 - 1, not {seed}")
    folder = str(scan.root)
    classes = sorted(path.name for path in scan.root.iterdir() if path.is_dir() and not path.name.startswith("."))
    listed = [path for name in classes for path in _listed(folder, name)]
    order = np.arange(len(listed))
    np.random.RandomState(seed).shuffle(order)
    validation = int(validation_split * len(listed))
    if not 0 < validation < len(listed):
        raise SourceError(
            f"{scan.root}: Keras would put {validation} of {len(listed)} files into {names[1]}; none of the two parts "
            "may be empty"
        )
    parts = {listed[place]: names[0] for place in order[:-validation].tolist()}
    parts |= {listed[place]: names[1] for place in order[-validation:].tolist()}
    labels = {os.fsencode(name): label for label, name in enumerate(classes)}
    return _divided(scan, candidates, parts, labels, names)


def _listed(folder: str, name: str) -> Iterator[bytes]:
    """Paths of the files that Keras lists for one class, in its order: folder by folder, names sorted as
    text."""
    for where, _, files in sorted(os.walk(f"{folder}/{name}"), key=lambda entry: entry[0]):
        below = os.path.relpath(where, folder)
        for file in sorted(files):
            if file.lower().endswith(_SUFFIXES):
                yield os.fsencode(f"{below}/{file}")


def _divided(
    scan: Scan, candidates: Candidates, parts: dict[bytes, str], labels: dict[bytes, int], names: tuple[str, str]
) -> Scan:
    builders = {name: CandidatesBuilder(name) for name in names}
    unlisted: list[bytes] = []
    for candidate in candidates:
        part = parts.get(candidate.path)
        if part is None:
            unlisted.append(candidate.path)
            continue
        label = labels[candidate.path.partition(b"/")[0]]
        builders[part].add(candidate.path, label, candidate.bytes, candidate.mtime_ns)
    skipped, warnings = dict(scan.skipped), list(scan.warnings)
    if unlisted:
        skipped["not_listed_by_keras"] = len(unlisted)
        warnings.append(
            f"{scan.root}: {len(unlisted)} pictures are not in the list that Keras makes and are left out; the first "
            f"is {printable(unlisted[0])}"
        )
    class_names = tuple(as_text(name) for name in labels)
    return Scan(
        scan.root, class_names, {name: builder.build() for name, builder in builders.items()}, skipped, tuple(warnings)
    )
