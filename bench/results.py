"""results.json: everything that a bench run found, with the raw samples it rests on.

Programs may rely on `verdict`, `verdict_before` and `runs` (`name`, `data`, `plan`, `images_per_second`,
`peak_memory_bytes`, `chosen`); the rest explains them and may grow.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator

from dataio.bench.filling import FirstFill
from dataio.bench.judging import Verdict
from dataio.bench.machine import Machine
from dataio.plan import Plan
from dataio.recipe import Recipe
from dataio.records import Record

NotNegative = Annotated[float, Field(ge=0)]


class Rate(Record):
    """A rate with its 95 % interval, images per second."""

    median: NotNegative
    """Median of the rounds."""
    low: NotNegative
    """Lower end of the interval of the median."""
    high: NotNegative
    """Upper end."""


class Prediction(Record):
    """What the cost model expected of a plan before it was run, images per second."""

    value: NotNegative
    """The prediction."""
    low: NotNegative
    """Lower end of its interval."""
    high: NotNegative
    """Upper end."""


class Run(Record):
    """One plan on one dataset, measured alone: nothing consumed its batches but a loop that dropped them."""

    name: str
    """A baseline's name (`naive`, `cores`, `autotune`, `autotune_fused` …), or what sets the plan apart."""
    data: str
    """The dataset's name in `datasets`."""
    plan: Plan
    """The plan."""
    images_per_second: Rate
    """Supply in the state in which an epoch after the first runs: cached where the plan caches, warm otherwise."""
    state: Literal["warm", "cached"]
    """Which of the two that was."""
    first_epoch_images_per_second: NotNegative | None = None
    """Supply while the cache was being filled, for plans that cache; None for the others."""
    cold_images_per_second: NotNegative | None = None
    """Supply with the files dropped from the page cache first, as an epoch of a dataset larger than memory runs;
    None where it was not measured."""
    peak_memory_bytes: Annotated[int, Field(ge=0)]
    """Most anonymous memory (RssAnon) that the pipeline took: the process's peak while the plan ran, less what it held
    before the pipeline was built. Mapped files do not count, since the kernel can drop them."""
    samples: tuple[NotNegative, ...]
    """Images per second of each round, in the order in which they ran: the raw figures."""
    steady: bool = True
    """Whether the rate had stopped rising before the rounds began; False: it may still be too low."""
    predicted: Prediction | None = None
    """What had been predicted; None where nothing was."""
    baseline: bool = False
    """Whether this is one of the plans that every bench run measures for comparison."""
    chosen: bool = False
    """Whether this is the plan that tuned.json holds; true of exactly one run."""


class Skipped(Record):
    """A plan that was not run because its prediction ruled it out."""

    name: str
    """What it would have been called."""
    data: str
    """The dataset's name."""
    predicted: Prediction
    """What it was expected to supply."""


class Refused(Record):
    """A plan that was not run."""

    name: str
    """What it would have been called."""
    data: str
    """The dataset's name."""
    reason: str
    """Why not."""


class Loop(Record):
    """A step fed by a plan, batch after batch: where a stall was measured."""

    run: str
    """Name of the run whose plan this was."""
    data: str
    """The dataset's name."""
    wait_seconds: tuple[NotNegative, ...]
    """How long getting each batch took, in order; the first fill of the buffers is left out."""
    ready: tuple[int | None, ...] = ()
    """Batches that were ready as each one was asked for: where one was, getting it counts as no wait."""
    step_seconds: tuple[NotNegative, ...]
    """How long each step then held the device."""
    first_fill: FirstFill | None = None
    """What start and end of each epoch cost beside; None where no epoch after the first began, or where epochs are so
    short that their starts are counted among the waits and their ends take no time."""
    gpu_utilisation: Annotated[float, Field(ge=0, le=1)] | None = None
    """Share of time in which the first GPU ran anything, by NVML; low: it waited. None without a GPU, without NVML, and
    for a simulated step, which uses none."""
    host_to_device_bytes_per_second: NotNegative | None = None
    """How fast a batch's pictures are copied to the first GPU; None without one."""

    @property
    def counted_wait_seconds(self) -> tuple[float, ...]:
        """The waits with those for ready batches taken as none."""
        ready = self.ready or (None,) * len(self.wait_seconds)
        return tuple(0.0 if count else wait for wait, count in zip(self.wait_seconds, ready, strict=True))


class StepDescription(Record):
    """What consumed the batches."""

    name: str
    """Such as `a100-resnet50`, or `step of 12 ms`."""
    step_seconds: float
    """Length of one step."""
    images_per_second: float
    """Demand: batch size / step length."""
    source: str
    """Where the length comes from."""


