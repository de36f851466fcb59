"""File names are bytes from end to end; here is how they are shown in text and in messages."""

from __future__ import annotations


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
    return "".join(
        letter if letter.isprintable() else letter.encode("unicode_escape").decode() for letter in as_text(path)
    )
