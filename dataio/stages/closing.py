"""Lets a process end while iterators over Python functions are still alive.

A pipeline with a `numpy_function` that is still producing when the interpreter shuts down hangs or aborts: its
threads want the interpreter's lock and never get it. Training code that keeps an iterator (`repeat` with
`steps_per_epoch`) ends like that, so `build` registers a hook that drops every live iterator first.
"""

from __future__ import annotations

import atexit
import functools
import gc


@functools.cache
def close_iterators_at_exit() -> None:
    """Registers the hook, once a process."""
    atexit.register(drop_iterators)


def drop_iterators() -> None:
    """Cancels every live iterator of the process and waits for its threads."""
    from tensorflow.python.data.ops.iterator_ops import OwnedIterator

    for candidate in gc.get_objects():
        # type() instead of isinstance(): the latter wakes lazy proxies of other libraries.
        if type(candidate) is OwnedIterator:
            # The handle is reference-counted: without it TensorFlow cancels the iterator and joins its threads.
            candidate._iterator_resource = None
    gc.collect()
