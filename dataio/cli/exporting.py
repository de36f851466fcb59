"""Writes a tuned pipeline as plain tf.data code, for those who want to own it: readable, and without dataio."""

from __future__ import annotations

import json
import os
from importlib import resources
from typing import TYPE_CHECKING, Any, cast

from dataio.errors import PlanError
from dataio.recipe import CENTER_FRACTION
from dataio.stages.disk_cache import block_records

if TYPE_CHECKING:
    from dataio.converters.formats.folder import FolderData
    from dataio.data import Data
    from dataio.plan import Plan
    from dataio.recipe import Recipe
    from dataio.tuned import TunedPipeline

#: Formats whose reading can be written in a page of code.
EXPORTABLE = ("tfrecord", "hdf5", "lmdb", "folder")

#: Suffixes by which exported code finds the pictures of a plain folder; any case.
_SUFFIXES = (".jpg", ".jpeg", ".jpe", ".jfif")

#: What the seed of a cached split's order is mixed with. Source: dataio.pipeline.
_CACHE_KEY = "0x5851F42D4C957F2D"


def export_code(tuned: TunedPipeline, data: Data, *, version: str) -> str:
    """Python source of the tuned pipeline; running it needs TensorFlow and what its first lines name.

    Args:
        tuned: the loaded tuned.json.
        data: its dataset.
        version: of dataio, named in the code.

    Raises:
        PlanError: the data are of a kind that a page of plain code cannot read.
    """
    import jinja2

    files = resources.files("dataio.cli")
    environment = jinja2.Environment(
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        undefined=jinja2.StrictUndefined,
        loader=jinja2.FunctionLoader(lambda name: (files / name).read_text(encoding="utf-8")),
    )
    code = environment.get_template("exported_pipeline.py.jinja").render(**_context(tuned, data, version))
    # What was left out leaves its blank lines behind.
    while "\n\n\n\n" in code:
        code = code.replace("\n\n\n\n", "\n\n\n")
    return code


def _context(tuned: TunedPipeline, data: Data, version: str) -> dict[str, Any]:
    plan, recipe = tuned.plan, tuned.recipe
    _check(data, recipe)
    encoding: str = data.encoding
    if plan.caches_decoded and encoding != "raw":
        encoding = "packed" if plan.caches_on_disk else "kept" if plan.kernel == "opencv" else "pixels"
    # The hook that ends iterators before the process does also serves a cache on disk: its file goes after them.
    in_python = data.format != "tfrecord" or plan.kernel == "opencv"
    uses_python = in_python or plan.caches_on_disk
    exact = recipe.dtype in ("uint8", "float32")
    scale, offset = _factors(recipe)
    splits, split_folders = _files(data)
    return {
        "title": f"Input pipeline for {data.path.name}: {recipe.height_width[0]}x{recipe.height_width[1]}, "
        f"batches of {recipe.batch_size}.",
        "version": version,
        "source": tuned.path.name,
        "needs": _needs(data, plan, encoding),
        "rate": f"{tuned.tuned.images_per_second:,.0f}",
        "machine": f"{tuned.tuned.machine.cores} cores of {tuned.tuned.machine.cpu}",
        "exact": exact,
        "format": data.format,
        "encoding": encoding,
        "kernel": plan.kernel,
        "fused": plan.fused_decode_and_crop,
        "cached": plan.cache != "none",
        "on_disk": plan.caches_on_disk,
        "cache_block": _cache_block(data, plan),
        "plan": plan,
        "recipe": recipe,
        "crop": recipe.crop,
        "height_width": recipe.height_width,
        "ratio": recipe.ratio,
        "categorical": recipe.label_mode == "categorical",
        "classes": len(data.class_names),
        "class_names": _literal(data.class_names),
        "raw": data.raw_height_width if data.encoding == "raw" else None,
        "data": str(data.path.resolve()),
        "splits": splits,
        "split_folders": split_folders,
        "first_split": next(iter(data.splits)),
        "suffixes": _SUFFIXES,
        "reader": f"{data.format}_reader",
        "block_length": _block_length(data, plan),
        "read_calls": _calls(plan.cycle_length, plan),
        "read_serial": _calls(plan.cycle_length, plan) == "1",
        "read_map_calls": _map_arguments(plan.cycle_length, plan, deterministic=True),
        "map_calls": _map_arguments(plan.num_parallel_calls, plan, deterministic=False),
        "prefetch": ("auto" if plan.autotune else 0) if plan.prefetch == "auto" else plan.prefetch,
        "cache_key": _CACHE_KEY,
        "center_fraction": CENTER_FRACTION,
        "uses_python": uses_python,
        "uses_numpy": data.format != "tfrecord"
        or plan.kernel == "opencv"
        or recipe.crop == "random-resized"
        or recipe.flip,
        "scale": scale,
        "offset": offset,
        "scale_list": scale is not None and scale.startswith("["),
        "offset_list": offset is not None and offset.startswith("["),
    }


