"""Help on 80 columns, in a terminal and without one: nothing is cut and nothing is wider."""

from __future__ import annotations

import fcntl
import os
import pty
import struct
import subprocess
import sys
import termios
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
COMMANDS = ("convert", "inspect", "verify", "repair", "bench", "demo", "export")


def help_of(*command: str, terminal: bool) -> str:
    """What `dataio COMMAND --help` prints, to a terminal of 80 columns or into a pipe."""
    arguments = [sys.executable, "-m", "dataio", *command, "--help"]
    environment = {name: value for name, value in os.environ.items() if name not in ("COLUMNS", "TERMINAL_WIDTH")}
    if not terminal:
        done = subprocess.run(
            arguments, cwd=ROOT, env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=True
        )
        return done.stdout
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 50, 80, 0, 0))
    with subprocess.Popen(arguments, cwd=ROOT, env=environment, stdin=theirs, stdout=theirs, stderr=theirs) as process:
        os.close(theirs)
        printed = b""
        while True:
            try:
                more = os.read(ours, 1 << 16)
            except OSError:  # how Linux tells that the other side of a terminal is closed
                break
            if not more:
                break
            printed += more
    os.close(ours)
    assert process.returncode == 0
    return printed.decode().replace("\r\n", "\n")


@pytest.mark.parametrize("terminal", [True, False], ids=["terminal", "pipe"])
def test_the_list_of_commands_cuts_no_line(terminal: bool) -> None:
    text = help_of(terminal=terminal)
    lines = [line for line in text.split("Commands:")[1].splitlines() if line.strip()]
    assert [line.split()[0] for line in lines] == list(COMMANDS)
    assert all(line.endswith(".") and not line.endswith("...") for line in lines)
    assert max(map(len, text.splitlines())) <= 80


@pytest.mark.parametrize("command", COMMANDS)
def test_the_help_of_a_command_fits_80_columns_and_cuts_nothing(command: str) -> None:
    text = help_of(command, terminal=True)
    assert max(map(len, text.splitlines())) <= 80
    assert not [line for line in text.splitlines()[1:] if line.endswith(("...", "…"))]
    assert text == help_of(command, terminal=False), "a pipe shows the same"
