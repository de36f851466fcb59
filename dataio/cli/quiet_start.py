"""Imports TensorFlow without its well-known start-up lines, and with every other line it says.

TensorFlow's native code writes to file descriptor 2 before any logger can be configured. Setting
TF_CPP_MIN_LOG_LEVEL=3 would hide real errors as well, so the command line catches what is written during the
import and the first look at the devices, drops exactly the lines known to say nothing, and replays the rest.
`import dataio` never does this: a library leaves its host's stderr alone.
"""

from __future__ import annotations

import os
import re
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

#: What TensorFlow 2.21 writes on every start, whatever the machine. Source: observed on the wheels of 2.21.0.
_ALWAYS = (
    r"All log messages before absl::InitializeLog\(\) is called are written to STDERR",
    r"oneDNN custom operations are on\.",
    r"This TensorFlow binary is optimized to use available CPU instructions",
    r"^To enable the following instructions: .*rebuild TensorFlow with the appropriate compiler flags",
    r"oneDNN supports DT_UINT8 only on platforms with AVX-512\. Falling back",
    r"The default buffer size is \d+, which is overridden by the user specified `buffer_size`",
    r"Created device /job:localhost/replica:0/task:0/device:GPU:\d+ with \d+ MB memory",
)
#: What it writes where there is no NVIDIA driver; on a machine that has one, these are real errors and stay.
_WITHOUT_GPU = (
    r"Could not find cuda drivers on your machine, GPU will not be used",
    r"failed call to cuInit",
    r"CUDA_ERROR_NO_DEVICE",
)


def import_tensorflow() -> None:
    """Imports TensorFlow and lets it look for devices, hiding only its known start-up lines.

    Does nothing to stderr where TensorFlow is imported already.
    """
    if "tensorflow" in sys.modules:
        return
    with _hold_back_stderr() as held:
        import tensorflow as tf

        tf.config.list_physical_devices()
        # Two lines come once, with the first use of an op: better here than in the middle of a table.
        tf.transpose(tf.zeros([2, 2, 3], tf.uint8), [1, 0, 2])
        with tempfile.NamedTemporaryFile() as empty:
            list(tf.data.TFRecordDataset(empty.name, buffer_size=1 << 20))
    replay(held.decode(errors="replace"), sys.stderr)


def replay(text: str, stream: IO[str], *, has_gpu: bool | None = None) -> None:
    """Writes to `stream` the lines of `text` that are not known start-up lines."""
    if has_gpu is None:
        has_gpu = Path("/dev/nvidiactl").exists()
    known = re.compile("|".join(_ALWAYS if has_gpu else _ALWAYS + _WITHOUT_GPU))
    for line in text.splitlines(keepends=True):
        if not known.search(line):
            stream.write(line)
    stream.flush()


@contextmanager
def _hold_back_stderr() -> Iterator[bytearray]:
    """Collects what is written to file descriptor 2; complete once the block has ended, also by an exception.

    If the process is killed inside the block, what was written is lost with it.
    """
    held = bytearray()
    sys.stderr.flush()
    with tempfile.TemporaryFile() as file:
        original = os.dup(2)
        try:
            os.dup2(file.fileno(), 2)
            try:
                yield held
            finally:
                sys.stderr.flush()
                os.dup2(original, 2)
        except BaseException:
            file.seek(0)
            replay(file.read().decode(errors="replace"), sys.stderr)
            raise
        finally:
            os.close(original)
        file.seek(0)
        held += file.read()
