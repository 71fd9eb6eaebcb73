"""Numpy views of the buffers of Arrow arrays, without copies. Slices are respected."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray


def present(array: pa.Array) -> NDArray[np.bool_]:
    """Which values are not null."""
    found: NDArray[np.bool_] = array.is_valid().to_numpy(zero_copy_only=False)
    return found


def integers(array: pa.Array) -> NDArray[Any]:
    """The numbers of an int64, int32 or timestamp array; undefined where it is null."""
    width = array.type.bit_width // 8
    return np.frombuffer(array.buffers()[1], f"<i{width}", len(array), array.offset * width)


def offsets(array: pa.Array) -> NDArray[np.int32]:
    """The start of each value of a binary, string, list or map array, and the end of the last."""
    if not len(array):
        return np.zeros(1, np.int32)  # Arrow omits the buffer
    return np.frombuffer(array.buffers()[1], np.int32, len(array) + 1, array.offset * 4)


def octets(array: pa.Array) -> NDArray[np.uint8]:
    """The bytes of a binary or string array, which :func:`offsets` index."""
    return np.frombuffer(array.buffers()[2] or b"", np.uint8)
