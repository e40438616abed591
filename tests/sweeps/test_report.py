"""The interactive report: it holds what the store holds, needs no network, and its script runs."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Mapping
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from tileloom.archdsl import Infeasible
from tileloom.sweeps.evaluation import PointResult, infeasible_result, ok_result
from tileloom.sweeps.objectives import Objective
from tileloom.sweeps.plots import front_plot, plot_sweep
from tileloom.sweeps.plots.front import Standing
from tileloom.sweeps.report import make_report, page_data, render_report, write_report
from tileloom.sweeps.store import PointStatus, SweepResults
from tileloom.sweeps.writer import PointRow, open_for_writing

BROWSERS = ("chromium", "chromium-browser", "google-chrome")
ROWS = (4, 8, 16, 32)
SPEC = "schema_version: 1\nname: tiny # </script><script>alert(1)</script>\n"


def document(rows: int) -> dict[str, object]:
    """An estimate document cut down to what the report reads."""
    memory_pj, mac_pj = 1e6 * rows, 3e6
    actions = {
        "dram": {"I": {"read": 700, "write": 0}, "O": {"read": 0, "write": 300}},
        "sram": {"I": {"read": 9, "write": 9}},
    }
    conv = {
        "name": "conv",
        "kind": "conv",
        "count": 2,
        "macs": 50_000,
        "datatype": "int8",
        "latency_cycles": 4096 // rows,
        "bottleneck": "mac",
        "actions": actions,
        "energy_parts_pj": {"dram": memory_pj, "mac": mac_pj},
    }
    pool = {
        **conv,
        "name": "pool",
        "kind": "maxpool",
        "count": 1,
        "macs": 0,
        "bottleneck": "dram",
        "energy_parts_pj": {"dram": 5.0, "vector": 1.0},
    }
    roof = {
        "peak_ops_per_s": {"int8": 2e9 * rows},
        "main_memory": "dram",
        "read_bytes_per_s": 16e9,
        "write_bytes_per_s": None,
        "shares_port": False,
    }
    names = {
        "arch": "ref16",
        "workload": "net",
        "objective": "energy",
        "fidelity": "throughput",
        "convention": "tileloom",
    }
    table: dict[str, dict[str, object]] = {"levels": {"dram": {}, "sram": {}}}
    return {**names, "clock_hz": 1e9, "ops": [pool, conv], "energy_table": table, "roofline": roof}


def priced(idx: int, rows: int, *, energy_pj: float | None = None, area_mm2: float | None = None) -> PointResult:
    total = {
        "latency_cycles": 4096.0 / rows,
        "latency_s": 4.096e-6 / rows,
        "energy_pj": 1e6 * rows if energy_pj is None else energy_pj,
        "area_mm2": 0.5 * rows if area_mm2 is None else area_mm2,
        "main_memory_bytes": 2000.0,
        "macs": 100_000.0,
        "utilization": 0.5,
    }
    estimate = {**document(rows), "total": total}
    return ok_result(f"{idx:016x}", {"net": estimate, "block": {**estimate, "workload": "block"}})


@pytest.fixture
def results(tmp_path: Path) -> SweepResults:
    """A finished sweep: four designs on the front, a dominated, an infeasible, an excluded and a pending one."""
    meta: Mapping[str, Any] = {
        "name": "tiny",
        "base": "ref16",
        "arch_name": "ref16",
        "spec_text": SPEC,
        "axes": [{"path": "parameters.rows", "values": [*ROWS], "unit": ""}, {"path": "a.capacity", "values": ["1 KiB"], "unit": "bytes"}],
        "workloads": [
            {"name": name, "spec": f"{name}.onnx", "size": "100,000 MACs in 3 ops", "unmodelled": ["n (Loop): unknown"], "notices": ["batch taken as 1"]}
            for name in ("net", "block")
        ],
        "objectives": ["latency", "energy"],
        "constraints": ["area_mm2 <= 100"],
        "pricing": "mapping",
        "mapping": {"objective": "energy", "fidelity": "throughput", "convention": "tileloom", "time_limit": None},
        "constants": {"mode": "datasheet", "calibration": None},
        "sampler": {"kind": "grid"},
        "model_version": "0123456789abcdef",
    }  # fmt: skip
    found = [priced(idx, rows) for idx, rows in enumerate(ROWS)]
    found += [priced(4, 4, energy_pj=9e9), priced(5, 4, area_mm2=200.0)]
    reason = Infeasible(resource="sram capacity", demand=300, limit=200, unit="bytes", levers=("more of it",))
    with open_for_writing(tmp_path, "tiny") as writer:
        writer.begin(meta)
        writer.list_points(
            PointRow(
                index=idx,
                id=f"{idx:016x}",
                inputs=(("parameters.rows", ROWS[idx % 4]), ("a.capacity", "1 KiB")),
                terms={"parameters.rows": float(ROWS[idx % 4]), "a.capacity": 1024.0},
            )
            for idx in range(8)
        )
        writer.write([*found, infeasible_result(f"{6:016x}", reason)])
    return SweepResults.load(tmp_path)


class Page(HTMLParser):
    """Collects what could make a page fetch something, and its embedded data."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.references: list[str] = []
        self.policy = ""
        self.scripts: list[str] = []
        self._in_script = False
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        self.references += [f"{tag} {name}" for name in given if name in ("src", "href", "srcset", "action", "data")]
        if tag == "meta" and given.get("http-equiv") == "Content-Security-Policy":
            self.policy = given["content"] or ""
        if tag == "script":
            self._in_script = True
            self.scripts.append("")

    def handle_endtag(self, tag: str) -> None:
        self._in_script = self._in_script and tag != "script"

    def handle_data(self, data: str) -> None:
        if self._in_script:
            self.scripts[-1] += data


