"""Functions that users name as "package.module:function": steps, transforms and datasets of their own."""

from __future__ import annotations

import sys
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

from dataio.errors import DataioError


def load_function(spec: str, *, what: str, error: type[DataioError]) -> Callable[..., Any]:
    """The function that `spec` names. Modules beside the working directory are found, as `python -m` finds them.

    Args:
        spec: "package.module:function"; the function may be an attribute of a class ("module:Class.method").
        what: what messages call it, such as "dataset".
        error: raised when it cannot be had.

    Raises:
        DataioError: of the kind `error`: malformed, no such module or function, or not callable. An error raised by
            the module itself is not hidden.
    """
    module_name, separator, path = spec.partition(":")
    if not separator or not module_name or not path:
        raise error(f"{what} {spec!r}: name a function as package.module:function")
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)
    try:
        found: Any = import_module(module_name)
    except ModuleNotFoundError as problem:
        if problem.name is None or not (module_name == problem.name or module_name.startswith(f"{problem.name}.")):
            raise  # the module was found, and something that it imports is missing
        raise error(f"{what} {spec!r}: there is no module {module_name!r} here or among what is installed") from None
    for name in path.split("."):
        if not hasattr(found, name):
            known = ", ".join(sorted(one for one in vars(found) if not one.startswith("_"))[:20])
            raise error(f"{what} {spec!r}: {module_name} has no {name!r}; it has {known or 'nothing'}")
        found = getattr(found, name)
    if not callable(found):
        raise error(f"{what} {spec!r} is a {type(found).__name__}, not a function")
    return found  # type: ignore[no-any-return]
