"""A plan's settings of tf.data itself: autotuning, rewrites, threads and memory."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dataio.machine import usable_cores, usable_memory_bytes
from dataio.plan import Plan

if TYPE_CHECKING:
    import tensorflow as tf

#: Share of the usable memory that AUTOTUNE may fill with buffers. Source: tf.data's own default, half of the free
#: memory; it looks at MemFree, which leaves out page cache and knows no cgroup, so we say it ourselves.
RAM_SHARE = 0.5


def make_options(plan: Plan) -> tf.data.Options:
    """The `tf.data.Options` that carry out `plan` on this machine."""
    import tensorflow as tf

    options = tf.data.Options()
    options.deterministic = plan.deterministic
    options.autotune.enabled = plan.autotune
    if plan.autotune_algorithm == "stage_based":
        options.autotune.autotune_algorithm = tf.data.experimental.AutotuneAlgorithm.STAGE_BASED
    options.autotune.ram_budget = int(usable_memory_bytes() * RAM_SHARE)
    # autotune.cpu_budget caps nothing (measured); the pool's size does, also under a cgroup quota.
    options.threading.private_threadpool_size = usable_cores() if plan.threads == "auto" else plan.threads
    if not plan.autotune or plan.num_parallel_calls == 1:
        # This rewrite makes a plain map parallel, so that a serial pipeline would not be serial.
        options.experimental_optimization.map_parallelization = False
    if not plan.autotune or plan.prefetch != "auto":
        options.experimental_optimization.inject_prefetch = False
    return options
