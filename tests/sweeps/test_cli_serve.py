"""`tileloom serve`: exit codes, stdout, JSON, figures, and the examples in its help."""

from __future__ import annotations

import csv
import json
import shlex
from pathlib import Path
from typing import Any

import pytest

from tileloom.sweeps.cli import main

ESTIMATE = ("serve", "estimate", "--model", "llama3.1_8b", "--system", "2xh100_sxm")
PLAN = ("serve", "plan", "--model", "llama3.1_70b", "--system", "16xh100_sxm", "--rate", "4")


@pytest.fixture(autouse=True)
def own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Commands write below the working directory."""
    monkeypatch.chdir(tmp_path)


def run(capsys: pytest.CaptureFixture[str], *argv: str) -> tuple[int, str, str]:
    """Exit code, stdout and stderr of one command line."""
    status = main(argv)
    out, err = capsys.readouterr()
    return status, out, err


def run_json(capsys: pytest.CaptureFixture[str], *argv: str) -> Any:
    status, out, _ = run(capsys, *argv, "--json")
    assert status == 0
    return json.loads(out)


def total(part: Any) -> float:
    """A part's amount as its parts give it."""
    return sum(total(below) for below in part["parts"]) if "parts" in part else part["amount"]


def test_estimate_prints_its_metrics_with_units(capsys: pytest.CaptureFixture[str]) -> None:
    status, out, err = run(capsys, *ESTIMATE, "--tp", "2", "--concurrency", "16")
    assert status == 0
    lines = out.splitlines()
    assert lines[0].startswith("llama3.1_8b (published, 16-bit cache) on 2 of 2xh100_sxm, tp=2 pp=1 dp=1 ep=1")
    assert [line.split("  ")[0] for line in lines[2:]] == [
        "TTFT, idle",
        "TTFT, fixed concurrency",
        "TTFT, random arrivals",
        "TTFT, load test",
        "TPOT",
        "TPOT, random arrivals",
        "latency of a request",
        "tokens/s per user",
        "tokens/s per chip",
        "tokens/s",
        "power",
        "memory of a chip",
    ]
    assert "note: attention to keys and values by models.gpu.attention" in err


def test_estimate_json_follows_from_its_parts(capsys: pytest.CaptureFixture[str]) -> None:
    found = run_json(capsys, *ESTIMATE, "--concurrency", "8", "--osl", "128")
    assert found["schema_version"] == 1
    parts = {part["name"]: part for part in found["parts"]}
    assert total(parts["TPOT"]) == pytest.approx(found["tpot_s"])
    assert total(parts["TTFT, fixed concurrency"]) == pytest.approx(found["ttft_queued_s"])
    assert found["requests_per_s"] * found["latency_s"] == pytest.approx(8)
    assert found["joules_per_token"] == pytest.approx(found["power_w"] / found["tokens_per_s"])
    assert found["layout"] == {"tp": 1, "pp": 1, "dp": 1, "ep": 1, "num_chips": 1}


def test_estimate_says_more_when_asked(capsys: pytest.CaptureFixture[str]) -> None:
    _, _, err = run(capsys, "-v", *ESTIMATE, "--concurrency", "8")
    assert "  decoding: " in err
    assert "    dense products: " in err


def test_model_that_does_not_fit_exits_with_4_and_the_missing_bytes(capsys: pytest.CaptureFixture[str]) -> None:
    argv = ("serve", "estimate", "--model", "llama3.1_405b", "--system", "h100_sxm", "--quantisation", "bf16")
    status, out, _ = run(capsys, *argv)
    assert status == 4
    lines = out.splitlines()
    assert lines[0].startswith("infeasible: llama3.1_405b: main memory of one h100_sxm")
    missing = int(lines[-1].removeprefix("missing: ").removesuffix(" bytes").replace(",", ""))
    status, out, _ = run(capsys, *argv, "--json")
    answer = json.loads(out)["infeasible"]
    assert status == 4
    assert answer["missing"] == missing == answer["demand"] - 80_000_000_000
    assert dict(answer["terms"])["weights"] == 811_706_777_600


def test_plan_of_a_model_that_does_not_fit_exits_with_4(capsys: pytest.CaptureFixture[str]) -> None:
    status, out, _ = run(capsys, "serve", "plan", "--model", "llama3.1_405b", "--system", "h100_sxm", "--rate", "1")
    assert status == 4
    assert out.splitlines()[-1].startswith("missing: 7")


