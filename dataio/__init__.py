"""Feed GPUs from JPEGs: convert folders, build tf.data pipelines, measure whether the GPU starves, and say why.

The front door is lazy: importing `dataio` imports neither TensorFlow nor any format.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dataio._front import load_tuned, open
    from dataio.data import Data
    from dataio.device import device_preprocessing
    from dataio.errors import DataioError
    from dataio.monitor import StarvationMonitor
    from dataio.pipeline import build
    from dataio.plan import Plan
    from dataio.recipe import Recipe

__version__ = "0.1.0"

__all__ = [
    "Data",
    "DataioError",
    "Plan",
    "Recipe",
    "StarvationMonitor",
    "build",
    "device_preprocessing",
    "load_tuned",
    "open",
]

_HOMES = {
    "Data": "dataio.data",
    "DataioError": "dataio.errors",
    "Plan": "dataio.plan",
    "Recipe": "dataio.recipe",
    "StarvationMonitor": "dataio.monitor",
    "build": "dataio.pipeline",
    "device_preprocessing": "dataio.device",
    "load_tuned": "dataio._front",
    "open": "dataio._front",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'dataio' has no attribute {name!r}; it exports {', '.join(__all__)}")
    from importlib import import_module

    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
