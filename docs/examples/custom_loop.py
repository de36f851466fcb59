"""A training loop of one's own with a monitor.

python docs/examples/custom_loop.py DATA
"""

import sys

import keras
import tensorflow as tf

import dataio


def main(path: str) -> None:
    data = dataio.open(path)
    recipe = dataio.Recipe(image_size=64, batch_size=8)
    train = dataio.build(data, recipe, split=next(iter(data.splits)))
    model = keras.Sequential([keras.layers.GlobalAveragePooling2D(), keras.layers.Dense(len(data.class_names))])
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    optimizer = keras.optimizers.SGD(0.1)

    @tf.function(reduce_retracing=True)
    def step(images: tf.Tensor, labels: tf.Tensor) -> tf.Tensor:
        with tf.GradientTape() as tape:
            value = loss(labels, model(images, training=True))
        gradients = tape.gradient(value, model.trainable_variables)
        optimizer.apply(gradients, model.trainable_variables)
        return value

    model.build((None, *recipe.height_width, 3))
    optimizer.build(model.trainable_variables)
    monitor = dataio.StarvationMonitor()
    watched = monitor.watch(train)
    for epoch in range(3):  # each pass over the watched dataset is an epoch
        for images, labels in watched:
            value = step(images, labels)
        print(f"epoch {epoch}: loss {float(value):.3f}")
    print(monitor.summary().reason)


if __name__ == "__main__":
    main(sys.argv[1])
