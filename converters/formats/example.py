"""The record as a tf.train.Example, written and read without TensorFlow.

TFRecord and LMDB hold the same bytes: small features first, in one fixed order, the picture last, so that a record
is a short prefix followed by the file's own bytes and the same record is always the same bytes. A protobuf library
would neither promise an order of map entries nor spare copying the picture.

Source: tensorflow/core/example/example.proto and feature.proto; protobuf.dev, "Encoding".
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from dataio.converters.checksums import crc32c, extend_crc32c
from dataio.errors import DataDamaged

#: Names of the features. `image`, `label` and `image/filename` are those of TFDS's ImageFolder; the rest are ours.
IMAGE, LABEL, FILENAME = "image", "label", "image/filename"
INDEX, ORIENTATION, HEIGHT, WIDTH = "index", "orientation", "height", "width"

#: Value of an Example's feature: its single bytes or integer, or all of them where there is not exactly one.
Value = bytes | int | list[bytes] | list[int] | list[float]


@dataclass(frozen=True, slots=True)
class StoredRecord:
    """What is stored of one picture, the same in every format."""

    image: bytes
    """The encoded file, or height * width * 3 bytes of RGB pixels where the encoding is raw."""
    label: int
    """Position in the class names, from 0."""
    path: bytes
    """Path below the source folder, '/' separated, as the file system has it."""
    index: int
    """Rank of the file among all candidates of its split in bytewise path order, never a position."""
    orientation: int
    """EXIF orientation 1..8; 1 is upright."""
    height: int
    """Pixels, as stored, before orientation."""
    width: int
    """Pixels, as stored, before orientation."""


def example_prefix(record: StoredRecord) -> bytes:
    """Everything of the record's Example that comes before the picture's bytes; prefix + image is the Example."""
    image_bytes = len(record.image)
    value = b"\x0a" + varint(image_bytes)  # BytesList.value
    bytes_list = b"\x0a" + varint(len(value) + image_bytes) + value  # Feature.bytes_list
    feature = b"\x0a\x05image\x12" + varint(len(bytes_list) + image_bytes) + bytes_list
    image = b"\x0a" + varint(len(feature) + image_bytes) + feature  # Features.feature
    small = b"".join(
        (
            _integer_entry(LABEL, record.label),
            _bytes_entry(FILENAME, record.path),
            _integer_entry(INDEX, record.index),
            _integer_entry(ORIENTATION, record.orientation),
            _integer_entry(HEIGHT, record.height),
            _integer_entry(WIDTH, record.width),
            image,
        )
    )
    return b"\x0a" + varint(len(small) + image_bytes) + small  # Example.features


def example_crc32c(record: StoredRecord) -> int:
    """CRC-32C of the record's Example."""
    return extend_crc32c(crc32c(example_prefix(record)), record.image)


def varint(number: int) -> bytes:
    """A non-negative integer as a protobuf varint: 7 bits a byte, lowest first."""
    if number < 0x80:
        return _ONE_BYTE[number]
    # Lengths of pictures take two or three bytes, several times a record: worth not looping.
    if number < 1 << 14:
        return bytes((number & 0x7F | 0x80, number >> 7))
    if number < 1 << 21:
        return bytes((number & 0x7F | 0x80, number >> 7 & 0x7F | 0x80, number >> 14))
    parts = bytearray()
    while number > 0x7F:
        parts.append(number & 0x7F | 0x80)
        number >>= 7
    parts.append(number)
    return bytes(parts)


_ONE_BYTE = tuple(bytes((number,)) for number in range(0x80))


@lru_cache(maxsize=8192)  # heights, widths, labels and orientations repeat
def _integer_entry(name: str, number: int) -> bytes:
    value = varint(number)
    packed = b"\x0a" + varint(len(value)) + value  # Int64List.value, packed
    return _entry(name.encode(), b"\x1a" + varint(len(packed)) + packed)  # Feature.int64_list


def _bytes_entry(name: str, content: bytes) -> bytes:
    value = b"\x0a" + varint(len(content)) + content
    return _entry(name.encode(), b"\x0a" + varint(len(value)) + value)


def _entry(name: bytes, feature: bytes) -> bytes:
    body = b"\x0a" + varint(len(name)) + name + b"\x12" + varint(len(feature)) + feature
    return b"\x0a" + varint(len(body)) + body


