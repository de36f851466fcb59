"""Exported code: it needs no dataio and gives the pictures that build gives."""

from __future__ import annotations

import importlib.util
import io
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from PIL import Image

import dataio
from dataio.cli.exporting import export_code
from dataio.converters.conversion import ConversionOptions, convert
from dataio.converters.imaging import ImageOptions
from dataio.errors import PlanError
from dataio.plan import Plan
from dataio.recipe import Recipe
from dataio.tuned import Tuned, TunedPipeline

SERIAL = Plan(num_parallel_calls=1, cycle_length=1, prefetch=0, autotune=False)
RECIPE = Recipe(image_size=24, batch_size=8)

#: (format, recipe, plan): every branch of the templates at least once.
CASES = [
    ("tfrecord", RECIPE, Plan()),
    ("tfrecord", RECIPE.replace(normalisation="imagenet"), Plan(fused_decode_and_crop=True, num_parallel_calls=2)),
    ("tfrecord", RECIPE.replace(dtype="uint8", normalisation="none"), Plan(cache="memory", prefetch=2)),
    ("tfrecord", RECIPE.replace(crop="resize", flip=False, seed=2**62 + 5), SERIAL),
    ("tfrecord", RECIPE.replace(label_mode="categorical", dtype="bfloat16"), Plan(kernel="opencv", cycle_length=2)),
    ("hdf5", RECIPE.replace(normalisation="signed"), Plan(kernel="opencv", fused_decode_and_crop=True)),
    ("hdf5", RECIPE.replace(shuffle=False, drop_remainder=False), Plan(block_length=7)),
    ("lmdb", RECIPE.replace(crop="center", image_size=(20, 30)), Plan(autotune_algorithm="stage_based")),
    ("lmdb", RECIPE.replace(dtype="uint8", normalisation="none", crop="center"), Plan(kernel="opencv")),
    ("folder", RECIPE.replace(normalisation="none"), Plan(kernel="opencv", num_parallel_calls=2)),
    ("raw", RECIPE, Plan(num_parallel_calls=2)),
    ("raw", RECIPE.replace(normalisation="imagenet"), Plan(kernel="opencv")),
    ("rawrecord", RECIPE, Plan()),
    ("tfrecord", RECIPE, Plan(cache="decoded", num_parallel_calls=2)),
    ("hdf5", RECIPE, Plan(cache="decoded", kernel="opencv", num_parallel_calls=2)),
    ("tfrecord", RECIPE, Plan(cache="disk")),
    ("raw", RECIPE, Plan(cache="disk", kernel="opencv")),
    ("hdf5", RECIPE, Plan(cache="decoded_disk")),
    ("lmdb", RECIPE.replace(shuffle=False), Plan(cache="decoded_disk", kernel="opencv")),
]


