"""What became of a file that was not simply accepted: rejected, or transcoded because of its content."""

from __future__ import annotations

from typing import Literal, get_args

from dataio.records import Record

Reason = Literal[
    "empty",
    "truncated",
    "corrupt",
    "unsupported_jpeg",
    "not_an_image",
    "too_many_pixels",
    "unreadable",
]
"""Why a file was rejected; the set is closed.

- `empty`: no bytes, or nothing but zero bytes.
- `truncated`: the file begins as a picture and ends before the picture does.
- `corrupt`: the bytes break the rules of their own format: no frame, no scan, height 0, a decoder's error.
- `unsupported_jpeg`: a JPEG that training readers cannot decode without loss (12 or 16 bit, lossless,
  arithmetic coding, hierarchical, 2 components); also a picture of another kind where only JPEGs were asked
  for.
- `not_an_image`: text, HTML, an archive …: no picture of any known kind.
- `too_many_pixels`: the header claims more pixels than allowed; nothing was decoded.
- `unreadable`: the file could not be read (permission, broken link, I/O error), or it is a picture of a kind
  for which no decoder is at hand.
"""

REASONS: tuple[Reason, ...] = get_args(Reason)


class Outcome(Record):
    """One line of `outcomes.jsonl`."""

    path: str
    """Path of the file below the source folder, as `names.as_text` writes it."""
    outcome: Literal["rejected", "transcoded"]
    """`rejected`: not stored. `transcoded`: stored as a new JPEG, because of what the file holds."""
    reason: str
    """A `Reason` for rejected files; for transcoded ones what the file holds: `cmyk`, `ycck`, `png`, `gif`
    …"""