def test_plan_names_chips_and_what_binds(capsys: pytest.CaptureFixture[str]) -> None:
    status, out, _ = run(capsys, *PLAN, "--slo", "ttft=1s,tpot=40ms")
    assert status == 0
    assert out.splitlines()[1].startswith("plan: 4 chips: 1 replica of tp=4 pp=1 dp=1 ep=1, ")
    assert out.splitlines()[2] == "binding: memory, tpot"  # two chips would do without both
    assert out.splitlines()[3].startswith("else: 6 chips: prompts on 1 x tp=2 pp=1 dp=1 ep=1, decoding on 1 x ")
    assert "(knee)" in out


def test_plan_is_that_of_other_chips_where_gpus_alone_do_not_hold(capsys: pytest.CaptureFixture[str]) -> None:
    options = ("--slo", "tpot=6ms", "--ffn", "256xlp30", "--quantisation", "fp8")
    status, out, _ = run(capsys, *PLAN, *options)
    assert status == 0
    lines = out.splitlines()
    assert lines[1].startswith(
        "plan: 130 chips: 1 replica of tp=2 pp=1 dp=1 ep=1 with 128 lp30 for feed-forward networks"
    )
    assert lines[2] == "binding: tpot"
    assert lines[3].startswith("else: infeasible: llama3.1_70b: chips of 16xh100_sxm: needs ")
    found = run_json(capsys, *PLAN, *options)
    assert found["cheapest"] == "split"
    assert found["plan"] is None and found["apart"] is None and found["front"] == []
    assert found["split"]["instance"]["tpot_open_s"] <= 0.006


def test_load_test_of_a_slow_front_end_waits(capsys: pytest.CaptureFixture[str]) -> None:
    plain = run_json(capsys, *ESTIMATE, "--concurrency", "32")
    slow = run_json(capsys, *ESTIMATE, "--concurrency", "32", "--front-end-rate", "1000", "--max-sequences", "31")
    assert slow["tokens_per_s"] == pytest.approx(1000)
    assert slow["load_test"]["tpot_s"] > plain["load_test"]["tpot_s"]
    assert plain["load_test"]["ttft_s"] > plain["ttft_s"]
    assert plain["tokens_per_joule"] == pytest.approx(plain["tokens_per_s"] / plain["power_w"])


def test_plan_json_has_a_front_without_dominated_points(capsys: pytest.CaptureFixture[str]) -> None:
    found = run_json(capsys, *PLAN, "--slo", "tpot=25ms")
    plan, front = found["plan"], found["front"]
    assert plan["instance"]["tpot_open_s"] <= 0.025
    assert plan["num_chips"] == plan["replicas"] * plan["instance"]["layout"]["num_chips"]
    assert plan["binding"] == ["memory", "tpot"]
    users = [row["tokens_per_s_per_user"] for row in front]
    chips = [row["tokens_per_s_per_chip"] for row in front]
    assert users == sorted(users, reverse=True)
    assert chips == sorted(chips)
    assert sum(row["is_knee"] for row in front) == 1
    assert all(row["holds"] == (row["tpot_s"] <= 0.025) for row in front)


