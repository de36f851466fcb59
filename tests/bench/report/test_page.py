"""report.html: self-contained, complete, and safe whatever the names are."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from dataio.bench.filling import FirstFill
from dataio.bench.report.charts import scatter
from dataio.bench.report.page import render, write_report
from dataio.bench.results import Rate
from tests.bench.sample_results import sample_results

VOID = {"meta", "br"}


class Balance(HTMLParser):
    """Notes tags that are closed in the wrong order, and everything that would be loaded from elsewhere."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.faults: list[str] = []
        self.loads: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag not in VOID:
            self.open.append(tag)
        self.loads += [value or "" for name, value in attrs if name in ("src", "href", "srcset")]

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.loads += [value or "" for name, value in attrs if name in ("src", "href", "srcset")]

    def handle_endtag(self, tag: str) -> None:
        if not self.open or self.open.pop() != tag:
            self.faults.append(tag)


def parsed(page: str) -> Balance:
    parser = Balance()
    parser.feed(page)
    parser.close()
    return parser


@pytest.mark.parametrize("options", [{}, {"step": False}, {"sweep": False}, {"everything": False, "step": False}])
def test_the_page_is_well_formed_and_loads_nothing(options: dict[str, Any]) -> None:
    page = render(sample_results(**options))
    found = parsed(page)
    assert found.faults == [] and found.open == []
    assert found.loads == []
    assert "url(" not in page and "@import" not in page


def test_every_part_is_there() -> None:
    page = render(sample_results())
    for title in (
        "Waiting and stepping",
        "Throughput by plan",
        "Where the processor",
        "What would help",
        "The sweep",
        "Memory",
        "Predicted against measured",
        "The plan chosen",
        "Machine and method",
    ):
        assert title in page


def test_parts_without_figures_are_left_out() -> None:
    page = render(sample_results(step=False, sweep=False, everything=False))
    for title in ("Waiting and stepping", "The sweep", "What would help", "Predicted against measured"):
        assert title not in page


def test_the_verdict_stands_before_everything_else() -> None:
    page = render(sample_results())
    assert page.index("The device is fed") < page.index("<section")


def test_names_are_escaped() -> None:
    results = sample_results()
    evil = "<script>alert(1)</script>"
    datasets = (results.datasets[0].replace(name=evil),)
    page = render(
        results.replace(
            datasets=datasets,
            runs=tuple(run.replace(data=evil) for run in results.runs),
            loops=tuple(loop.replace(data=evil, run=evil) for loop in results.loops),
        )
    )
    assert "<script" not in page


def test_nothing_is_drawn_outside_its_track() -> None:
    page = render(sample_results())
    widths = [float(found) for found in re.findall(r"width:([\d.]+)%", page)]
    places = [float(found) for found in re.findall(r"left:([\d.]+)%", page)]
    assert widths and max(widths) <= 100
    assert places and max(places) <= 100


def test_a_demand_far_above_the_bars_does_not_flatten_them() -> None:
    results = sample_results()
    assert results.step is not None
    page = render(results.replace(step=results.step.replace(images_per_second=1e6)))
    widths = [float(found) for found in re.findall(r'class="bar" style="width:([\d.]+)%', page)]
    assert max(widths[: len(results.runs)]) > 80
    assert "1,000,000 images/s" in page


def test_an_interval_that_leaves_the_picture_ends_in_an_arrow_and_not_in_a_cap() -> None:
    results = sample_results()
    assert 'class="interval open"' not in render(results)
    wild = results.chosen.replace(images_per_second=Rate(median=900, low=0, high=100_000))
    page = render(results.replace(runs=tuple(wild if run.chosen else run for run in results.runs)))
    assert page.count('class="interval open"') == 1
    assert "an arrow where it reaches further" in page


def test_no_unit_starts_a_line_of_its_own() -> None:
    page = render(sample_results())
    assert not re.search(r"\d (%|MB|GB|ms|s)\b", re.sub(r"<(pre|style)>.*?</\1>", "", page, flags=re.S))
    assert "162\N{NO-BREAK SPACE}MB" in page


def test_the_tile_of_the_gain_shows_its_interval() -> None:
    assert re.search(
        r"<b>1\.\d\d ×</b><span>the supply of TensorFlow&#39;s guide \(1\.\d\d to 1\.\d\d\)", render(sample_results())
    )


def test_the_gpu_has_tiles_where_it_was_watched() -> None:
    results = sample_results()
    assert "GPU" not in render(results)
    loops = tuple(loop.replace(gpu_utilisation=0.83, host_to_device_bytes_per_second=9.5e9) for loop in results.loops)
    page = render(results.replace(loops=loops))
    assert "<b>83\N{NO-BREAK SPACE}%</b><span>GPU busy" in page
    assert "<b>9,500\N{NO-BREAK SPACE}MB/s</b>" in page


def test_the_first_fill_of_an_epoch_is_told_with_its_figure() -> None:
    results = sample_results()
    fill = FirstFill(epoch_batches=25, seconds=0.4, share=0.12)
    page = render(results.replace(loops=tuple(loop.replace(first_fill=fill) for loop in results.loops)))
    assert (
        "the start takes 400\N{NO-BREAK SPACE}ms, 12\N{NO-BREAK SPACE}% of the time of an epoch of 25 batches" in page
    )
    assert page.count("starts of epochs: 12\N{NO-BREAK SPACE}% of the time") == 2, "before and after"


def test_the_end_of_an_epoch_is_told_with_its_figure_and_remedy() -> None:
    results = sample_results()
    fill = FirstFill(epoch_batches=25, seconds=0.4, end_seconds=1.1, share=0.2)
    page = render(results.replace(loops=tuple(loop.replace(first_fill=fill) for loop in results.loops)))
    assert page.count("starts and ends of epochs: 20\N{NO-BREAK SPACE}% of the time") == 2, "before and after"
    assert "start and end take 400\N{NO-BREAK SPACE}ms and, on average, 1.1\N{NO-BREAK SPACE}s" in page
    assert "autotune=False" in page
    chosen = results.chosen.replace(plan=results.chosen.plan.replace(autotune=False))
    runs = tuple(chosen if run.chosen else run for run in results.runs)
    page = render(results.replace(runs=runs, loops=tuple(loop.replace(first_fill=fill) for loop in results.loops)))
    assert "holds up the end" not in page, "that plan is not held up"


def test_the_ticks_of_a_scatter_do_not_run_into_each_other() -> None:
    points = [(rate, rate, rate, rate, "plan", False) for rate in (300.0, 3000.0)]
    places = [
        float(found)
        for found in re.findall(
            r'x="([\d.]+)" y="386" text-anchor="middle">', scatter(points, x_title="x", y_title="y")
        )
    ]
    assert len(places) >= 3
    assert min(after - before for before, after in pairwise(places)) > 45


def test_the_file_is_written_whole(tmp_path: Path) -> None:
    write_report(sample_results(), tmp_path / "report.html")
    assert [path.name for path in tmp_path.iterdir()] == ["report.html"]
    assert (tmp_path / "report.html").read_text().endswith("</html>")
