"""Plans that every bench run measures, so that what tuning gains is told against what anyone would have written."""

from __future__ import annotations

from dataio.data import Data
from dataio.machine import usable_cores
from dataio.plan import Plan
from dataio.recipe import Recipe


def baseline_plans(data: Data, recipe: Recipe, *, cores: int | None = None) -> dict[str, Plan]:
    """The plans to beat, by name.

    - `naive`: one picture after the other, nothing prepared while the step works.
    - `cores`: as many calls and readers as cores, two batches ready. Source: Kuchnik et al. 2022, "Plumber: diagnosing
      and removing performance bottlenecks in machine learning data pipelines" (MLSys), where this simple rule ties or
      beats AUTOTUNE in every trial.
    - `autotune`: the pipeline of TensorFlow's performance guide, everything left to AUTOTUNE.
    - `stage_based`: the same with AUTOTUNE's other algorithm.
    - `autotune_fused`: AUTOTUNE with decoding and cropping in one op, so that what a kernel gains is not sold as
      tuning; only where the data are JPEGs and the recipe allows it.

    Args:
        data: decides whether fusing is possible.
        recipe: decides whether fusing is allowed.
        cores: cores that the process may use; found out when None.
    """
    cores = usable_cores() if cores is None else cores
    plans = {
        "naive": Plan(num_parallel_calls=1, cycle_length=1, prefetch=0, autotune=False),
        "cores": Plan(num_parallel_calls=cores, cycle_length=cores, prefetch=2),
        "autotune": Plan(),
        "stage_based": Plan(autotune_algorithm="stage_based"),
    }
    if data.encoding == "jpeg" and recipe.fidelity == "close":
        plans["autotune_fused"] = Plan(fused_decode_and_crop=True)
    return plans
