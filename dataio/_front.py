"""The two functions of the front door that join the folders: reading formats and building pipelines."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dataio.data import Data
    from dataio.tuned import TunedPipeline


def open(path: str | Path) -> Data:
    """The dataset at `path`: a converted one (TFRecord, HDF5, LMDB), a TFDS folder, or a folder of pictures.

    Raises:
        DataNotFound: nothing is there, or nothing that any format knows.
        DataDamaged: a dataset whose manifest or files are broken.
    """
    from dataio.converters.registry import open_data

    return open_data(Path(path))


def load_tuned(path: str | Path) -> TunedPipeline:
    """The pipeline that `dataio bench --out` saved in `tuned.json`; call its `build(split="train")`.

    Raises:
        RecordError: the file is not a tuned.json of a known schema.
    """
    from dataio.tuned import TunedPipeline

    return TunedPipeline.load(Path(path), opener=open)
