"""The step really runs on a plan, batch after batch; then it is judged, and what would help is looked for."""

from __future__ import annotations

from dataio.bench.judging import Verdict, judge
from dataio.bench.measuring import measure_stall
from dataio.bench.recording import Measured, cost_records, loop_record, step_record
from dataio.bench.remedies import Situation, find_remedies
from dataio.bench.results import Loop, Remedy, StepDescription
from dataio.bench.setting import BenchProgress, Setting
from dataio.bench.step import Step
from dataio.bench.words import HELD_UP_PLAN, rate_words, share_words, with_fill
from dataio.machine import usable_memory_bytes

#: Remedies that the verdict itself names; all of them are in the results.
MOST_ADVICE = 3


def run_loop(
    setting: Setting, one: Measured, name: str, step: Step, seconds: float, loops: list[Loop]
) -> tuple[Verdict, StepDescription]:
    """Runs the step on a plan and judges; the loop is added to `loops`."""
    candidate = one.candidates[name]
    setting.report(BenchProgress(f"training loop on {one.name}", name, len(loops), 2))
    samples = measure_stall(
        setting.builder(one.data, candidate.plan),
        step,
        batch_size=setting.recipe.batch_size,
        budget_seconds=seconds,
        whole_first_epoch=candidate.plan.cache != "none",
        clock=setting.clock,
    )
    loops.append(loop_record(name, one.name, samples))
    verdict = judge(
        samples.stall,
        supply=candidate.samples.images_per_second,
        demand_images_per_second=samples.demand_images_per_second,
        step_name=step.name,
        limit=_limit(one, setting.cores),
        budget_seconds=seconds if samples.budget_ended else None,
    )
    reason = HELD_UP_PLAN if candidate.plan.autotune else ""
    return with_fill(verdict, loops[-1].first_fill, reason=reason), step_record(step, samples)


def remedies_for(setting: Setting, one: Measured, verdict: Verdict) -> tuple[Remedy, ...]:
    """What could be done about a stall, best first; nothing where nothing was learned about the data."""
    if one.predictor is None:
        return ()
    setting.report(BenchProgress(f"what would help on {one.name}", one.chosen, 0, 1))
    situation = Situation(
        data=one.data,
        recipe=setting.recipe,
        split=setting.split,
        plan=one.best.plan,
        images_per_second=one.best.samples.images_per_second.value,
        predictor=one.predictor,
        cores=setting.cores,
        free_bytes=usable_memory_bytes(),
        demand_images_per_second=verdict.demand_images_per_second,
    )
    return find_remedies(situation)


def advice(remedy: Remedy) -> str:
    """A remedy in a line."""
    if remedy.images_per_second is None:
        return remedy.title
    return f"{remedy.title.rstrip('.')}: {rate_words(remedy.images_per_second)} images/s predicted"


def _limit(one: Measured, cores: int) -> str | None:
    """What limits the supply, in words: the stage that takes most processor time."""
    if not one.costs:
        return None
    stages = cost_records(one.costs)
    slowest = max(stages, key=lambda stage: stage.cpu_milliseconds_per_image)
    return f"the stage '{slowest.stage}' ({share_words(slowest.share)} of the processor time) on {cores} cores"
