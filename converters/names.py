"""File names are bytes from end to end; here is how they are shown in text and in messages."""

from __future__ import annotations

import os
from pathlib import Path


def as_text(path: bytes) -> str:
    """`path` as text that every JSON writer takes.

    UTF-8 names come out as they are. In a name that is not UTF-8, the bytes at fault become `\\xff` and a
    backslash becomes two, so that the bytes can be told from the text.
    """
    try:
        return path.decode()
    except UnicodeDecodeError:
        return path.replace(b"\\", b"\\\\").decode(errors="backslashreplace")


def printable(path: bytes) -> str:
    """`path` for a message on one line: as `as_text`, with control characters (newline, escape …) written
    out."""
    return one_line(as_text(path))


def one_line(text: str | Path) -> str:
    """`text` for a terminal, on one line: control characters (newline, escape …) and lone surrogates written out.

    Names of classes and files come from folders that anybody may have made; what a terminal takes as a command must
    not reach it.
    """
    if isinstance(text, Path):
        return printable(os.fsencode(text))
    return "".join(letter if letter.isprintable() else letter.encode("unicode_escape").decode() for letter in text)
