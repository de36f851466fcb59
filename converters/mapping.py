"""Files mapped into memory without a descriptor that stays open.

Python's `mmap`, and with it `numpy.memmap`, keeps a copy of the descriptor for as long as the map lives (until Python
3.13, where it can be told not to). A dataset of a thousand shards has a thousand ledgers: more than a process may
usually have open.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import weakref

import numpy as np
import numpy.typing as npt

_LIBC = ctypes.CDLL(None, use_errno=True)
_LIBC.mmap.restype = ctypes.c_void_p
_LIBC.mmap.argtypes = (
    ctypes.c_void_p,
    ctypes.c_size_t,
    ctypes.c_int,
    ctypes.c_int,
    ctypes.c_int,
    ctypes.c_long,  # off_t, where addresses and files have 64 bits
)
_LIBC.munmap.argtypes = (ctypes.c_void_p, ctypes.c_size_t)

#: What `mmap` returns when it fails: (void *) -1.
_FAILED = ctypes.c_void_p(-1).value


def map_file(descriptor: int, size: int) -> npt.NDArray[np.uint8]:
    """The first `size` bytes of an open file, uint8[size], read-only; unmapped when the last array on them is gone.

    Raises:
        OSError: it cannot be mapped.
    """
    if size == 0:
        return np.empty(0, np.uint8)
    address = _LIBC.mmap(None, size, mmap.PROT_READ, mmap.MAP_SHARED, descriptor, 0)
    if address is None or address == _FAILED:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    memory = (ctypes.c_uint8 * size).from_address(address)
    # Not at exit: arrays may outlive this module, and the process takes its maps with it.
    weakref.finalize(memory, _LIBC.munmap, address, size).atexit = False
    array: npt.NDArray[np.uint8] = np.ctypeslib.as_array(memory)
    array.flags.writeable = False
    return array
