"""Images/s of plans that were not run, from one serial calibration and a few measured plans.

A pipeline is as fast as the slower of two things: what one thread does for all calls (reading, collecting), and what
the calls do side by side:

    rate = min(1 / upstream, efficiency(calls) * min(calls, threads, cores) / work)

`work` is the clock time of one picture in a serial run: the operators' own time and what dispatching them costs. It is
measured once for TensorFlow's kernels. A kernel in Python needs one measured run of its own: how much of it holds the
interpreter's lock is in no model. `efficiency` is learned from the plans that were measured.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from dataio.bench.costs import Costs
from dataio.plan import Plan
from dataio.stall import Interval

#: Seconds per image that a record costs once it is cached in memory. Source: own measurement, 2 to 4 us.
CACHED_SECONDS = 3e-6

#: Share of making a picture that is decoding it, which a cache of decoded pictures saves, where such a cache was not
#: calibrated itself.
#: Source: own measurement, bare loop: 0.9 with OpenCV on photographs of 500 x 375, 0.7 with TensorFlow's resize.
DECODING_SHARE = 0.7

#: Bytes of pixels that a byte of JPEG becomes where nothing better is known. Source: own measurement on ImageNet-like
#: photographs: 11.2 at full size, 12.6 at 256 px.
PIXELS_A_BYTE = 13

#: Seconds a byte of decoded picture that taking it out of a cache on disk costs: it is copied into fresh memory, for a
#: batch or for the kernel. In memory nothing is copied. Source: own measurement, 2 cores, pictures of 990 kB: OpenCV
#: 0.86 ms where cutting and dispatching take 0.66; TensorFlow's ops 0.9 to 1.25 ms in four runs.
DECODED_SECONDS_PER_BYTE = {"tensorflow": 0.4e-9, "opencv": 0.2e-9}

#: What a picture cut from decoded ones in memory costs in a pipeline on all cores, as a multiple of the bare loop's,
#: where one core has the caches for itself. Source: own measurement: 1.15 to 1.2 times the processor time, 2 cores.
KEPT_OVERHEAD = 1.2

#: Share of a picture's work that reading it is taken to be at most: a serial calibration that was disturbed while it
#: read tells more than a faster kernel does altogether. Source: own measurement of the case with the largest share
#: (pixels, 256 x 256, OpenCV): a cache in memory brought 1.7 to 3.4 times as much, so that reading was up to 0.71.
MOST_READING = 0.75

#: Seconds a record that one thread spends on the places of decoded pictures: shuffling and collecting six numbers.
#: Source: own measurement: 4.7 to 5.4 us with everything that comes before the kernel.
PLACE_SECONDS = 2e-6

#: Efficiency of parallel calls before anything was learned: (TensorFlow's kernels, Python kernels).
#: Source: own measurement on 2 cores: e of 0.99 to 1.10 for TensorFlow's kernels, 0.77 to 0.95 for Python's.
UNLEARNED_EFFICIENCY = {"tensorflow": 1.0, "opencv": 0.9}

#: Rate of a Python kernel with as many calls as cores, or with twice as many, to that with one call more than cores.
#: With fewer a core waits for the next batch to be collected; more wait for each other at the interpreter's lock.
#: Source: own measurement, uncached JPEGs on 2 cores: 0.78 to 0.93 in 8 cells, mean 0.86.
OTHER_CALLS = 0.86

#: What a prediction rests on, the best first.
Basis = Literal["same calls", "same kernel", "calibration", "other kernel"]

#: Half of the 95 % interval as a share of the prediction, by what it rests on.
#: Chosen, not fitted: tests/benchmarks/tuning.py found 95 % of 133 held-out plans of six datasets within 28 %, over all
#: bases together; how they share in it is judgement.
SPREAD: dict[Basis, float] = {
    "same calls": 0.15,
    "same kernel": 0.20,
    "calibration": 0.25,
    "other kernel": 0.60,
}

Family = tuple[str, bool, str]


def family(plan: Plan) -> Family:
    """(kernel, fused_decode_and_crop, where decoded pictures come from): plans of one family do the same work."""
    return plan.kernel, plan.fused_decode_and_crop, plan.cache if plan.caches_decoded else ""


def is_kept(plan: Plan) -> bool:
    """Whether the plan's kernel cuts from decoded pictures in memory, uncopied."""
    return plan.kernel == "opencv" and plan.cache == "decoded"


