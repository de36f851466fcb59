"""The command line's quiet start: known lines go, everything else stays."""

from __future__ import annotations

import io
import os
import subprocess
import sys

import pytest

from dataio.cli.quiet_start import replay

KNOWN = (
    "WARNING: All log messages before absl::InitializeLog() is called are written to STDERR\n"
    "I0000 00:00:1.1 1 port.cc:153] oneDNN custom operations are on. You may see slightly different results\n"
    "To enable the following instructions: AVX2 FMA, in other operations, rebuild TensorFlow with the appropriate "
    "compiler flags.\n"
)
CUDA = "E0000 00:00:1.1 1 cuda_platform.cc:52] failed call to cuInit: UNKNOWN ERROR (303)\n"
OTHER = "E0000 00:00:1.1 1 file_system.cc:1] something is really wrong\n"


def replayed(text: str, *, has_gpu: bool) -> str:
    stream = io.StringIO()
    replay(text, stream, has_gpu=has_gpu)
    return stream.getvalue()


@pytest.mark.parametrize("has_gpu", [True, False])
def test_known_lines_go_and_others_stay(has_gpu: bool) -> None:
    assert replayed(KNOWN + OTHER, has_gpu=has_gpu) == OTHER


def test_a_failing_driver_is_said_where_there_is_one() -> None:
    assert replayed(CUDA, has_gpu=True) == CUDA
    assert replayed(CUDA, has_gpu=False) == ""


def test_a_real_start_is_silent_and_later_lines_are_not() -> None:
    code = (
        "import os; from dataio.cli.quiet_start import import_tensorflow; import_tensorflow(); "
        "os.write(2, b'still here\\n')"
    )
    environment = {name: value for name, value in os.environ.items() if name != "TF_CPP_MIN_LOG_LEVEL"}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, env=environment, check=True)
    assert done.stderr == b"still here\n"
    assert done.stdout == b""


def test_what_was_said_before_an_import_error_is_not_lost() -> None:
    code = (
        "import os, sys, types\n"
        "class Finder:\n"
        "    def find_spec(self, name, *rest):\n"
        "        if name == 'tensorflow':\n"
        "            os.write(2, b'libcudart.so: wrong version\\n')\n"
        "            raise ImportError('no tensorflow')\n"
        "sys.meta_path.insert(0, Finder())\n"
        "from dataio.cli.quiet_start import import_tensorflow\n"
        "import_tensorflow()\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True)
    assert done.returncode == 1
    assert b"wrong version" in done.stderr and b"no tensorflow" in done.stderr
