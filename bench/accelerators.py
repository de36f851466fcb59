"""How fast known accelerators train known models, from published measurements."""

from __future__ import annotations

from dataclasses import dataclass

from dataio.errors import StepError


@dataclass(frozen=True, slots=True)
class Accelerator:
    """One device training one model, as somebody published it."""

    name: str
    """What `--accelerator` takes."""
    step_seconds: float
    """Seconds for one batch of `images`."""
    images: int
    """Pictures in that batch."""
    source: str
    """Where the figure comes from."""

    @property
    def images_per_second(self) -> float:
        """Pictures that the device can take in a second."""
        return self.images / self.step_seconds


_MLPERF = "MLPerf Storage, configs/dlio/workload/{}.yaml: computation_time for reader.batch_size pictures"
_DLIO = "DLIO benchmark, configs/workload/resnet50_v100.yaml: computation_time for reader.batch_size pictures"
_NVIDIA = "NVIDIA DeepLearningExamples, {} README, training performance, 1 GPU, {}"
_RESNET = "TensorFlow/Classification/ConvNets/resnet50v1.5"
_EFFICIENTNET = "TensorFlow2/Classification/ConvNets/efficientnet_v1"


def _published(name: str, images_per_second: float, source: str) -> Accelerator:
    return Accelerator(name, 1 / images_per_second, 1, source)


#: The presets by name. The first two emulate an accelerator for storage benchmarks; the others are training runs.
ACCELERATORS = {
    accelerator.name: accelerator
    for accelerator in (
        Accelerator("a100-resnet50", 0.435, 400, _MLPERF.format("resnet50_a100")),
        Accelerator("h100-resnet50", 0.224, 400, _MLPERF.format("resnet50_h100")),
        Accelerator("v100-resnet50", 0.195, 64, _DLIO),
        _published("a100-resnet50-amp", 2375, _NVIDIA.format(_RESNET, "A100 40GB, mixed precision + XLA, batch 256")),
        _published("v100-resnet50-amp", 1270, _NVIDIA.format(_RESNET, "V100 16GB, mixed precision + XLA, batch 256")),
        _published("a100-efficientnet-b0", 1209, _NVIDIA.format(_EFFICIENTNET, "A100 80GB, TF32")),
        _published("a100-efficientnet-b0-amp", 3454, _NVIDIA.format(_EFFICIENTNET, "A100 80GB, mixed precision")),
        _published("a100-efficientnet-b4", 165, _NVIDIA.format(_EFFICIENTNET, "A100 80GB, TF32")),
        _published("a100-efficientnet-b4-amp", 470, _NVIDIA.format(_EFFICIENTNET, "A100 80GB, mixed precision")),
    )
}


def accelerator(name: str) -> Accelerator:
    """The preset called `name`.

    Raises:
        StepError: there is none; the message lists those there are.
    """
    if name not in ACCELERATORS:
        known = ", ".join(
            f"{preset.name} ({preset.images_per_second:,.0f} images/s)" for preset in ACCELERATORS.values()
        )
        raise StepError(f"no accelerator named {name!r}; there are: {known}")
    return ACCELERATORS[name]
