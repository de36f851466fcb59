"""Functions that users name as "package.module:function": steps, transforms and datasets of their own."""

from __future__ import annotations

import sys
import traceback
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
        DataioError: of the kind `error`: malformed, no such module or function, not callable, or the module fails when
            it is imported; the message then says in which line, and the module's own error is the cause.
    """
    module_name, separator, path = spec.partition(":")
    if not separator or not module_name or not path:
        raise error(f"{what} {spec!r}: name a function as package.module:function, such as training.steps:train")
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)
    try:
        found: Any = import_module(module_name)
    except Exception as problem:
        missing = problem.name if isinstance(problem, ModuleNotFoundError) else None
        if missing is not None and (module_name == missing or module_name.startswith(f"{missing}.")):
            raise error(
                f"{what} {spec!r}: there is no module {missing!r}; looked in {here} and among what is installed"
            ) from None
        raise error(
            f"{what} {spec!r}: importing {module_name} failed{_place(problem)}: {type(problem).__name__}: {problem}"
        ) from problem
    for name in path.split("."):
        if not hasattr(found, name):
            known = ", ".join(sorted(one for one in vars(found) if not one.startswith("_"))[:20])
            raise error(f"{what} {spec!r}: {module_name} has no {name!r}; it has {known or 'nothing'}")
        found = getattr(found, name)
    if not callable(found):
        raise error(f"{what} {spec!r} is of type {type(found).__name__}, not a function")
    return found  # type: ignore[no-any-return]


def _place(problem: Exception) -> str:
    """Where the innermost code in a file raised `problem`, as " in FILE, line N"."""
    if isinstance(problem, SyntaxError):
        return ""  # its message names the place of the fault
    frames = [one for one in traceback.extract_tb(problem.__traceback__) if not one.filename.startswith("<frozen")]
    return f" in {frames[-1].filename}, line {frames[-1].lineno}" if len(frames) > 1 else ""