def embedded(results: SweepResults) -> dict[str, Any]:
    return json.loads(Page(render_report(make_report(results, commit="abc"))).scripts[0])


def test_page_refers_to_nothing_outside_itself(results: SweepResults) -> None:
    text = render_report(make_report(results, commit="abc"))
    page = Page(text)
    assert page.references == []
    assert page.policy.startswith("default-src 'none'")
    outside = [part for part in text.split("http")[1:] if part.startswith(("://", "s://"))]
    assert all(part.startswith("://www.w3.org/2000/svg") for part in outside)
    assert "@import" not in text and "url(http" not in text


def test_text_of_the_specification_cannot_end_the_script(results: SweepResults) -> None:
    page = Page(render_report(make_report(results, commit="abc")))
    assert len(page.scripts) == 2
    notes = {name: text for name, text, _ in json.loads(page.scripts[0])["notes"]}
    assert notes["specification"] == SPEC


def test_report_repeats_byte_for_byte(results: SweepResults, tmp_path: Path) -> None:
    again = SweepResults.load(results.directory)
    first = write_report(make_report(results, commit="abc"), tmp_path / "a" / "report.html")
    other = write_report(make_report(again, commit="abc"), tmp_path / "b" / "report.html")
    assert first.read_bytes() == other.read_bytes()


def test_report_lists_every_finished_point_with_its_standing(results: SweepResults) -> None:
    data = embedded(results)
    assert [design["standing"] for design in data["designs"]] == [
        *["front"] * 4,
        "dominated",
        "excluded",
        "infeasible",
    ]
    assert data["designs"][5]["reason"] == "violates area_mm2 <= 100"
    assert data["designs"][6]["reason"] == "sram capacity: needs 300 bytes, has 200 bytes"
    assert data["designs"][6]["metrics"][0] is None
    assert "1 more not run yet" in data["caption"]
    knee = results.knee()
    assert knee is not None and data["designs"][data["knee"]]["id"] == knee.id


def test_objectives_come_first_and_area_is_of_the_design_alone(results: SweepResults) -> None:
    metrics = embedded(results)["metrics"]
    assert [m["name"] for m in metrics if m["isObjective"]] == ["latency_s", "energy_pj"]
    assert [m["name"] for m in metrics[:2]] == ["latency_s", "energy_pj"]
    assert [m["name"] for m in metrics if not m["perWorkload"]] == ["area_mm2"]


