"""One run of Keras's `fit`: which of its iterators feeds the steps, and how their waits can be known."""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from dataio.monitor.advice import explain
from dataio.monitor.comparison import FEWEST_READY, FEWEST_USUAL, ReadyRecorder
from dataio.monitor.epochs import ComparedEpoch, Epoch, TimedEpoch
from dataio.monitor.recorders import StepRecorder
from dataio.monitor.timing import Timing, make_recorder
from dataio.monitor.watching import WatchedDataset

#: Memory that batches held ready for a comparison may take; beyond it the wait counts as not observable.
_COMPARISON_BYTES = 512 * 2**20

NOT_WATCHED = "the dataset given to fit is not watched: call model.fit(monitor.watch(train), callbacks=[monitor])"


class FitSession:
    """Follows a `fit` from `on_train_begin` to `on_train_end`.

    With one step an execution and no strategy, Keras calls GetNext and then the step, over TensorFlow's own iterator,
    which is known here because Keras asks the watched dataset for it: waits are timed. Otherwise executions are
    compared.
    """

    def __init__(
        self,
        *,
        batches_per_execution: int,
        distributed: bool,
        timing: Timing,
        batch_size: int | None,
        watched: Sequence[WatchedDataset],
    ) -> None:
        """Args:
        batches_per_execution: the model's steps_per_execution.
        distributed: whether the model trains under a strategy, which makes its own iterators.
        timing: clock, sleep and device barrier.
        batch_size: pictures a batch where the user said so.
        watched: datasets that the monitor watches; under a strategy there must be one.
        """
        self._size, self._distributed, self._timing = batches_per_execution, distributed, timing
        self._batch_size = batch_size
        self.epochs: list[Epoch] = []
        """Epochs seen so far, the running one last."""
        self._explanation: str | None = None
        self.obstacle = NOT_WATCHED
        """Why no stall can be given, if none can."""
        self._testing = False
        self._number = self._begun = 0
        self._ended: list[None] = []  # appended to from several threads of Keras's, which a counter would not survive
        self._running: StepRecorder | ComparedEpoch | None = None
        self._comparison: ReadyRecorder | None = None
        self._watched: WatchedDataset | None = None
        self._counted = 0
        # Keras holds the iterator; here it is held only while an epoch runs, so that it can go when Keras lets it go.
        self._newest: tuple[weakref.ref[tf.data.Iterator], float] | None = None
        self._live: tf.data.Iterator | None = None
        self._opened = self._stepped = self._stopped = 0.0
        if distributed and len(watched) == 1:
            self._compare(watched[0])
            self._counted = watched[0].counter.value()
        elif distributed and watched:
            self.obstacle = (
                "under a distribution strategy a monitor can watch one dataset only: use another one for validation"
            )

    def open_iterator(self, dataset: WatchedDataset) -> Any:
        """The iterator that Keras asks for, TensorFlow's own: the training graph stays as it is."""
        if self._testing:  # a watched validation set: its waits are not the training step's
            return iter(dataset.plain)
        self._watched = dataset
        if self._size == 1 and dataset.is_told:
            iterator = iter(dataset.plain)
            self._newest = weakref.ref(iterator), self._timing.clock()
            return iterator
        needed = dataset.batch_bytes()
        if needed is not None and needed * self._size > _COMPARISON_BYTES:
            self.obstacle = (
                f"with steps_per_execution={self._size} the step and its input overlap, and a comparison would have to "
                f"hold {self._size} batches of {needed / 2**20:.0f} MiB ready"
            )
            return iter(dataset.plain)
        self._compare(dataset)
        return iter(dataset.counted.prefetch(max(self._size, 2)))  # 2: see `ReadyRecorder`, warming

    def begin_epoch(self, number: int, steps: int | None) -> None:
        """Keras is about to ask for the epoch's iterator, if it needs a new one.

        Args:
            number: of the epoch, as Keras counts.
            steps: executions x steps_per_execution an epoch, None where Keras does not know.
        """
        self._number, self._begun, self._ended = number, 0, []
        self._running = None
        if self._comparison is not None:
            self._comparison.start_epoch(same_iterator=bool(self.epochs) and self._goes_on(steps))

    def begin_step(self) -> None:
        """The train function is about to be called."""
        if self._begun == 0:
            self._start()
        self._begun += 1
        self._stepped = self._timing.clock()
        if isinstance(self._running, ComparedEpoch):
            self._running.executions += 1
            self._running.recorder.begin()
        elif self._running is not None:
            self._running.begin()

    def end_step(self) -> None:
        """The train function has returned; not called when the data had ended instead."""
        self._ended.append(None)

    def begin_test(self) -> None:
        """Validation begins: the epoch's steps are over. Keras may still owe some calls of `end_step`, until the epoch
        ends."""
        self._testing, self._stopped = True, self._timing.clock()

    def end_test(self) -> None:
        """Validation is over."""
        self._testing = False

    def end_epoch(self) -> None:
        """The epoch's steps are over, for whatever reason."""
        if self._running is None:
            return
        if self._begun > len(self._ended) and not isinstance(self._running, ComparedEpoch):
            self._running.exhausted()
        self._running = None
        self.epochs[-1].finish()
        if self._distributed and self._watched is not None and self._watched.counter.value() == self._counted:
            self.obstacle, self.epochs = NOT_WATCHED, []
            self._watched = self._comparison = None
        self._explanation, self._live = self.explain(), None

    def explain(self) -> str | None:
        """What held the input up in the running epoch, or in the last one, in words; None where nothing tells."""
        if self._live is None:
            return self._explanation
        # Not until now: a training that was broken off may be asked about much later.
        return explain(self._live, max(self._stopped, self._stepped) - self._opened)

    def _start(self) -> None:
        """The first step of an epoch begins; its iterator exists now."""
        batch_size = self._batch_size or (self._watched.batch_size() if self._watched else None)
        if self._comparison is not None:
            epoch = ComparedEpoch(self._number, self._comparison, batch_size and batch_size * self._size)
            self.epochs.append(epoch)
            self._running = epoch
            self.obstacle = (
                f"the wait is not observable here: too few steps for a comparison, which takes {FEWEST_READY} with "
                f"batches ready and {FEWEST_USUAL} usual ones"
            )
            return
        if self._newest is not None:
            reference, self._opened = self._newest
            self._live = reference()
        if self._live is not None:
            self._running = make_recorder(self._live, self._timing, told=True, keep=True)
            self.epochs.append(TimedEpoch(self._number, self._running, batch_size))
            self.obstacle = "too few steps were seen"

    def _compare(self, dataset: WatchedDataset) -> None:
        self._watched = dataset
        if self._comparison is None:
            self._comparison = ReadyRecorder(
                dataset.counter.value,
                batches_per_execution=self._size,
                clock=self._timing.clock,
                sleep=self._timing.sleep,
                synchronise=self._timing.synchronise,
            )
            self._comparison.start_epoch(same_iterator=False)

    def _goes_on(self, steps: int | None) -> bool:
        """Whether Keras keeps its iterator from one epoch to the next: with steps_per_epoch below the data's length."""
        if steps is None or self._watched is None:
            return False
        batches = int(self._watched.cardinality())
        return batches == tf.data.INFINITE_CARDINALITY or batches > steps