def test_plan_draws_its_front(capsys: pytest.CaptureFixture[str]) -> None:
    status, _, err = run(capsys, *PLAN, "--slo", "tpot=40ms", "-o", "drawn")
    assert status == 0
    for name in ("front.png", "front.svg", "front.csv", "plan.json"):
        assert Path("drawn", name).is_file()
        assert f"wrote {Path('drawn', name)}" in err
    rows = list(csv.DictReader(Path("drawn", "front.csv").read_text(encoding="utf-8").splitlines()))
    assert sum(int(row["is_plan"]) for row in rows) == 1
    first = Path("drawn", "front.svg").read_bytes()
    run(capsys, *PLAN, "--slo", "tpot=40ms", "-o", "drawn")
    assert Path("drawn", "front.svg").read_bytes() == first


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        ((*PLAN, "--slo", "tpot=40"), "tpot=40 has no unit; write tpot=40ms or tpot=40s"),
        ((*PLAN, "--slo", "e2e=4s"), "'e2e=4s' is neither ttft=TIME nor tpot=TIME"),
        ((*PLAN, "--slo", "tpot=4s,tpot=5s"), "'tpot' is given twice"),
        ((*PLAN, "--slo", "tpot=4 parsecs"), "unknown unit 'parsecs'"),
        (
            ("serve", "plan", "--model", "llama3.1_8b", "--system", "h100_sxm", "--rate", "0"),
            "rate 0 is not a number above 0",
        ),
        ((*ESTIMATE, "--tp", "4"), "needs 4 chips; 2xh100_sxm has 2"),
        (("serve", "estimate", "--model", "lama3.1_8b", "--system", "h100_sxm"), "did you mean 'llama3.1_8b'?"),
        (("serve", "estimate", "--model", "llama3.1_8b", "--system", "8xh101_sxm"), "did you mean 'h100_sxm'?"),
        (("serve", "estimate", "--model", "llama3.1_8b", "--system", "tpu_v1"), "language models are served on GPUs"),
        ((*ESTIMATE, "--kv", "fp9"), "unknown datatype of the cache 'fp9'"),
        ((*ESTIMATE, "--acceptance", "1"), "acceptance 1 is not between 0 and 1"),
        ((*ESTIMATE, "--acceptance", "0.5"), "an acceptance or draft share without drafts: give draft tokens"),
        ((*ESTIMATE, "--draft-tokens", "2", "--draft-share", "inf"), "draft share inf is not a number of at least 0"),
        ((*ESTIMATE, "--draft-tokens", "9999"), "drafts of 9,999 tokens do not fit in a step of 8,192: shorten drafts"),
        ((*ESTIMATE, "--load-imbalance", "2"), "load imbalance 2: llama3.1_8b has no experts; leave it out"),
        ((*ESTIMATE, "--front-end-rate", "inf"), "front end: inf tokens/s is not a number above 0; leave it out"),
        ((*PLAN[:-1], "inf"), "rate inf is not a number above 0"),
        ((*PLAN, "--ffn-link", "1 GB/s,1 us"), "'--ffn-link': it needs --ffn, and is not used without it"),
    ],
)
def test_bad_input_exits_with_2_and_says_how_to_mend_it(
    argv: tuple[str, ...], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    status, out, err = run(capsys, *argv)
    assert status == 2
    assert out == ""
    assert message in " ".join(err.split())


def test_examples_of_the_help_run(capsys: pytest.CaptureFixture[str]) -> None:
    for verb in ((), ("estimate",), ("plan",)):
        _, out, _ = run(capsys, "serve", *verb, "--help")
        examples = [line.strip() for line in out.partition("Examples:")[2].splitlines() if line.strip()]
        assert len(examples) == 2
        for example in examples:
            words = shlex.split(example)
            assert words[0] == "tileloom"
            assert run(capsys, *words[1:])[0] == 0


def test_system_file_serves_like_the_notation(capsys: pytest.CaptureFixture[str]) -> None:
    Path("box.yaml").write_text(
        "schema_version: 1\nkind: system\nname: box\n"
        "chips: [{name: gpu, count: 2, arch: h100_sxm}]\n"
        "links: [{name: nvlink, bandwidth: 450 GB/s, latency: 0.5 us, source: data sheet}]\n"
        "topology: [{kind: switch, name: nvswitch, link: nvlink, members: [gpu]}]\n",
        encoding="utf-8",
    )
    rest = ("--tp", "2", "--concurrency", "8")
    box = run_json(capsys, "serve", "estimate", "--model", "llama3.1_8b", "--system", "box.yaml", *rest)
    notation = run_json(capsys, *ESTIMATE, *rest)
    assert box["tpot_s"] == notation["tpot_s"]
    assert box["service"]["system"] == "box"


def test_prompts_on_their_own_instances(capsys: pytest.CaptureFixture[str]) -> None:
    argv = ("serve", "estimate", "--model", "llama3.1_8b", "--system", "8xh100_sxm", "--tp", "2", "--instances", "2")
    pools = ("--prefill", "tp=1,instances=3", "--rate", "20")
    found = run_json(capsys, *argv, *pools)
    assert found["num_chips"] == 3 * 1 + 2 * 2
    assert found["tokens_per_s_per_chip"] == pytest.approx(20 * 256 / 7)
    assert total(found["parts"][2]) == pytest.approx(found["tpot_s"])
    status, out, _ = run(capsys, *argv, *pools)
    assert status == 0
    assert "3 x tp=1 pp=1 dp=1 ep=1, busy " in out


def test_feed_forward_on_other_chips(capsys: pytest.CaptureFixture[str]) -> None:
    lpu = str(Path(__file__).parent.parent / "models" / "serving" / "lpu.yaml")
    argv = ("serve", "estimate", "--model", "llama3.1_70b", "--system", "8xh100_sxm", "--tp", "4")
    ffn = ("--quantisation", "fp8", "--ffn", f"256x{lpu}", "--ffn-tp", "256", "--ffn-link", "400 GB/s,1 us")
    found = run_json(capsys, *argv, *ffn)
    assert found["service"]["feed_forward"]["chip"] == "test_lpu"
    tpot = next(part for part in found["parts"] if part["name"] == "TPOT")
    decoding = tpot["parts"][0]["parts"]
    assert {"attention side", "feed-forward on test_lpu", "between the chips"} <= {part["name"] for part in decoding}
    status, out, _ = run(capsys, *argv, *ffn[:3], f"8x{lpu}")
    assert status == 4
    assert "memory for weights of 8 test_lpu" in out


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (("--prefill", "tp=2"), "'--prefill': it needs --rate"),
        (("--prefill", "tp=x", "--rate", "1"), "'tp=x' is not NAME=NUMBER"),
        (("--prefill", "tp=1", "--rate", "nan"), "rate nan is not a number above 0"),
        (("--prefill", "tp=1", "--rate", "1", "--concurrency", "4"), "'--concurrency': it is not used with --rate"),
        (("--instances", "3"), "'--instances': it needs --prefill, and is not used without it"),
        (("--micro-batches", "3"), "'--micro-batches': it needs --ffn, and is not used without it"),
        (("--ffn", "8xlp30"), "no datatype 'bf16'; known are fp8; name one with --quantisation"),
        (("--ffn", "h200_sxm"), "'h200_sxm' is not a number of chips such as 8xh200_sxm"),
        (("--ffn", "8xh200_sxm", "--ffn-link", "400,1 us"), "write it like '400 GB/s,2 us'"),
        (("--ffn", "8xh200_sxm", "--ffn-tp", "3"), "8 chips are no multiple of the 3 chips of a layer"),
    ],
)
def test_bad_pools_exit_with_2(argv: tuple[str, ...], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    status, _, err = run(capsys, *ESTIMATE, *argv)
    assert status == 2
    assert message in " ".join(err.split())


def test_estimate_at_a_rate_says_what_an_instance_sustains(capsys: pytest.CaptureFixture[str]) -> None:
    found = run_json(capsys, *ESTIMATE, "--rate", "5")
    parts = {part["name"]: part for part in found["parts"]}
    assert total(parts["TPOT, random arrivals"]) == pytest.approx(found["tpot_open_s"])
    assert total(parts["TTFT, random arrivals"]) == pytest.approx(found["ttft_open_s"])
    latency_s = found["ttft_open_s"] + 255 * found["tpot_open_s"]
    assert found["requests"] == pytest.approx(5 * latency_s)
    status, out, _ = run(capsys, *ESTIMATE, "--rate", "5")
    assert status == 0
    assert f"{found['capacity_per_s']:,.3g} requests/s" in out
    status, out, err = run(capsys, *ESTIMATE, "--rate", "500")
    assert (status, out) == (2, "")
    assert f"sustains less than {found['capacity_per_s']:.3g}" in " ".join(err.split())


def test_plans_hold_limits_against_random_arrivals(capsys: pytest.CaptureFixture[str]) -> None:
    # One request at a time on an instance: nobody interrupts it at fixed concurrency.
    argv = ("serve", "plan", "--model", "llama3.1_70b", "--system", "64xh100_sxm", "--rate", "1", "--isl", "16384")
    found = run_json(capsys, *argv, "--osl", "64", "--slo", "ttft=2s,tpot=40ms")["plan"]["instance"]
    assert found["tpot_s"] < found["tpot_open_s"] <= 0.04
    assert found["arrivals"]["requests_per_s"] < 0.5 * found["arrivals"]["capacity_per_s"] * 2
