"""StarvationMonitor: whether the training step waits for its input, seen during training itself."""

from dataio.monitor.callback import StarvationMonitor, StarvationWarning
from dataio.monitor.summary import EpochSummary, MonitorSummary
from dataio.monitor.timing import Timing

__all__ = ["EpochSummary", "MonitorSummary", "StarvationMonitor", "StarvationWarning", "Timing"]
