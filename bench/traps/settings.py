"""Traps of options: settings that keep the pipeline small."""

from __future__ import annotations

from collections.abc import Iterator

from dataio.bench.traps.graph import Pipeline
from dataio.bench.traps.trap import Surroundings, Trap, say_bytes

#: AUTOTUNE's memory budget below which its buffers stay tiny.
_SMALL_BUDGET = 64 * 2**20


def find(pipeline: Pipeline, surroundings: Surroundings) -> Iterator[Trap]:
    """Finds autotuning switched off under AUTOTUNE values, thread pools smaller than the machine, and small budgets."""
    options = pipeline.options
    if options.get("autotune.enabled") is False:
        automatic = [one for one in pipeline.of("ParallelMap", "Prefetch") if one.number(0) == -1]
        if automatic:
            yield Trap(
                name="autotune-without-autotuning",
                operator=str(automatic[0]),
                cost="speed",
                finding="autotuning is switched off: tf.data.AUTOTUNE here is a guess that is never adjusted",
                fix="leave options.autotune.enabled alone, or write numbers",
            )
    threads = options.get("threading.private_threadpool_size")
    if isinstance(threads, int) and 0 < threads < surroundings.cores:
        yield Trap(
            name="small-thread-pool",
            operator=str(pipeline.last),
            cost="speed",
            finding=f"private_threadpool_size={threads} on {surroundings.cores} cores: the other cores stay idle",
            fix=f"write options.threading.private_threadpool_size = {surroundings.cores}, or leave it out",
        )
    budget = options.get("autotune.ram_budget")
    if isinstance(budget, int) and 0 < budget < _SMALL_BUDGET:
        yield Trap(
            name="small-memory-budget",
            operator=str(pipeline.last),
            cost="speed",
            finding=f"autotune.ram_budget of {say_bytes(budget)} keeps every buffer at its smallest",
            fix="leave it out, or give a share of the machine's memory",
        )
