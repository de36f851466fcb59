"""StarvationMonitor: says during training whether the step waits for its input."""

from __future__ import annotations

import gc
import warnings
import weakref
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import keras
import tensorflow as tf

from dataio.monitor.advice import advise
from dataio.monitor.asking import fit_runs
from dataio.monitor.comparison import compare
from dataio.monitor.epochs import ComparedEpoch, Epoch, TimedEpoch
from dataio.monitor.fitting import NOT_WATCHED, FitSession
from dataio.monitor.recorders import CallRecorder, StepRecorder
from dataio.monitor.scalars import ScalarWriter
from dataio.monitor.summary import EpochSummary, MonitorSummary, outcome_of, percent, stall_of
from dataio.monitor.timing import Timing, make_recorder
from dataio.monitor.watching import TimedDistributed, TimedIterator, WatchedDataset, batch_size_of
from dataio.stages.closing import close_iterators_at_exit
from dataio.stall import Outcome, Stall

_NOTHING_SEEN = (
    "no step was seen yet: train on monitor.watch(dataset), and where Keras trains give fit callbacks=[monitor] too"
)
_NOT_A_CALLBACK = (
    "fit was given a watched dataset but not the monitor, so nothing is measured: call "
    "model.fit(monitor.watch(train), callbacks=[monitor])"
)


class StarvationWarning(UserWarning):
    """The training step waits for its input; the message says how much and what to do."""


