"""report.html in a real browser: it fits a phone and a desk, and draws what it should."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from dataio.bench.report.page import render
from tests.bench.sample_results import sample_results

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")

#: Written into a copy of the page: measures it and leaves the figures in the title, where --dump-dom shows them. An
#: iframe gives widths below the 500 px that a headless window cannot go under.
PROBE = """<!doctype html><title>-</title><body style="margin:0">
<iframe id="page" style="border:0;width:{width}px;height:3000px"></iframe>
<script>
const frame = document.getElementById("page");
frame.onload = () => {{
  const inner = frame.contentDocument, root = inner.documentElement;
  const wide = [...inner.querySelectorAll("section, header, .fact, .row")]
    .filter(one => one.getBoundingClientRect().right > {width} + 1).length;
  document.title = ["probe", root.scrollWidth, wide, inner.querySelectorAll(".row .bar").length].join(" ");
}};
frame.srcdoc = {page};
</script>"""


@pytest.mark.skipif(CHROMIUM is None, reason="needs a Chromium browser")
@pytest.mark.parametrize("width", [360, 390, 1100])
def test_nothing_is_wider_than_the_screen(tmp_path: Path, width: int) -> None:
    results = sample_results()
    page = json.dumps(render(results)).replace("</", "<\\/")
    (tmp_path / "probe.html").write_text(PROBE.format(width=width, page=page))
    done = subprocess.run(
        [
            str(CHROMIUM), "--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={tmp_path / 'profile'}",
            "--virtual-time-budget=3000", "--window-size=1200,3000", "--dump-dom", f"file://{tmp_path / 'probe.html'}",
        ],
        capture_output=True,
        text=True,
        timeout=120,
    )  # fmt: skip
    found = re.search(r"<title>probe (\d+) (\d+) (\d+)</title>", done.stdout)
    assert found, done.stderr[-2000:]
    scroll_width, too_wide, bars = map(int, found.groups())
    assert scroll_width <= width
    assert too_wide == 0
    assert bars >= len(results.runs)
