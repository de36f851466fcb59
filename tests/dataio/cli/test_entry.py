"""The entry point turns every end of a run into one line and an exit code."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]


def run(*arguments: str, before: str = "", shell_tail: str = "", **variables: str) -> subprocess.CompletedProcess[str]:
    """Runs the command line in a process of its own, after the Python statements `before`."""
    code = f"import sys\n{before}\nfrom dataio.cli import main\nsys.argv = ['dataio', *sys.argv[1:]]\nmain()\n"
    command = 'exec "$@" ' + shell_tail
    return subprocess.run(
        ["sh", "-c", command, "sh", sys.executable, "-c", code, *arguments],
        env=os.environ | {"PYTHONPATH": str(ROOT)} | variables,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )


def test_an_error_is_one_line_and_code_1(tmp_path: Path) -> None:
    done = run("inspect", str(tmp_path / "nowhere"))
    assert done.returncode == 1
    assert done.stderr.startswith("dataio: ") and done.stderr.count("\n") == 1


def test_an_interrupt_while_importing_is_one_line_and_code_130() -> None:
    interrupting = (
        "class Interrupt:\n"
        "    def find_spec(self, name, path, target=None):\n"
        "        if name == 'typer':\n"
        "            raise KeyboardInterrupt\n"
        "sys.meta_path.insert(0, Interrupt())\n"
    )
    done = run("--help", before=interrupting)
    assert (done.returncode, done.stderr) == (130, "dataio: interrupted\n")


def test_a_full_output_device_is_said() -> None:
    if not Path("/dev/full").exists():
        pytest.skip("needs /dev/full")
    done = run("--help", shell_tail="> /dev/full")
    assert done.returncode == 1
    assert done.stderr == "dataio: cannot write the output: no space left on the device it goes to\n"


def test_a_reader_that_goes_away_is_no_error_message() -> None:
    closing = "import os\nreading, writing = os.pipe()\nos.dup2(writing, 1)\nos.close(writing)\nos.close(reading)"
    done = run("--help", before=closing)
    assert done.stderr == ""
    assert done.returncode in (1, 141)  # click leaves with 1 where it is the one that meets the closed pipe


def test_closed_streams_do_no_harm() -> None:
    assert run("--help", shell_tail=">&- 2>&-").returncode == 0
    assert run("--version", shell_tail="<&- >&-").returncode == 0


def test_letters_that_the_terminal_lacks_are_written_out(tmp_path: Path) -> None:
    from PIL import Image

    source = tmp_path / "source"
    (source / "caf\u00e9").mkdir(parents=True)
    Image.new("RGB", (8, 8)).save(source / "caf\u00e9" / "a.jpg")
    done = run("convert", str(source), str(tmp_path / "out"), "--to", "hdf5", PYTHONIOENCODING="ascii", LC_ALL="C")
    assert done.returncode == 0, done.stderr
    assert "caf\\xe9" in done.stdout