@pytest.fixture(scope="module")
def stored(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The same pictures, some of them lying on their side, in every format."""
    root = tmp_path_factory.mktemp("export")
    random = np.random.default_rng(0)
    for number in range(30):
        height, width = (int(side) for side in random.integers(30, 90, 2))
        coarse = Image.fromarray(random.integers(0, 256, (6, 6, 3), dtype=np.uint8))
        exif = Image.Exif()
        exif[0x0112] = 1 + number % 8
        content = io.BytesIO()
        coarse.resize((width, height)).save(content, "JPEG", exif=exif)
        split = "val" if number % 5 == 0 else "train"
        path = root / "folder" / split / f"class{number % 3}" / f"{number:02d}.jpg"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.getvalue())
    for name in ("tfrecord", "hdf5", "lmdb"):
        convert(
            root / "folder", root / name, ConversionOptions(to=name, shards=None if name == "lmdb" else 2), workers=1
        )
    raw = ImageOptions(encoding="raw", size=(40, 48))
    convert(root / "folder", root / "raw", ConversionOptions(to="hdf5", image=raw), workers=1)
    convert(root / "folder", root / "rawrecord", ConversionOptions(to="tfrecord", image=raw), workers=1)
    return {path.name: path for path in root.iterdir()}


def exported(path: Path, recipe: Recipe, plan: Plan) -> tuple[str, TunedPipeline]:
    data = dataio.open(path)
    tuned = Tuned.describe(
        data, recipe, plan, images_per_second=1234.0, folder=path.parent, tool_version=dataio.__version__
    )
    pipeline = TunedPipeline(tuned, path.parent / "tuned.json", dataio.open)
    return export_code(pipeline, data, version=dataio.__version__), pipeline


def load(code: str, path: Path) -> ModuleType:
    path.write_text(code)
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # AutoGraph looks modules up there
    spec.loader.exec_module(module)
    return module


def batches(dataset: Any) -> Iterator[tuple[Any, Any]]:
    for image, label in dataset:
        yield image.numpy(), label.numpy()


@pytest.mark.parametrize(("name", "recipe", "plan"), CASES)
def test_the_code_gives_the_batches_of_build_bit_for_bit(
    stored: dict[str, Path], tmp_path: Path, name: str, recipe: Recipe, plan: Plan
) -> None:
    if plan.kernel == "opencv":
        pytest.importorskip("cv2")
        pytest.importorskip("simplejpeg")
    code, pipeline = exported(stored[name], recipe, plan)
    assert "import dataio" not in code
    module = load(code, tmp_path / "owned.py")
    ours, theirs = pipeline.build(split="train"), module.make_dataset("train")
    assert ours.element_spec == theirs.element_spec
    assert ours.cardinality() == theirs.cardinality()
    seen = []
    for _ in range(2):  # a second pass is another epoch
        pairs = list(zip(batches(ours), batches(theirs), strict=True))
        assert pairs
        for (image, label), (owned_image, owned_label) in pairs:
            np.testing.assert_array_equal(owned_image, image)
            np.testing.assert_array_equal(owned_label, label)
        seen.append(pairs[0][0][0])
    if recipe.crop == "random-resized":
        assert not np.array_equal(*seen)
    evaluation = zip(
        batches(pipeline.build(split="val", training=False)),
        batches(module.make_dataset("val", training=False)),
        strict=True,
    )
    for (image, label), (owned_image, owned_label) in evaluation:
        np.testing.assert_array_equal(owned_image, image)
        np.testing.assert_array_equal(owned_label, label)
    for environment in getattr(module, "ENVIRONMENTS", {}).values():
        environment.close()  # LMDB opens a path only once in a process, and the next case does so again


def test_the_code_runs_where_dataio_cannot_be_imported(stored: dict[str, Path], tmp_path: Path) -> None:
    code, _ = exported(stored["hdf5"], RECIPE, Plan())
    (tmp_path / "owned.py").write_text(code)
    forbid = (
        "import sys\n"
        "class Forbid:\n"
        "    def find_spec(self, name, *rest):\n"
        "        if name.split('.')[0] == 'dataio': raise ImportError('dataio was imported')\n"
        "sys.meta_path.insert(0, Forbid())\n"
        "import runpy; runpy.run_path('owned.py', run_name='__main__')\n"
    )
    done = subprocess.run([sys.executable, "-c", forbid], cwd=tmp_path, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert "one batch: float32 (8, 24, 24, 3) int64 (8,)" in done.stdout


def test_a_folder_that_holds_more_than_plain_jpegs_is_refused_with_a_way_out(tmp_path: Path) -> None:
    for number in range(3):
        path = tmp_path / "folder" / "class" / f"{number}.jpg"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.new("RGB", (40, 40), (number, 0, 0)).save(path, "JPEG")
    Image.new("RGB", (40, 40)).save(tmp_path / "folder" / "class" / "really.jpg", "PNG")
    with pytest.raises(PlanError, match="dataio convert"):
        exported(tmp_path / "folder", RECIPE, Plan())


def test_a_recipe_with_a_function_of_the_user_is_refused(stored: dict[str, Path]) -> None:
    with pytest.raises(PlanError, match="module:function"):
        exported(stored["hdf5"], RECIPE.replace(transform="module:function"), Plan())


def test_the_file_of_a_cache_on_disk_goes_when_the_process_ends(stored: dict[str, Path], tmp_path: Path) -> None:
    code, _ = exported(stored["tfrecord"], RECIPE, Plan(cache="disk"))
    (tmp_path / "owned.py").write_text(code)
    (tmp_path / "temporary").mkdir()
    use = "import os, owned; it = iter(owned.make_dataset()); next(it); print(*os.listdir(os.environ['TMPDIR']))"
    env = {**os.environ, "TMPDIR": str(tmp_path / "temporary")}
    done = subprocess.run(
        [sys.executable, "-c", use], cwd=tmp_path, env=env, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
    assert "cache-" in done.stdout
    assert not list((tmp_path / "temporary").glob("cache-*"))