def _check(data: Data, recipe: Recipe) -> None:
    if recipe.transform is not None:
        raise PlanError(
            f"the recipe calls {recipe.transform!r}, which plain code cannot contain: export a recipe without it and "
            "map your function over the dataset"
        )
    if data.format not in EXPORTABLE or data.encoding not in ("jpeg", "raw"):
        raise PlanError(
            f"{data.path}: code without dataio can be written for {', '.join(EXPORTABLE)} with JPEGs or raw pixels, "
            f"not for {data.format} with {data.encoding}; convert it first: dataio convert SRC DST --to tfrecord"
        )


def _files(data: Data) -> tuple[list[tuple[str, list[tuple[str, int]]]], dict[str, str] | None]:
    """Files by split with the records in them; for a plain folder also where each split lies."""
    from dataio.converters.stored import StoredData

    if isinstance(data, StoredData):
        return [
            (name, [(shard.file.name, shard.records) for shard in split.shards])
            for name, split in data.manifest.splits.items()
        ], None
    folders = _plain_folders(cast("FolderData", data))
    return [(name, [(folder or ".", data.splits[name].records)]) for name, folder in folders.items()], (
        None if list(folders.values()) == [""] else folders
    )


def _plain_folders(data: FolderData) -> dict[str, str]:
    """Where each split of a folder lies, below its root; empty where the root is the split.

    Raises:
        PlanError: not every file that looks like a picture is a JPEG that is read as it is, so that a rule of two
            lines would not find the pictures that dataio finds.
    """
    from dataio.converters.scan import scan_folder

    scanned = scan_folder(data.path)
    folders = {}
    for split, candidates in scanned.splits.items():
        paths = [candidates.path(position) for position in range(len(candidates))]
        names = [os.fsencode(scanned.class_names[label]) for label in candidates.labels.tolist()]
        flat = all(path.split(b"/")[0] == name for path, name in zip(paths, names, strict=True))
        folder = "" if flat else os.fsdecode(paths[0].split(b"/")[0])
        root = data.path / folder
        found = sorted(
            os.fsencode(path.relative_to(data.path))
            for path in root.rglob("*")
            if path.suffix.lower() in _SUFFIXES and path.is_file()
        )
        if data.outcomes or found != paths:
            raise PlanError(
                f"{data.path}: holds files that are not plain JPEGs (see dataio inspect), which code without dataio "
                "cannot sort out; convert the folder first: dataio convert SRC DST --to tfrecord"
            )
        folders[split] = folder
    return folders


def _needs(data: Data, plan: Plan, encoding: str) -> str:
    packages = ["tensorflow"]
    if data.format == "hdf5":
        packages.append("h5py")
    if data.format == "lmdb":
        packages.append("lmdb")
    if data.format == "folder":
        packages.append("pillow")
    if plan.kernel == "opencv":
        packages.append("opencv-python-headless")
        if encoding in ("jpeg", "kept") and not plan.fused_decode_and_crop:
            packages.append("simplejpeg")
    return packages[0] if len(packages) == 1 else f"{', '.join(packages[:-1])} and {packages[-1]}"


def _block_length(data: Data, plan: Plan) -> int:
    if plan.block_length != "auto":
        return plan.block_length
    return 16 if data.format == "tfrecord" else 50


def _cache_block(data: Data, plan: Plan) -> int:
    """Records that a cache on disk keeps as one, as the pipeline does; 1 where they are large."""
    record_bytes = max(split.bytes / max(1, split.records) for split in data.splits.values())
    return block_records(record_bytes, decoded=plan.caches_decoded and data.encoding != "raw")


def _calls(value: int | str, plan: Plan) -> str:
    if value == "auto":
        return "tf.data.AUTOTUNE" if plan.autotune else "1"
    return str(value)


def _map_arguments(value: int | str, plan: Plan, *, deterministic: bool) -> str:
    calls = _calls(value, plan)
    if calls == "1":
        return ""
    return f", num_parallel_calls={calls}" + (f", deterministic={plan.deterministic}" if deterministic else "")


def _factors(recipe: Recipe) -> tuple[str | None, str | None]:
    """Scale and offset of the normalisation as Python text: a number, a list, or None where there is none."""
    from dataio.stages.finishing import scale_and_offset

    if recipe.dtype == "uint8" or recipe.normalisation == "none":
        return None, None
    scale, offset = scale_and_offset(recipe)
    return _literal(scale[0] if len(set(scale)) == 1 else scale), (
        _literal(offset[0] if len(set(offset)) == 1 else offset) if any(offset) else None
    )


def _literal(value: object) -> str:
    if isinstance(value, tuple):
        return json.dumps(list(value), ensure_ascii=False)
    return repr(value)