class Dataset(Record):
    """One dataset that was measured."""

    name: str
    """Short name, unique among the datasets of these results."""
    path: str
    """Where it lies."""
    format: str
    """Its format."""
    encoding: str
    """What is stored: `jpeg` or `raw`."""
    records: int
    """Records of the split that was measured."""
    bytes: int
    """Bytes on disk of that split."""
    fingerprint: str
    """Changes when the stored data change."""
    pareto: bool = True
    """Whether no other dataset here is at least as fast in as few bytes a picture; true where there is one only."""
    sample: bool = False
    """Whether this is a sample of another way of storing, made to compare; it is never chosen."""


class StageCost(Record):
    """What one stage of the pipeline costs, processor time per image."""

    stage: str
    """Stage in words: read, decode, transform, batch …"""
    cpu_milliseconds_per_image: NotNegative
    """Processor time per image, one core, milliseconds."""
    bytes_per_image: NotNegative | None = None
    """Bytes that leave the stage per image; None where TensorFlow does not tell."""
    share: NotNegative
    """Its share of all stages' time, in [0, 1]."""


class Bound(Record):
    """A rate that hardware does not let any plan pass."""

    name: str
    """What sets it: decoding, storage …"""
    images_per_second: NotNegative
    """The rate."""
    how: str
    """How it was found."""


class Remedy(Record):
    """Something to do about a stall, best first."""

    title: str
    """What to do, in one sentence."""
    images_per_second: NotNegative | None
    """What it is predicted to bring; None where that cannot be said."""
    cost: str
    """What it costs: memory, disk, time, money."""
    how: str
    """One line that does it: a command or code."""


class Forecast(Record):
    """A way of storing the data that was tried on a sample: `--try`."""

    name: str
    """As the user wrote it, such as `hdf5-raw@256`."""
    sample_records: int
    """Pictures converted for the trial."""
    bytes: int
    """Bytes that the whole dataset would need."""
    conversion_seconds: NotNegative
    """Time that converting all of it would take on this machine."""
    images_per_second: Rate
    """Supply of the sample by the best plan that was tried."""
    run: str
    """Name of the dataset in `datasets` that holds the sample's runs."""


class Results(Record):
    """One bench run."""

    schema_version: Literal[1] = 1
    """Form of this record in JSON."""
    created: str
    """When it ended, ISO 8601 with time zone."""
    command: str
    """The command line that made it."""
    recipe: Recipe
    """What a batch was."""
    split: str
    """The split that was measured."""
    step: StepDescription | None = None
    """What consumed the batches; None: supply alone was measured."""
    datasets: Annotated[tuple[Dataset, ...], Field(min_length=1)]
    """The datasets, in the order given."""
    runs: Annotated[tuple[Run, ...], Field(min_length=1)]
    """Every plan that was measured, baselines first."""
    verdict: Verdict | None = None
    """Judgement of the chosen plan; None without a step."""
    verdict_before: Verdict | None = None
    """Judgement of the `autotune` baseline on the same data; None without a step."""
    loops: tuple[Loop, ...] = ()
    """The loops that the verdicts rest on, `autotune` first."""
    skipped: tuple[Skipped, ...] = ()
    """Plans that were not worth running, by their prediction."""
    refused: tuple[Refused, ...] = ()
    """Plans that were asked for and not run, because they cannot work here."""
    noise: NotNegative
    """Noise floor: two plans whose rates differ by less than this share cannot be told apart in this run."""
    bounds: tuple[Bound, ...] = ()
    """What hardware allows for the chosen run's data."""
    costs: tuple[StageCost, ...] = ()
    """Processor time by stage for the way in which the plan chosen makes pictures, in the order in which a picture
    passes the stages; measured serially."""
    remedies: tuple[Remedy, ...] = ()
    """What could be done beyond the plan, best first."""
    forecasts: tuple[Forecast, ...] = ()
    """What other ways of storing the data would cost and bring."""
    sweep: dict[str, tuple[int | str | bool, ...]] = {}
    """The grid that was swept: plan field to values; empty where plans were searched."""
    machine: Machine
    """Where it ran."""
    versions: dict[str, str]
    """Versions of what it ran on."""
    seconds: NotNegative
    """How long the whole run took."""

    @model_validator(mode="after")
    def _exactly_one_is_chosen(self) -> Results:
        chosen = [run.name for run in self.runs if run.chosen]
        if len(chosen) != 1:
            raise ValueError(f"takes exactly one chosen run, found {len(chosen)}: {', '.join(chosen) or 'none'}")
        return self

    @model_validator(mode="after")
    def _runs_name_their_data(self) -> Results:
        known = {dataset.name for dataset in self.datasets}
        unknown = {run.data for run in self.runs} - known
        if unknown:
            raise ValueError(f"runs name datasets that are not listed: {', '.join(sorted(unknown))}")
        return self

    @property
    def chosen(self) -> Run:
        """The run whose plan was chosen."""
        return next(run for run in self.runs if run.chosen)

    def run(self, name: str, data: str) -> Run | None:
        """The run called `name` on the dataset `data`, or None."""
        return next((run for run in self.runs if (run.name, run.data) == (name, data)), None)