class StarvationMonitor(keras.callbacks.Callback):  # type: ignore[misc]
    """Times how long each training step waits for its batch, and warns when the device starves.

        monitor = StarvationMonitor()
        model.fit(monitor.watch(train), callbacks=[monitor])
        for batch in monitor.watch(train): ...                  # a loop of your own; each iteration is an epoch

    With steps_per_execution above 1, or under a distribution strategy, the wait of a step does not exist as such; usual
    executions are then compared with some whose batches were ready. Where that is impossible too, `stall` is None and
    `summary().reason` says why. The first step of each epoch is left out: it fills buffers, traces and compiles.
    """

    #: Keras then runs `on_train_batch_end` in a thread of its own and does not wait for the device on our account.
    async_safe = True

    def __init__(
        self,
        *,
        batch_size: int | None = None,
        log_dir: str | Path | None = None,
        warn: bool = True,
        timing: Timing | None = None,
    ) -> None:
        """Args:
        batch_size: pictures a batch, for images/s; needed only where the dataset's shapes do not tell.
        log_dir: folder for TensorBoard scalars; None writes none.
        warn: warn (StarvationWarning) after an epoch in which the step was limited or starved.
        timing: clock, sleep and device barrier; for tests.
        """
        super().__init__()
        self._batch_size, self._warn, self._timing = batch_size, warn, timing or Timing()
        self._scalars = ScalarWriter(Path(log_dir)) if log_dir is not None else None
        self._epochs: list[Epoch] = []
        self._watched: list[weakref.ref[WatchedDataset]] = []
        self._session: FitSession | None = None
        self._loops = False  # whether the epochs are those of a loop of the user's
        self._blind = False  # whether a fit over something else was warned of
        self._obstacle = _NOTHING_SEEN
        self._explanation: str | None = None
        self._warned: Outcome | None = None
        close_iterators_at_exit()

    # What users read.

    @property
    def stall(self) -> Stall | None:
        """Share of the time in which the step waited, over all epochs so far; None where that is not observable."""
        epochs = self._all_epochs()
        timed = [epoch.times for epoch in epochs if isinstance(epoch, TimedEpoch)]
        if timed:
            return stall_of(timed)
        compared = [epoch for epoch in epochs if isinstance(epoch, ComparedEpoch)]
        usual = [seconds for epoch in compared for seconds in epoch.usual_seconds]
        return compare(usual, compared[-1].recorder.ready_seconds) if compared else None

    @property
    def epochs(self) -> tuple[EpochSummary, ...]:
        """Waiting and stepping epoch by epoch, the running one included."""
        return tuple(epoch.summary() for epoch in self._all_epochs())

    @property
    def steps(self) -> tuple[tuple[Sequence[float], Sequence[float]], ...]:
        """For each epoch whose waits were timed: (wait_seconds, step_seconds), one value a step, the first left out."""
        times = [epoch.times for epoch in self._all_epochs() if isinstance(epoch, TimedEpoch)]
        return tuple((one.wait_seconds.tolist(), one.step_seconds.tolist()) for one in times)

    def summary(self) -> MonitorSummary:
        """All of it as a record, for JSON."""
        stall, epochs = self.stall, self.epochs
        seen = [epoch for epoch in epochs if epoch.stall is not None]
        indistinguishable = bool(seen) and all(epoch.indistinguishable for epoch in seen)
        outcome = outcome_of(stall)
        method = "waits" if any(isinstance(epoch, TimedEpoch) for epoch in self._all_epochs()) else "comparison"
        if stall is None:
            reason = self._session.obstacle if self._session else self._obstacle
        else:
            reason = f"the step waited for input {percent(stall, indistinguishable=indistinguishable)} of the time"
        step_ms = seen[-1].step_ms if seen else None
        explanation = self._session.explain() if self._session else self._explanation
        return MonitorSummary(
            method=method if stall is not None else "none",
            outcome=outcome,
            stall=stall,
            indistinguishable=indistinguishable,
            reason=reason,
            advice=advise(step_ms, explanation) if outcome in {"limited", "starved"} else "",
            epochs=epochs,
        )

    def watch(self, dataset: Any) -> Any:
        """The same batches, watched: for `fit`, or for a loop of your own.

        Args:
            dataset: a tf.data.Dataset, for `fit` as it is before a strategy distributes it; or a distributed dataset,
                for a loop of your own. One that is watched already stays as it is; from another monitor, this one
                takes it over.

        Raises:
            TypeError: it is neither.
        """
        if isinstance(dataset, WatchedDataset):
            return dataset if dataset.is_watched_by(self) else WatchedDataset(dataset.plain, self)
        if isinstance(dataset, TimedDistributed):
            dataset = dataset.plain
        if isinstance(dataset, tf.data.Dataset):
            return WatchedDataset(dataset, self)
        if not hasattr(dataset, "element_spec"):
            found = type(dataset).__name__
            raise TypeError(f"monitor.watch takes a tf.data.Dataset or a distributed dataset, not {found}")
        return TimedDistributed(dataset, self._open_distributed)

    # What watched datasets tell.

    def add_watched(self, dataset: WatchedDataset, *, instead_of: WatchedDataset | None) -> None:
        """A dataset is watched from now on, perhaps as the successor of another one."""
        others = [one for one in self._watched if one() is not None and one() is not instead_of]
        self._watched = [*others, weakref.ref(dataset)]

    def open_iterator(self, dataset: WatchedDataset, method: str | None) -> Any:
        """An iterator for whoever iterates over a watched dataset: Keras gets TensorFlow's own, a loop a timed one."""
        in_python = keras.backend.backend() != "tensorflow"  # such backends take batches as a loop of one's own does
        if method is not None and not (method == "fit" and in_python):
            if self._session is not None:
                return self._session.open_iterator(dataset)
            if method == "fit":
                self._say_forgotten()
            return iter(dataset.plain)
        if self._session is not None and fit_runs():
            return iter(dataset.plain)  # a callback of the user's looks at some batches meanwhile
        iterator = iter(dataset.plain)
        recorder = make_recorder(iterator, self._timing, told=dataset.is_told, keep=False)
        self._begin_loop(recorder, self._batch_size or dataset.batch_size())
        return TimedIterator(iterator, recorder)

    def _open_distributed(self, dataset: Any) -> TimedIterator:
        recorder = CallRecorder(clock=self._timing.clock, synchronise=self._timing.synchronise)
        self._begin_loop(recorder, self._batch_size or batch_size_of(dataset.element_spec))
        return TimedIterator(iter(dataset), recorder)

    def _begin_loop(self, recorder: StepRecorder, batch_size: int | None) -> None:
        """A loop's next epoch; whatever a `fit` showed before, finished or broken off, is another training's."""
        if not self._loops:
            self._forget()
            self._loops = True
        for earlier in self._epochs:
            earlier.finish()
        self._epochs.append(TimedEpoch(len(self._epochs), recorder, batch_size))
        self._obstacle = "too few steps were seen"

    def _say_forgotten(self) -> None:
        """A fit takes batches of a watched dataset and does not tell when its steps begin."""
        said = self._obstacle == _NOT_A_CALLBACK
        self._forget()
        self._obstacle = _NOT_A_CALLBACK
        if self._warn and not said:
            warnings.warn(f"StarvationMonitor: {_NOT_A_CALLBACK}", StarvationWarning, stacklevel=4)

    def _forget(self) -> None:
        """A new training begins."""
        self._session, self._epochs, self._warned, self._explanation = None, [], None, None
        self._loops = self._blind = False

    # What Keras's fit tells.

    def on_train_begin(self, logs: Any = None) -> None:
        """A fit begins; what came before it was an earlier training."""
        self._forget()
        if keras.backend.backend() != "tensorflow":
            return  # the other backends iterate over the dataset in Python, as a loop of one's own does
        strategy = self.model.distribute_strategy
        # Keras distributes the dataset under every strategy but the default one, whose class has no public name.
        distributed = type(strategy) is not type(tf.distribute.get_strategy()) or tf.distribute.has_strategy()
        if distributed and len(self._watched) > 1:
            gc.collect()  # datasets of earlier fits are held by nothing but cycles; they would count as watched
        self._session = FitSession(
            batches_per_execution=int(self.model.steps_per_execution),
            distributed=distributed,
            timing=self._timing,
            batch_size=self._batch_size,
            watched=[dataset for one in self._watched if (dataset := one()) is not None],
        )

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        """Keras is about to ask for the epoch's iterator."""
        if self._session is not None:
            self._session.begin_epoch(epoch, self.params.get("steps"))

    def on_train_batch_begin(self, batch: int, logs: Any = None) -> None:
        """A step begins."""
        if self._session is not None:
            self._session.begin_step()
            if self._session.obstacle == NOT_WATCHED:
                self._say_not_watched()

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        """A step has ended."""
        if self._session is not None:
            self._session.end_step()

    def on_test_begin(self, logs: Any = None) -> None:
        """Validation begins, within an epoch or on its own."""
        if self._session is not None:
            self._session.begin_test()

    def on_test_end(self, logs: Any = None) -> None:
        """Validation is over."""
        if self._session is not None:
            self._session.end_test()

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        """The epoch is over: writes its scalars, and warns."""
        if self._session is None:
            return
        self._session.end_epoch()
        if self._session.obstacle == NOT_WATCHED:
            self._say_not_watched()
        if self._session.epochs and self._session.epochs[-1].number == epoch:
            summary = self._session.epochs[-1].summary()
            if self._scalars is not None:
                self._scalars.write(summary)
            self._warn_about(summary)

    def on_train_end(self, logs: Any = None) -> None:
        """The fit is over: what it showed is kept."""
        if self._session is None:
            return
        self._session.end_epoch()
        self._epochs, self._obstacle = self._session.epochs, self._session.obstacle
        self._explanation = self._session.explain()
        self._session = None

    def _all_epochs(self) -> list[Epoch]:
        return self._session.epochs if self._session is not None else self._epochs

    def _say_not_watched(self) -> None:
        if self._warn and not self._blind:
            warnings.warn(f"StarvationMonitor: {NOT_WATCHED}", StarvationWarning, stacklevel=3)
        self._blind = True

    def _warn_about(self, epoch: EpochSummary) -> None:
        """Warns once a fit, and again when it gets worse."""
        outcome = outcome_of(epoch.stall)
        if not self._warn or epoch.stall is None or outcome not in {"limited", "starved"}:
            return
        if self._warned in {outcome, "starved"}:
            return
        self._warned = outcome
        times = ""
        if epoch.wait_ms is not None and epoch.step_ms is not None:
            times = f" ({epoch.wait_ms:.1f} of {epoch.wait_ms + epoch.step_ms:.1f} ms a step)"
        share = percent(epoch.stall, indistinguishable=epoch.indistinguishable)
        warnings.warn(
            f"StarvationMonitor: in epoch {epoch.epoch} the step waited for input {share} of the time{times}: "
            f"{outcome}. {advise(epoch.step_ms, self._session.explain() if self._session else None)}",
            StarvationWarning,
            stacklevel=2,
        )
