"""A sweep: plan fields with their values, every combination measured."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from itertools import product

from dataio.errors import PlanError
from dataio.plan import Plan

Value = int | str | bool
Sweep = Mapping[str, tuple[Value, ...]]

#: Fields that say nothing about how a pipeline runs.
_NOT_SWEPT = {"schema_version"}


def parse_sweep(texts: Sequence[str]) -> dict[str, tuple[Value, ...]]:
    """The sweep that `--sweep num_parallel_calls=1,2,4 --sweep cache=none,memory` asks for.

    Args:
        texts: one `field=value,value…` a field.

    Raises:
        PlanError: no such field, a value that the field does not take, a field or a value given twice.
    """
    sweep: dict[str, tuple[Value, ...]] = {}
    fields = [name for name in Plan.model_fields if name not in _NOT_SWEPT]
    for text in texts:
        name, equals, listed = text.partition("=")
        name = name.strip()
        if not equals or not listed.strip():
            raise PlanError(f"--sweep {text!r}: takes a plan field and its values, such as prefetch=0,2,auto")
        if name not in fields:
            raise PlanError(f"--sweep {text!r}: a plan has no field {name!r}; it has: {', '.join(fields)}")
        if name in sweep:
            raise PlanError(f"--sweep {text!r}: {name} is given twice; list all its values in one")
        values = tuple(_value(word.strip()) for word in listed.split(","))
        if len(set(map(repr, values))) < len(values):
            raise PlanError(f"--sweep {text!r}: a value is given twice")
        for value in values:
            Plan(**{name: value})  # raises PlanError, which names the field and what it takes
        sweep[name] = values
    return sweep


def grid_plans(sweep: Sweep, *, base: Plan | None = None) -> dict[str, Plan]:
    """Every plan of a sweep by its name, such as `num_parallel_calls=2, prefetch=auto`, in the order of the values.

    Args:
        sweep: from `parse_sweep`.
        base: plan that gives the fields that are not swept; AUTOTUNE's by default.
    """
    base = base or Plan()
    plans = {}
    for values in product(*sweep.values()):
        chosen = dict(zip(sweep, values, strict=True))
        name = ", ".join(f"{field}={json.dumps(value).strip(chr(34))}" for field, value in chosen.items())
        plans[name] = base.replace(**chosen)
    return plans


def _value(word: str) -> Value:
    if word.lower() in ("true", "false"):
        return word.lower() == "true"
    try:
        return int(word)
    except ValueError:
        return word
