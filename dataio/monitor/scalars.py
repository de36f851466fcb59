"""A monitor's figures as TensorBoard scalars; TensorBoard itself need not be installed to write them."""

from __future__ import annotations

from pathlib import Path

import tensorflow as tf

from dataio.monitor.summary import EpochSummary


class ScalarWriter:
    """Writes `dataio/stall`, `dataio/wait_ms` and `dataio/images_per_second` once an epoch."""

    def __init__(self, folder: Path) -> None:
        self._writer = tf.summary.create_file_writer(str(folder))
        # What makes a tensor a scalar to TensorBoard. Source: tensorboard/plugins/scalar/metadata.py: plugin name
        # "scalars", data class scalar, and a version 0 whose encoding is empty.
        self._metadata = tf.compat.v1.SummaryMetadata(data_class="DATA_CLASS_SCALAR")
        self._metadata.plugin_data.plugin_name = "scalars"

    def write(self, epoch: EpochSummary) -> None:
        """Writes the figures that `epoch` has, at its number, as Keras writes its own scalars of epochs."""
        figures = {
            "dataio/stall": epoch.stall.value if epoch.stall is not None else None,
            "dataio/wait_ms": epoch.wait_ms,
            "dataio/images_per_second": epoch.images_per_second,
        }
        with self._writer.as_default():
            for tag, figure in figures.items():
                if figure is not None:
                    value = tf.constant(figure, tf.float32)
                    tf.summary.write(tag, value, step=epoch.epoch, metadata=self._metadata)
        self._writer.flush()