def calls_at_once(plan: Plan, cores: int) -> int:
    """Pictures (or batches, with kernel `opencv`) that the plan works on at once, at most the cores."""
    calls = plan.num_parallel_calls
    if calls == "auto":
        calls = cores if plan.autotune else 1
    threads = cores if plan.threads == "auto" else plan.threads
    return max(1, min(calls, threads, cores))


@dataclass(frozen=True, slots=True)
class _Point:
    plan: Plan
    images_per_second: float


@dataclass
class Predictor:
    """Learns from calibrations and measured plans on one dataset with one recipe; predicts the others."""

    cores: int
    """Cores that the process may use."""
    calibrations: dict[Family, Costs] = field(default_factory=dict)
    """Costs of serial runs, by family, uncached but for decoded pictures; that of one uncached run is enough."""
    kept_seconds: float | None = None
    """What a picture cut from decoded ones takes one core in the bare loop; None where that was not measured."""
    _points: list[_Point] = field(default_factory=list)

    def calibrate(self, plan: Plan, costs: Costs) -> None:
        """Takes in what `measure_costs` found for `plan`, which must not cache records as stored.

        The first one must not cache at all.
        """
        self.calibrations[family(plan)] = costs

    def learn(self, plan: Plan, images_per_second: float) -> None:
        """Takes in a measured plan; what was known of it before is forgotten."""
        self._points = [point for point in self._points if point.plan != plan]
        self._points.append(_Point(plan, images_per_second))

    def predict(self, plan: Plan) -> Interval:
        """images/s of `plan`, with the interval that holds the truth in 95 % of the cases.

        Raises:
            ValueError: nothing was calibrated, or nothing known tells anything about the plan's kernel.
        """
        work, basis = self._work(plan)
        rate = self._rate(plan, work, self._efficiency(plan, work))
        if basis == "same kernel" and any(self._alike(point.plan, plan) for point in self._points):
            basis = "same calls"
        spread = SPREAD[basis]
        return Interval(value=rate, low=rate * (1 - spread), high=rate * (1 + spread))

    def has_measured(self, plan: Plan) -> bool:
        """Whether a plan of the same family was measured, so that a prediction rests on what it did."""
        return any(family(point.plan) == family(plan) for point in self._points)

    def work_seconds(self, plan: Plan) -> float:
        """Processor seconds a picture costs under `plan`, cache included: the demand it puts on the cores."""
        return self._work(plan)[0]

    def read_seconds(self) -> float:
        """Seconds a picture that reading and parsing take, uncached, serially."""
        return self._any_costs().seconds("read", "parse", "cache")

    def upstream_seconds(self, plan: Plan) -> float:
        """Seconds a picture that one thread spends for all calls: reading and collecting."""
        if is_kept(plan):
            return CACHED_SECONDS + PLACE_SECONDS
        costs = self._any_costs()
        boxes = costs.seconds("collect") if plan.kernel == "opencv" else costs.seconds("boxes")
        if plan.kernel == "opencv" and not boxes:
            boxes = costs.seconds("boxes") / 2  # collecting alone, without drawing and splitting again
        if plan.cache != "none":
            return CACHED_SECONDS + boxes
        return costs.seconds("read", "parse", "cache") / max(1, self._readers(plan)) + boxes

    def _saved(self) -> float:
        """Seconds a picture that a cache saves."""
        return max(0.0, self._any_costs().seconds("read", "parse", "cache") - CACHED_SECONDS)

    def _with_cache(self, plan: Plan, uncached: float) -> float:
        """The work of a picture under `plan` where it is `uncached` seconds without its cache."""
        return uncached if plan.cache == "none" else uncached - min(self._saved(), MOST_READING * uncached)

    def _rate(self, plan: Plan, work: float, efficiency: float) -> float:
        calls = calls_at_once(plan, self.cores)
        upstream = min([self.upstream_seconds(plan), *(1 / rate for rate in self._read_as_fast(plan))])
        if calls == 1 and plan.num_parallel_calls == 1:
            # One thread for pictures; a reader of its own (cycle_length above 1) works beside it.
            beside = plan.cycle_length != 1 and plan.cache == "none"
            serial = work - self._any_costs().seconds("read", "parse") if beside else work
            return efficiency / max(serial, upstream)
        return min(1 / upstream, efficiency * calls / work)

    def _read_as_fast(self, plan: Plan) -> list[float]:
        """images/s that were measured with no more readers than the plan has, which one thread's work cannot limit to
        less, whatever the calibration says."""
        return [
            point.images_per_second
            for point in self._points
            if plan.cache == "none"
            and (point.plan.kernel, point.plan.cache) == (plan.kernel, "none")
            and self._readers(point.plan) <= self._readers(plan)
        ]

    def _readers(self, plan: Plan) -> int:
        return self.cores if plan.cycle_length == "auto" else min(plan.cycle_length, self.cores)

    def _work(self, plan: Plan) -> tuple[float, Basis]:
        """Clock seconds a picture of a serial run of the plan's family, its cache filled, and what that rests on."""
        wanted = family(plan)
        if wanted in self.calibrations:
            work = self.calibrations[wanted].seconds_per_image
            if not plan.caches_decoded:  # else that was calibrated with its cache
                work = self._with_cache(plan, work)
            return work, "same kernel" if self.has_measured(plan) else "calibration"
        measured = [self._work_by(point, plan) for point in self._points if family(point.plan) == wanted]
        if measured:
            return sorted(measured)[len(measured) // 2], "same kernel"
        if is_kept(plan) and self.kept_seconds is not None:
            return KEPT_OVERHEAD * self.kept_seconds, "calibration"
        costs = self._any_costs()
        if not plan.caches_decoded:
            return self._with_cache(plan, costs.seconds_per_image), "other kernel"
        stored = next((stage.bytes_per_image for stage in costs.stages if stage.stage in ("read", "parse")), None)
        copied = PIXELS_A_BYTE * (stored or 0.0) if plan.caches_on_disk else 0.0
        copying = DECODED_SECONDS_PER_BYTE[plan.kernel] * copied
        decoded = costs.seconds_per_image - DECODING_SHARE * costs.seconds("picture")
        return self._with_cache(plan, decoded) + copying, "other kernel"

    def _work_by(self, point: _Point, plan: Plan) -> float:
        """The serial work under `plan` by a measured rate of its family, which the efficiency assumed before learning
        explains."""
        calls = calls_at_once(point.plan, self.cores)
        work = UNLEARNED_EFFICIENCY[point.plan.kernel] * calls / point.images_per_second
        if point.plan.cache == "none":
            return self._with_cache(plan, work)
        return work + self._saved() if plan.cache == "none" else work

    def _efficiency(self, plan: Plan, work: float) -> float:
        """Learned from the measured plans of the same kernel that are most like it."""
        calls = calls_at_once(plan, self.cores)
        same_kernel = [point for point in self._points if point.plan.kernel == plan.kernel]
        alike = [point for point in same_kernel if self._alike(point.plan, plan)]
        same_calls = [point for point in same_kernel if self._calls(point) == calls]
        same_work = [point for point in same_calls if family(point.plan) == family(plan)]
        for points in (
            [point for point in alike if point.plan.cache == plan.cache],
            [point for point in same_work if point.plan.cache == plan.cache],
            alike,
            same_work,
            same_calls,
        ):
            if points:
                found = sorted(
                    point.images_per_second / self._rate(point.plan, self._base(point), 1.0) for point in points
                )
                return found[len(found) // 2] * (1.0 if points[0] in alike else self._spare_call(points[0].plan, plan))
        return UNLEARNED_EFFICIENCY[plan.kernel] if calls > 1 else 1.0

    def _spare_call(self, known: Plan, plan: Plan) -> float:
        """What a Python kernel loses when another number of calls is asked for than the known plan's, cores + 1."""
        best = known.num_parallel_calls == self.cores + 1
        numbered = plan.num_parallel_calls not in ("auto", 1, self.cores + 1)
        return OTHER_CALLS if plan.kernel == "opencv" and plan.cache == "none" and best and numbered else 1.0

    def _base(self, point: _Point) -> float:
        return self._work(point.plan)[0]

    def _calls(self, point: _Point) -> int:
        return calls_at_once(point.plan, self.cores)

    def _alike(self, one: Plan, other: Plan) -> bool:
        """Whether two plans of one family ask for the same number of calls, so that one tells about the other."""
        return family(one) == family(other) and one.num_parallel_calls == other.num_parallel_calls

    def _any_costs(self) -> Costs:
        if not self.calibrations:
            raise ValueError("a prediction needs one calibration: call calibrate() with what measure_costs found")
        return next(iter(self.calibrations.values()))