def test_breakdown_holds_the_documents_energy_and_main_memory_bytes(results: SweepResults) -> None:
    data = embedded(results)
    net, block = data["details"][data["designs"][2]["detail"]]
    pool, conv = net["ops"]
    assert net == block
    assert data["parts"] == ["dram", "mac", "vector"]
    assert data["ops"][conv[0]] == ["conv", 2, 50_000, "int8"]
    assert conv[1:5] == [256, data["bottlenecks"].index("mac"), 700, 300]
    assert conv[5:] == [1e6 * 16, 3e6]
    assert pool[5:] == [5, 0, 1]
    assert net["roof"]["writeBytesPerS"] is None


def test_large_sweeps_keep_the_breakdowns_of_the_front(results: SweepResults) -> None:
    data = page_data(make_report(results, commit="abc", max_breakdowns=4))
    designs = data["designs"]
    assert isinstance(designs, list)
    kept = [isinstance(d, dict) and d["detail"] is not None for d in designs]
    assert kept == [*[True] * 4, *[False] * 3]


def test_front_plot_counts_and_names_what_the_store_holds(results: SweepResults) -> None:
    plot = front_plot(results, commit="abc")
    assert [axis.name for axis in plot.axes] == ["latency_s", "energy_pj"]
    assert plot.title == "4 of 7 designs are Pareto-optimal; they span latency 8x and energy 8x"
    assert [p.standing for p in plot.points].count(Standing.FRONT) == 4
    assert str(plot.caption).startswith("net, block; 7 design points; ref16; mapped for energy; ")
    assert plot.points[0].parameters == (("parameters.rows", "4"), ("a.capacity", "1 KiB"))


def test_single_objective_is_shown_against_area(results: SweepResults) -> None:
    plot = front_plot(results, commit="abc", objectives=(Objective.ENERGY,))
    assert [axis.name for axis in plot.axes] == ["energy_pj", "area_mm2"]


def test_front_plot_of_other_objectives_has_its_own_front(results: SweepResults) -> None:
    plot = front_plot(results, commit="abc", objectives=(Objective.LATENCY, Objective.AREA))
    assert plot.points[4].standing is Standing.FRONT  # equal to the first point but for its energy
    assert [axis.quantity for axis in plot.axes] == ["Latency of all workloads", "Area"]
    assert results.count(PointStatus.PENDING) == 1


def test_sweep_draws_its_front_and_the_knee_of_every_workload(results: SweepResults, tmp_path: Path) -> None:
    files = plot_sweep(results, tmp_path / "plots")
    assert [path.name for path in files if path.suffix == ".png"] == [
        "pareto.png",
        "knee_net_breakdown.png",
        "knee_net_roofline.png",
        "knee_block_breakdown.png",
        "knee_block_roofline.png",
    ]
    assert all(path.stat().st_size > 0 for path in files)


def browser_dump(browser: str, url: str, profile: Path) -> str:
    command = [
        browser, "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync",
        "--disable-background-networking", "--disable-component-update", f"--user-data-dir={profile}",
        "--virtual-time-budget=2000", "--dump-dom", url,
    ]  # fmt: skip
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=True).stdout


@pytest.mark.slow
def test_script_draws_the_design_that_the_address_names(results: SweepResults, tmp_path: Path) -> None:
    browser = next((path for name in BROWSERS if (path := shutil.which(name))), None)
    if browser is None:
        # Also under CI=1: a browser is no dependency of the project, and no command of it needs one.
        pytest.skip("no Chromium to run the report's script")
    path = write_report(make_report(results, commit="abc"), tmp_path / "report.html")
    chosen = results.records[4].id
    dom = browser_dump(
        browser, f"{path.as_uri()}#design={chosen}&x=energy_pj&y=area_mm2&workload=block", tmp_path / "profile"
    )
    assert "Chosen design: dominated" in dom
    assert chosen in dom
    assert "Area [mm^2]" in dom
    assert 'class="chosen"' in dom
    assert "conv x2" in dom and "scratchpad" not in dom
    assert "bound by" in dom
