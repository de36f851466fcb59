"""The base of every record that goes to and from JSON: frozen, validated, unknown keys refused."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import Any, ClassVar, Self

from pydantic import BaseModel, ConfigDict, ValidationError

from dataio.errors import DataioError, RecordError


class Record(BaseModel):
    """A frozen, validated value. Subclasses set `error` to the exception that bad values raise.

    Raises:
        RecordError: (or the subclass's `error`) when a field is unknown, missing or out of range.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", validate_default=True)
    error: ClassVar[type[DataioError]] = RecordError

    def __init__(self, **values: Any) -> None:
        try:
            super().__init__(**values)
        except ValidationError as problem:
            raise self.error(_describe(type(self).__name__, problem)) from None

    def to_json(self) -> str:
        """This record as indented JSON text with a newline at the end; `from_json` is its inverse."""
        return self.model_dump_json(indent=2) + "\n"

    @classmethod
    def from_json(cls, text: str | bytes, *, origin: str = "JSON text") -> Self:
        """The record that `text` describes.

        Args:
            text: JSON as `to_json` writes it.
            origin: what to call the text in an error message, usually the file's path.

        Raises:
            RecordError: or the subclass's `error`; names `origin`, the fields at fault and what they take.
        """
        try:
            return cls.model_validate_json(text)
        except ValidationError as problem:
            raise cls.error(f"{origin}: {_describe(cls.__name__, problem)}") from None

    def save(self, path: str | Path) -> None:
        """Writes the record to `path`, whole or not at all (written beside it, then renamed)."""
        write_whole(Path(path), self.to_json().encode())

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """The record that the file `path` holds; errors as `from_json`, and FileNotFoundError."""
        return cls.from_json(Path(path).read_bytes(), origin=str(path))

    def replace(self, **changes: Any) -> Self:
        """A copy with some fields changed, validated again."""
        return type(self)(**{name: getattr(self, name) for name in type(self).model_fields} | changes)


def write_whole(path: Path, content: bytes) -> None:
    """Writes `content` to `path` so that a reader sees the old file or the whole new one, never a part."""
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor, partial = tempfile.mkstemp(prefix=f".{path.name}.", suffix=".partial", dir=path.parent)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        # mkstemp makes files private; a result file gets the mode that open() would have given it.
        Path(partial).chmod(0o666 & ~_umask())
        Path(partial).replace(path)
    except BaseException:
        Path(partial).unlink(missing_ok=True)
        raise


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def _describe(name: str, problem: ValidationError) -> str:
    lines = []
    for error in problem.errors():
        where = ".".join(str(part) for part in error["loc"]) or "value"
        found = "" if error["type"] == "missing" else f" (found {error['input']!r:.200})"
        lines.append(f"{where}: {error['msg']}{found}")
    return f"invalid {name}: " + "; ".join(lines)
