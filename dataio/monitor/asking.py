"""Who asks a watched dataset for an iterator: Keras, for one of its own loops, or a loop of the user's.

Keras's TensorFlow trainer needs TensorFlow's own iterator: it runs anything else without compiling it and fails at the
end of data whose length it does not know. What it gets is also no loop to time. Nothing but the call stack tells,
because Keras asks with a plain `iter(dataset)`.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from types import FrameType

_KERAS = ("keras", "tf_keras")

#: Methods of a model that iterate over a dataset.
_METHODS = frozenset({"fit", "evaluate", "predict"})


def keras_method(asker: FrameType | None) -> str | None:
    """The method of Keras's for which `asker` acts, such as "fit", or "" for another part of it.

    Args:
        asker: the frame that called `iter(dataset)`.

    Returns:
        None where it is not code of Keras's.
    """
    if asker is None or not _is_keras(asker):
        return None
    return next((name for name in _methods(asker)), "")


def fit_runs() -> bool:
    """Whether this thread is inside of a `fit`, as a callback of the user's is."""
    return "fit" in _methods(sys._getframe(1))


def _methods(frame: FrameType | None) -> Iterator[str]:
    """Methods of Keras models on the stack, innermost first."""
    while frame is not None:
        if frame.f_code.co_name in _METHODS and _is_keras(frame):
            yield frame.f_code.co_name
        frame = frame.f_back


def _is_keras(frame: FrameType) -> bool:
    return str(frame.f_globals.get("__name__", "")).partition(".")[0] in _KERAS
