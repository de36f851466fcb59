"""Workers that die or hang, over every format: others do their work, and the bytes are the same."""

from __future__ import annotations

import signal
import time
from pathlib import Path

import psutil

from dataio.converters.conversion import Progress, convert
from tests.converters.conversions import contents, every_format, options


class Disturbance:
    """Sends a signal to one worker when the conversion reports for the first time, before any unit is done."""

    def __init__(self, number: signal.Signals) -> None:
        self._number = number
        self.happened = False

    def __call__(self, progress: Progress) -> None:
        if not self.happened:
            # The workers are children of our newest child; older ones are other tests' (multiprocessing's tracker).
            group = max(psutil.Process().children(), key=lambda child: child.create_time())
            until = time.monotonic() + 30
            while not group.children():
                assert time.monotonic() < until, "the workers did not start"
                time.sleep(0.01)
            group.children()[-1].send_signal(self._number)
            self.happened = True


@every_format
def test_a_worker_that_dies_is_replaced_and_its_unit_done_again(
    to: str, source: Path, tmp_path: Path, reference: dict[str, dict[str, str]]
) -> None:
    disturbed = Disturbance(signal.SIGKILL)
    convert(source, tmp_path / "out", options(to), workers=2, report=disturbed)
    assert disturbed.happened
    assert contents(tmp_path / "out") == reference[to]


@every_format
def test_a_worker_that_hangs_is_replaced_and_its_unit_done_again(
    to: str, source: Path, tmp_path: Path, reference: dict[str, dict[str, str]]
) -> None:
    disturbed = Disturbance(signal.SIGSTOP)
    convert(source, tmp_path / "out", options(to), workers=2, report=disturbed, quiet_seconds=2)
    assert disturbed.happened
    assert contents(tmp_path / "out") == reference[to]
