"""The layers hold: who imports whom is read from the source."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
FOLDERS = {
    "dataio": ROOT / "dataio",
    "dataio.converters": ROOT / "converters",
    "dataio.bench": ROOT / "bench",
}

#: Ground-floor modules: nouns and pure figures, importable without TensorFlow.
NOUNS = {
    "dataio.errors",
    "dataio.records",
    "dataio.recipe",
    "dataio.plan",
    "dataio.data",
    "dataio.jpeg",
    "dataio.jpeg_tables",
    "dataio.loading",
    "dataio.stall",
    "dataio.machine",
}
FRONT = {"dataio", "dataio._front"}


def modules() -> dict[str, Path]:
    found = {}
    for package, folder in FOLDERS.items():
        for path in sorted(folder.rglob("*.py")):
            if path.is_relative_to(folder / "converters") or path.is_relative_to(folder / "bench"):
                continue  # reached through the link; counted under its own name
            parts = path.relative_to(folder).with_suffix("").parts
            name = ".".join([package, *(part for part in parts if part != "__init__")])
            found[name] = path
    return found


MODULES = modules()


def imports(path: Path) -> set[str]:
    """Every `dataio…` module that the file imports, anywhere in it, typing-only imports included."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        names = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            assert node.level == 0, f"{path}: relative imports hide the layer"
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        for name in names:
            while name and name not in MODULES:
                name = name.rpartition(".")[0]
            if name:
                found.add(name)
    return found


def layer(name: str) -> str:
    if name in NOUNS:
        return "nouns"
    if name in FRONT:
        return "front"
    for prefix, title in (
        ("dataio.cli", "cli"),
        ("dataio.__main__", "cli"),
        ("dataio.stages", "stages"),
        ("dataio.converters.formats", "formats"),
        ("dataio.converters", "converters"),
        ("dataio.bench", "bench"),
    ):
        if name == prefix or name.startswith(prefix + "."):
            return title
    return "pipeline"


ALLOWED = {
    "nouns": {"nouns"},
    "formats": {"nouns", "formats", "converters"},
    "converters": {"nouns", "formats", "converters"},
    "stages": {"nouns", "stages"},
    "pipeline": {"nouns", "stages", "pipeline"},
    "bench": {"nouns", "stages", "pipeline", "bench"},
    "front": {"nouns", "stages", "pipeline", "converters", "formats", "front"},
    "cli": {"nouns", "stages", "pipeline", "bench", "converters", "formats", "front", "cli"},
}


@pytest.mark.parametrize("name", sorted(MODULES))
def test_a_module_imports_only_from_its_own_layer_and_those_below(name: str) -> None:
    for target in imports(MODULES[name]):
        if target == "dataio" and layer(name) in {"converters", "formats", "bench", "pipeline"}:
            continue  # `from dataio import __version__`
        assert layer(target) in ALLOWED[layer(name)], f"{name} imports {target}"


def test_a_format_never_imports_another_format() -> None:
    formats = {name for name in MODULES if name.startswith("dataio.converters.formats.")}
    shared = {"dataio.converters.formats.example"}  # the record that TFRecord and LMDB both hold
    for name in formats:
        others = imports(MODULES[name]) & formats - {name} - shared
        assert not others, f"{name} imports {others}"
