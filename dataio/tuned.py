"""tuned.json: the pipeline that a bench run chose, as training code imports it.

    train = dataio.load_tuned("tuned.json").build(split="train")

The file holds the data's place and fingerprint, the recipe, the plan and the machine it was tuned on. What has
changed since is said when the pipeline is built: an error where it cannot work, a warning where it may be slow.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from dataio.data import Data
from dataio.errors import DataNotFound, PlanError
from dataio.machine import cpu_model, usable_cores, usable_memory_bytes
from dataio.plan import Plan
from dataio.recipe import Recipe
from dataio.records import Record

if TYPE_CHECKING:
    import tensorflow as tf

Opener = Callable[[str | Path], Data]


class TunedWarning(UserWarning):
    """The tuned pipeline works here but was measured under other circumstances: its plan may not be the best."""


class TunedData(Record):
    """The dataset that the plan was tuned for."""

    path: str
    """Where it lay, absolute."""
    relative_path: str
    """The same from the folder of tuned.json, so that both can be moved together."""
    format: str
    """Name of its format."""
    fingerprint: str
    """What `Data.fingerprint` was."""
    split_records: dict[str, int]
    """Records by split."""
    split_bytes: dict[str, int]
    """Bytes on disk by split."""


class TunedMachine(Record):
    """The machine that the plan was tuned on."""

    cpu: str
    """Name of the processor."""
    cores: int
    """Cores that the process could keep busy."""
    memory_bytes: int
    """Memory that it could take."""


class Tuned(Record):
    """The content of tuned.json."""

    schema_version: Literal[1] = 1
    """Form of this record in JSON."""
    tool_version: str
    """Version of dataio that wrote it."""
    data: TunedData
    """The dataset."""
    recipe: Recipe
    """What a batch is."""
    plan: Plan
    """The plan that was chosen."""
    images_per_second: float
    """What the plan supplied, alone, when it was measured."""
    machine: TunedMachine
    """Where that was."""

    @classmethod
    def describe(
        cls,
        data: Data,
        recipe: Recipe,
        plan: Plan,
        *,
        images_per_second: float,
        folder: Path,
        tool_version: str,
    ) -> Tuned:
        """The record for a plan that has just been measured on this machine.

        Args:
            data: the dataset that it was measured on.
            recipe: what was built.
            plan: how.
            images_per_second: the supply that was measured.
            folder: where tuned.json will lie.
            tool_version: version of dataio.
        """
        path = data.path.resolve()
        return cls(
            tool_version=tool_version,
            data=TunedData(
                path=str(path),
                relative_path=os.path.relpath(path, folder.resolve()),
                format=data.format,
                fingerprint=data.fingerprint,
                split_records={name: split.records for name, split in data.splits.items()},
                split_bytes={name: split.bytes for name, split in data.splits.items()},
            ),
            recipe=recipe,
            plan=plan,
            images_per_second=images_per_second,
            machine=TunedMachine(cpu=cpu_model(), cores=usable_cores(), memory_bytes=usable_memory_bytes()),
        )


@dataclass(frozen=True, slots=True)
class TunedPipeline:
    """A tuned.json that was loaded; `build` gives its dataset."""

    tuned: Tuned
    """What the file says."""
    path: Path
    """The file."""
    opener: Opener
    """How a dataset is opened; `dataio.open` outside tests."""

    @classmethod
    def load(cls, path: Path, opener: Opener) -> TunedPipeline:
        """The pipeline that the file `path` describes. Nothing is opened yet.

        Raises:
            RecordError: not a tuned.json of a known schema.
            FileNotFoundError: no such file.
        """
        return cls(Tuned.load(path), path, opener)

    @property
    def recipe(self) -> Recipe:
        """What a batch is."""
        return self.tuned.recipe

    @property
    def plan(self) -> Plan:
        """How it is made."""
        return self.tuned.plan

    def open_data(self) -> Data:
        """The dataset that the plan was tuned for: where it was, or where it is now beside tuned.json.

        Raises:
            DataNotFound: it is at neither place.
        """
        stored = Path(self.tuned.data.path)
        beside = self.path.parent.resolve() / self.tuned.data.relative_path
        for place in (stored, beside):
            if place.exists():
                return self.opener(place)
        raise DataNotFound(
            f"{self.path}: the dataset that this plan was tuned for is gone: neither {stored} nor {beside.resolve()} "
            "exists. If it was moved, say where to: load_tuned(...).build(data='/new/place')"
        )

    def build(
        self,
        split: str = "train",
        training: bool = True,
        *,
        data: Data | str | Path | None = None,
        batch_size: int | None = None,
        plan: Plan | None = None,
        initial_epoch: int = 0,
        num_shards: int = 1,
        shard_index: int = 0,
        cache_dir: str | Path | None = None,
    ) -> tf.data.Dataset:
        """The tuned pipeline as a dataset of `(image, label)` batches, as `dataio.build` gives it.

        Args:
            split: which split to read.
            training: False for evaluation: centre crop, no flip, stored order, every record once.
            data: another dataset, opened or its path, in place of the one that was tuned for.
            batch_size: pictures a batch, in place of the recipe's.
            plan: another plan, for instance `tuned.plan.replace(cache="none")`.
            initial_epoch: epoch that the first iteration is, for runs that go on.
            num_shards: replicas that share the split.
            shard_index: which of them this is, from 0.
            cache_dir: where a plan that caches on disk keeps its file; see `dataio.build`.

        Raises:
            DataNotFound: the data were moved, or have no such split.
            PlanError: the plan keeps the data in memory, and they do not fit here.
            DestinationError: the plan caches on disk, and cache_dir cannot be written or has too little room.

        Warns:
            TunedWarning: the data have changed, or this is another machine.
        """
        from dataio.pipeline import build

        recipe = self.recipe if batch_size is None else self.recipe.replace(batch_size=batch_size)
        opened = data if isinstance(data, Data) else self.open_data() if data is None else self.opener(data)
        used = plan or self.plan
        self._check_memory(opened, split, used, num_shards)
        for difference in (*self._data_differences(opened), *self._machine_differences()):
            warnings.warn(f"{self.path}: {difference}", TunedWarning, stacklevel=2)
        return build(
            opened,
            recipe,
            used,
            split=split,
            training=training,
            initial_epoch=initial_epoch,
            num_shards=num_shards,
            shard_index=shard_index,
            cache_dir=cache_dir,
        )

    def _check_memory(self, data: Data, split: str, plan: Plan, num_shards: int) -> None:
        if plan.cache not in ("memory", "decoded"):
            return
        # Of decoded pictures the least that they take: pixels are more than the bytes that they are decoded from.
        needed, free = data.split(split).bytes // num_shards, usable_memory_bytes()
        if needed > free:
            raise PlanError(
                f"{self.path}: the plan keeps the split {split!r} in memory, which needs {needed / 1e9:.1f} GB, but "
                f"only {free / 1e9:.1f} GB are free here. Build it without the cache: "
                "build(..., plan=tuned.plan.replace(cache='none')), keep it on disk (cache='disk'), "
                "or tune again on this machine"
            )

    def _data_differences(self, data: Data) -> list[str]:
        known = self.tuned.data
        if data.fingerprint == known.fingerprint:
            return []
        if data.format != known.format:
            return [
                f"the plan was tuned for {known.format} data and {data.path} is {data.format}: it works, but another "
                f"plan may be faster. Tune it with: dataio bench {data.path} --out DIR"
            ]
        records = {name: split.records for name, split in data.splits.items()}
        counts = "" if records == known.split_records else f" (records: {known.split_records} then, {records} now)"
        return [
            f"the data at {data.path} are not those that the plan was tuned for{counts}: the pipeline reads what is "
            f"there now. Tune it again with: dataio bench {data.path} --out DIR"
        ]

    def _machine_differences(self) -> list[str]:
        then, cpu, cores = self.tuned.machine, cpu_model(), usable_cores()
        if (then.cpu, then.cores) == (cpu, cores):
            return []
        return [
            f"the plan was tuned on another machine ({then.cores} cores of {then.cpu}; here: {cores} of {cpu}). "
            f"It works, but its numbers may not suit: run dataio bench {self.tuned.data.path} --out DIR here"
        ]
