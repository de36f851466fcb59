"""Prepares a folder of pictures with a TFDS GeneratorBasedBuilder and prints how long that took, in seconds."""

from __future__ import annotations

import importlib
import importlib.resources
import sys
import time
from pathlib import Path

#: TFDS finds out about a builder from the package it lies in, so it must be one.
BUILDER = """
from pathlib import Path
import tensorflow_datasets as tfds

SOURCE = Path({source!r})

class Builder(tfds.core.GeneratorBasedBuilder):
    VERSION = tfds.core.Version("1.0.0")

    def _info(self):
        names = sorted(folder.name for folder in SOURCE.iterdir())
        features = tfds.features.FeaturesDict(
            {{"image": tfds.features.Image(encoding_format="jpeg"), "label": tfds.features.ClassLabel(names=names)}}
        )
        return self.dataset_info_from_configs(features=features, supervised_keys=("image", "label"))

    def _split_generators(self, manager):
        return {{"train": self._generate_examples()}}

    def _generate_examples(self):
        for path in SOURCE.rglob("*.*"):
            yield str(path), {{"image": str(path), "label": path.parent.name}}
"""


def main() -> None:
    source, scratch = Path(sys.argv[1]), Path(sys.argv[2])
    package = scratch / "pictures"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "pictures_dataset_builder.py").write_text(BUILDER.format(source=str(source)))
    sys.path.insert(0, str(scratch))
    # A back-port that etils asks for by its old name.
    sys.modules.setdefault("importlib_resources", importlib.resources)
    builder = importlib.import_module("pictures.pictures_dataset_builder").Builder(data_dir=scratch / "prepared")
    began = time.perf_counter()
    builder.download_and_prepare()
    print(time.perf_counter() - began)


if __name__ == "__main__":
    main()
