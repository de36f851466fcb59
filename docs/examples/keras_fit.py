"""Keras's fit with a monitor: says whether the step waited for its input.

python docs/examples/keras_fit.py DATA
"""

import sys

import keras

import dataio
from dataio.device import host_recipe


def make_model(classes: int, recipe: dataio.Recipe) -> keras.Model:
    """A small convolutional network; pictures come as uint8 and are normalised on the device."""
    model = keras.Sequential(
        [
            keras.Input((*recipe.height_width, 3), dtype="uint8"),
            dataio.device_preprocessing(recipe),
            keras.layers.Conv2D(8, 3, strides=4, activation="relu"),
            keras.layers.GlobalAveragePooling2D(),
            keras.layers.Dense(classes),
        ]
    )
    model.compile("adam", loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    return model


def main(path: str) -> None:
    data = dataio.open(path)
    split = next(iter(data.splits))
    recipe = dataio.Recipe(image_size=64, batch_size=8, normalisation="imagenet")
    train = dataio.build(data, host_recipe(recipe), split=split)

    monitor = dataio.StarvationMonitor()
    make_model(len(data.class_names), recipe).fit(monitor.watch(train), epochs=3, callbacks=[monitor], verbose=2)

    print(monitor.summary().reason)
    for epoch in monitor.epochs:
        print(f"epoch {epoch.epoch}: {epoch.steps} steps, {epoch.images_per_second} images/s, stall {epoch.stall}")
    monitor.summary().save("monitor.json")


if __name__ == "__main__":
    main(sys.argv[1])