def parse_example(content: bytes | memoryview) -> dict[str, Value]:
    """The features of any serialised tf.train.Example.

    Raises:
        DataDamaged: the bytes are no Example.
    """
    view = memoryview(content)
    found: dict[str, Value] = {}
    try:
        for number, features in _fields(view):
            if number != 1:
                continue
            for inner, entry in _fields(_message(features)):
                if inner == 1:
                    name, value = _parse_entry(_message(entry))
                    found[name] = value
    except (ValueError, IndexError) as problem:
        raise DataDamaged(f"not a tf.train.Example: {problem}") from None
    return found


def parse_record(content: bytes | memoryview) -> StoredRecord:
    """The record that one of our Examples holds.

    Raises:
        DataDamaged: the bytes are no Example, or it lacks one of the record's features.
    """
    found = parse_example(content)
    image, path = found.get(IMAGE), found.get(FILENAME)
    numbers = [found.get(name) for name in (LABEL, INDEX, ORIENTATION, HEIGHT, WIDTH)]
    if not isinstance(image, bytes) or not isinstance(path, bytes):
        raise DataDamaged(
            f"an Example without {IMAGE!r} and {FILENAME!r}; it has: {', '.join(sorted(found)) or 'nothing'}"
        )
    label, index, orientation, height, width = numbers
    if not (
        isinstance(label, int)
        and isinstance(index, int)
        and isinstance(orientation, int)
        and isinstance(height, int)
        and isinstance(width, int)
    ):
        raise DataDamaged(f"an Example whose numbers are not all there; it has: {', '.join(sorted(found))}")
    return StoredRecord(image, label, path, index, orientation, height, width)


def _parse_entry(entry: memoryview) -> tuple[str, Value]:
    name, value = "", None
    for number, content in _fields(entry):
        if number == 1:
            name = bytes(_message(content)).decode("utf-8")
        elif number == 2:
            value = _parse_feature(_message(content))
    return name, [] if value is None else value


def _parse_feature(feature: memoryview) -> Value:
    for number, content in _fields(feature):
        items = _message(content)
        if number == 1:
            strings = [bytes(_message(value)) for inner, value in _fields(items) if inner == 1]
            return strings[0] if len(strings) == 1 else strings
        if number == 2:
            return [float(value) for value in _floats(items)]
        if number == 3:
            integers: list[int] = []
            for inner, value in _fields(items):
                if inner != 1:
                    continue
                if isinstance(value, int):
                    integers.append(_signed(value))
                    continue
                position = 0
                while position < len(value):
                    integer, position = _read_varint(value, position)
                    integers.append(_signed(integer))
            return integers[0] if len(integers) == 1 else integers
    return []


def _floats(items: memoryview) -> list[float]:
    import struct

    values: list[float] = []
    for inner, value in _fields(items):
        if inner == 1:
            raw = struct.pack("<I", value) if isinstance(value, int) else bytes(value)
            values.extend(struct.unpack(f"<{len(raw) // 4}f", raw[: len(raw) // 4 * 4]))
    return values


def _fields(message: memoryview) -> list[tuple[int, int | memoryview]]:
    """(field number, value) of each field: an integer, or the bytes of a length-delimited one."""
    fields: list[tuple[int, int | memoryview]] = []
    position, end = 0, len(message)
    while position < end:
        tag, position = _read_varint(message, position)
        kind = tag & 7
        value: int | memoryview
        if kind == 0:
            value, position = _read_varint(message, position)
        elif kind == 2:
            size, position = _read_varint(message, position)
            if size > end - position:
                raise ValueError(f"a field of {size} bytes where {end - position} are left")
            value = message[position : position + size]
            position += size
        elif kind in (1, 5):
            size = 8 if kind == 1 else 4
            if size > end - position:
                raise ValueError("a number that is cut off")
            value = int.from_bytes(message[position : position + size], "little")
            position += size
        else:
            raise ValueError(f"wire type {kind}")
        fields.append((tag >> 3, value))
    return fields


def _message(value: int | memoryview) -> memoryview:
    if isinstance(value, int):
        raise ValueError("a number where a message belongs")
    return value


def _read_varint(content: memoryview, position: int) -> tuple[int, int]:
    number = shift = 0
    while True:
        byte = content[position]
        position += 1
        number |= (byte & 0x7F) << shift
        if byte < 0x80:
            return number, position
        shift += 7
        if shift > 63:
            raise ValueError("a varint of more than ten bytes")


def _signed(number: int) -> int:
    return number - (1 << 64) if number >= 1 << 63 else number
