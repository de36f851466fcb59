"""The two functions of the front door that join the folders: reading formats and building pipelines."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Literal

from dataio.errors import DataNotFound, SourceError

if TYPE_CHECKING:
    from dataio.data import Data
    from dataio.tuned import TunedPipeline


def open(
    path: str | Path,
    *,
    split: str | None = None,
    split_like: Literal["keras"] | None = None,
    seed: int = 0,
) -> Data:
    """The dataset at `path`: a converted one (TFRecord, HDF5, LMDB), a TFDS folder, or a folder of pictures.

    Args:
        path: where it lies.
        split: divides a folder of pictures, such as "train=0.9,val=0.1"; None keeps the splits that are there.
        split_like: "keras" divides as `keras.utils.image_dataset_from_directory` does with the same seed.
        seed: of the division.

    Raises:
        DataNotFound: nothing is there, or nothing that any format knows.
        DataDamaged: a dataset whose manifest or files are broken.
        SourceError: the folder cannot be divided like that, or what is there is no folder of pictures.
    """
    from dataio.converters.registry import find_format, open_data

    if split is None and split_like is None:
        return open_data(Path(path))
    if not Path(path).exists():
        raise DataNotFound(f"{path}: nothing is there")
    kind = find_format(Path(path)).name
    if kind != "folder":
        raise SourceError(f"{path}: a {kind} dataset keeps the splits that it was made with; leave out split")
    from dataio.converters.formats.folder import FolderData
    from dataio.converters.source import scan_source

    return FolderData(scan_source(Path(path), split=split, split_like=split_like, seed=seed))


def load_tuned(path: str | Path) -> TunedPipeline:
    """The pipeline that `dataio bench --out` saved in `tuned.json`; call its `build(split="train")`.

    Raises:
        RecordError: the file is not a tuned.json of a known schema.
    """
    from dataio.tuned import TunedPipeline

    return TunedPipeline.load(Path(path), opener=open)
