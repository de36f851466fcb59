"""What a user installs: one package, also beside a foreign `bench` folder, and quick to start."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

import dataio

ROOT = Path(__file__).resolve().parents[1]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel of this checkout, built in a copy so that no build folder is left behind."""
    folder = tmp_path_factory.mktemp("wheel")
    copied = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=False)
    if copied.returncode:
        pytest.skip("needs a git checkout to know which files belong to the project")
    for name in copied.stdout.decode().split("\0"):
        source = ROOT / name
        if name and source.is_file() and not source.is_symlink():
            target = folder / "source" / name
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(source.read_bytes())
    subprocess.run(
        [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", folder / "dist", folder / "source"],
        check=True,
        capture_output=True,
    )
    (built,) = (folder / "dist").glob("*.whl")
    return built


def test_the_wheel_holds_every_module_under_dataio_and_nothing_beside_it(wheel: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()
    assert {name.split("/")[0] for name in names} == {"dataio", f"dataio_tf-{dataio.__version__}.dist-info"}
    expected = {"dataio/py.typed"}
    for package, folder in (("dataio", "dataio"), ("dataio/converters", "converters"), ("dataio/bench", "bench")):
        tracked = subprocess.run(
            ["git", "ls-files", folder], cwd=ROOT, capture_output=True, check=True, text=True
        ).stdout.split()
        for name in tracked:
            if (ROOT / name).is_file() and name.endswith((".py", ".html", ".css", ".jinja")):
                expected.add(f"{package}/{Path(name).relative_to(folder)}")
    assert expected <= set(names)


def test_it_runs_beside_a_foreign_bench_folder(wheel: Path, tmp_path: Path) -> None:
    zipfile.ZipFile(wheel).extractall(tmp_path / "site")
    for name in ("bench", "converters"):
        (tmp_path / "repo" / name).mkdir(parents=True)
        (tmp_path / "repo" / name / "__init__.py").write_text("raise RuntimeError('the wrong package')\n")
    code = "import dataio.bench, dataio.converters, dataio; print(dataio.__file__)"
    done = subprocess.run(
        [sys.executable, "-P", "-c", code],
        cwd=tmp_path / "repo",
        env=os.environ | {"PYTHONPATH": f".{os.pathsep}{tmp_path / 'site'}"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert Path(done.stdout.strip()).is_relative_to(tmp_path / "site")


def test_everything_exported_can_be_imported_and_the_rest_is_named() -> None:
    for name in dataio.__all__:
        assert getattr(dataio, name).__doc__
    with pytest.raises(AttributeError, match="exports Data"):
        dataio.nothing  # noqa: B018


@pytest.mark.parametrize("arguments", [["--help"], ["--version"], ["convert", "--help"], ["bench", "--help"]])
def test_asking_for_help_imports_no_tensorflow(arguments: list[str]) -> None:
    code = (
        "import sys\nfrom dataio.cli import main\nsys.argv = ['dataio', *sys.argv[1:]]\n"
        "try:\n    main()\nexcept SystemExit as leave:\n    assert not leave.code, leave.code\n"
        "heavy = {'tensorflow', 'matplotlib', 'keras', 'h5py', 'PIL'} & set(sys.modules)\nassert not heavy, heavy\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, *arguments],
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout
