"""Two workers on one machine: each record goes to exactly one of them, and each has a monitor of its own.

    python docs/examples/two_workers.py DATA

starts both as processes. On two machines, set TF_CONFIG on each and run `train` there.
"""

import json
import os
import socket
import subprocess
import sys
from collections.abc import Sequence

WORKERS = 2


def train(path: str) -> None:
    """Trains on this worker's part; TF_CONFIG says which worker this is."""
    import tensorflow as tf

    import dataio

    strategy = tf.distribute.MultiWorkerMirroredStrategy()
    data = dataio.open(path)
    # Every record once: the last batch may be smaller, and a worker that runs out takes empty batches.
    recipe = dataio.Recipe(image_size=32, batch_size=4, drop_remainder=False)

    def build(context: tf.distribute.InputContext) -> tf.data.Dataset:
        return dataio.build(
            data,
            recipe,
            split=next(iter(data.splits)),
            num_shards=context.num_input_pipelines,
            shard_index=context.input_pipeline_id,
        )

    with strategy.scope():
        weights = tf.Variable(tf.zeros([3, len(data.class_names)]))
        seen = tf.Variable(0, dtype=tf.int64, aggregation=tf.VariableAggregation.SUM)

    @tf.function(reduce_retracing=True)
    def step(batch: Sequence[tf.Tensor]) -> None:
        def on_replica(images: tf.Tensor, labels: tf.Tensor) -> None:
            with tf.GradientTape() as tape:
                logits = tf.reduce_mean(images, axis=[1, 2]) @ weights
                losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels, logits)
                loss = tf.reduce_sum(losses)
            context = tf.distribute.get_replica_context()
            gradient = context.all_reduce("sum", tape.gradient(loss, weights))
            count = context.all_reduce("sum", tf.cast(tf.shape(labels)[0], tf.float32))
            weights.assign_sub(0.1 * gradient / count)
            seen.assign_add(tf.cast(tf.shape(labels)[0], tf.int64))

        strategy.run(on_replica, args=tuple(batch))

    monitor = dataio.StarvationMonitor(batch_size=recipe.batch_size)
    watched = monitor.watch(strategy.distribute_datasets_from_function(build))
    for _ in range(2):
        for batch in watched:
            step(batch)
    worker = json.loads(os.environ["TF_CONFIG"])["task"]["index"]
    print(
        f"worker {worker}: both workers saw {int(seen.read_value())} records in 2 epochs; {monitor.summary().reason}",
        flush=True,
    )


def start(path: str) -> int:
    """Starts all workers on this machine and waits for them."""
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(WORKERS)]
    cluster = {"worker": [f"127.0.0.1:{one.getsockname()[1]}" for one in sockets]}
    for one in sockets:
        one.close()
    processes = []
    for index in range(WORKERS):
        config = json.dumps({"cluster": cluster, "task": {"type": "worker", "index": index}})
        command = [sys.executable, __file__, path]
        processes.append(subprocess.Popen(command, env=os.environ | {"TF_CONFIG": config}))
    return max(process.wait() for process in processes)


if __name__ == "__main__":
    if "TF_CONFIG" in os.environ:
        train(sys.argv[1])
    else:
        sys.exit(start(sys.argv[1]))
