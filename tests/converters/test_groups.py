"""Workers are forked where nothing is lost by it, and started anew elsewhere; either way they hold nothing of ours."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.skipif(not Path("/proc/self/task").is_dir(), reason="needs Linux's /proc")

#: Starts a group with one worker while a file is open and, if told so, a thread waits; says how it is made.
PROGRAM = """
import json, os, sys, threading, time
from pathlib import Path
from dataio.converters.groups import start_group

kept = open(sys.argv[1], "w")
done = threading.Event()
if sys.argv[2] == "threaded":
    threading.Thread(target=done.wait).start()
(given, ours), (theirs, told) = os.pipe(), os.pipe()
began = time.monotonic()
group = start_group([(given, told)])
os.close(given), os.close(told)
said = os.fdopen(theirs, "r")
worker = json.loads(said.readline())["pid"]
opened = {}
for name, pid in ("group", group.pid), ("worker", worker):
    links = [link for link in Path(f"/proc/{pid}/fd").iterdir()]
    opened[name] = [os.readlink(link) for link in links]
command = Path(f"/proc/{group.pid}/cmdline").read_bytes()
answer = {
    "forked": command == Path("/proc/self/cmdline").read_bytes(),
    "opened": opened,
    "process_group": os.getpgid(worker) == group.pid != os.getpgrp(),
}
os.close(ours)
rest = said.read()
answer["code"] = group.wait()
answer["told"] = os.read(group.told, 100).decode() == f"{worker} 0\\n"
group.close()
done.set()
print(json.dumps(answer))
"""


def started(tmp_path: Path, how: str) -> dict[str, Any]:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(tmp_path / "kept"), how], capture_output=True, text=True, check=True
    )
    assert done.stderr == ""
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer


@pytest.mark.parametrize(("how", "forked"), [("alone", True), ("threaded", False)])
def test_a_process_forks_its_workers_unless_other_threads_run_in_it(how: str, forked: bool, tmp_path: Path) -> None:
    answer = started(tmp_path, how)
    assert answer["forked"] is forked
    assert answer["process_group"]
    assert answer["code"] == 0
    assert answer["told"]


@pytest.mark.parametrize("how", ["alone", "threaded"])
def test_workers_hold_no_file_of_their_parent_open(how: str, tmp_path: Path) -> None:
    for descriptors in started(tmp_path, how)["opened"].values():
        assert descriptors
        assert str(tmp_path / "kept") not in descriptors
