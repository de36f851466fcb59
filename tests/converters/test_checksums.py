"""CRC-32C: known values, masking as TFRecord does it, and sums of joined pieces."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dataio.converters.checksums import crc32c, extend_crc32c, file_crc32c, join_crc32c, masked_crc32c


@pytest.mark.parametrize(
    ("content", "expected"),
    # Source: RFC 3720, appendix B.4, and the check value of the CRC catalogue.
    [(bytes(32), 0x8A9136AA), (b"\xff" * 32, 0x62A8AB43), (bytes(range(32)), 0x46DD794E), (b"123456789", 0xE3069283)],
)
def test_known_values(content: bytes, expected: int) -> None:
    assert crc32c(content) == expected


def test_masking_is_tensorflow_s(tmp_path: Path) -> None:
    tf = pytest.importorskip("tensorflow")
    with tf.io.TFRecordWriter(str(tmp_path / "file")) as writer:
        writer.write(b"some record")
    content = (tmp_path / "file").read_bytes()
    assert content[-4:] == masked_crc32c(crc32c(b"some record")).to_bytes(4, "little")
    assert content[8:12] == masked_crc32c(crc32c(content[:8])).to_bytes(4, "little")


@settings(deadline=None)
@given(st.binary(max_size=300), st.binary(max_size=3000))
def test_the_sum_of_joined_pieces_follows_from_their_sums(first: bytes, second: bytes) -> None:
    assert join_crc32c(crc32c(first), crc32c(second), len(second)) == crc32c(first + second)
    assert extend_crc32c(crc32c(first), second) == crc32c(first + second)


@pytest.mark.parametrize("size", [0, 1, 3_000_001])
def test_a_file_s_sum_is_that_of_its_bytes(size: int, tmp_path: Path) -> None:
    content = bytes(number * 7 % 251 for number in range(min(size, 1000))) * (size // 1000 + 1)
    (tmp_path / "file").write_bytes(content[:size])
    assert file_crc32c(tmp_path / "file") == (crc32c(content[:size]), size)


def test_a_folder_or_pipe_is_an_error_that_says_so_and_does_not_hang(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path, tmp_path / "pipe"):
        with pytest.raises(OSError, match="is not a file"):
            file_crc32c(path)
