"""The record as tf.train.Example: the same as TensorFlow's own, and strict about what it reads."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dataio.converters.formats.example import (
    StoredRecord,
    example_crc32c,
    example_prefix,
    parse_example,
    parse_record,
    varint,
)
from dataio.errors import DataDamaged

records = st.builds(
    StoredRecord,
    image=st.binary(max_size=400),
    label=st.integers(0, 2**31),
    path=st.binary(max_size=300),
    index=st.integers(0, 2**62),
    orientation=st.integers(1, 8),
    height=st.integers(0, 70_000),
    width=st.integers(0, 70_000),
)


@settings(deadline=None)
@given(records)
def test_tensorflow_reads_what_we_write_and_we_read_what_it_writes(record: StoredRecord) -> None:
    tf = pytest.importorskip("tensorflow")
    content = example_prefix(record) + record.image
    theirs = tf.train.Example.FromString(content)
    features = theirs.features.feature
    assert features["image"].bytes_list.value[0] == record.image
    assert features["image/filename"].bytes_list.value[0] == record.path
    for name in ("label", "index", "orientation", "height", "width"):
        assert features[name].int64_list.value[0] == getattr(record, name)
    assert parse_record(content) == record
    assert parse_record(theirs.SerializeToString()) == record


@settings(deadline=None)
@given(st.binary(max_size=200))
def test_any_bytes_are_an_example_or_an_error_of_ours(content: bytes) -> None:
    try:
        parse_example(content)
    except DataDamaged as problem:
        assert "not a tf.train.Example" in str(problem)


@settings(deadline=None)
@given(records, st.data())
def test_a_record_cut_anywhere_is_an_error(record: StoredRecord, data: st.DataObject) -> None:
    content = example_prefix(record) + record.image
    cut = data.draw(st.integers(0, len(content) - 1))
    with pytest.raises(DataDamaged):
        parse_record(content[:cut])


def test_lists_floats_and_negative_numbers_of_other_writers_are_read() -> None:
    tf = pytest.importorskip("tensorflow")
    features = {
        "box": tf.train.Feature(float_list=tf.train.FloatList(value=[0.5, 1.5])),
        "ids": tf.train.Feature(int64_list=tf.train.Int64List(value=[-1, 300])),
        "names": tf.train.Feature(bytes_list=tf.train.BytesList(value=[b"a", b"b"])),
    }
    content = tf.train.Example(features=tf.train.Features(feature=features)).SerializeToString()
    assert parse_example(content) == {"box": [0.5, 1.5], "ids": [-1, 300], "names": [b"a", b"b"]}


def test_small_numbers_are_one_byte() -> None:
    assert [varint(number) for number in (0, 127, 128, 300)] == [b"\x00", b"\x7f", b"\x80\x01", b"\xac\x02"]


@settings(deadline=None)
@given(st.integers(0, 2**63 - 1))
def test_a_varint_holds_seven_bits_a_byte_and_marks_the_last(number: int) -> None:
    content = varint(number)
    assert sum((byte & 0x7F) << 7 * position for position, byte in enumerate(content)) == number
    assert [byte >> 7 for byte in content] == [1] * (len(content) - 1) + [0]
    assert len(content) == max(1, -(-number.bit_length() // 7))


def test_the_sum_is_that_of_the_whole_example() -> None:
    from dataio.converters.checksums import crc32c

    record = StoredRecord(b"picture", 3, b"a/b.jpg", 7, 1, 4, 5)
    assert example_crc32c(record) == crc32c(example_prefix(record) + record.image)
