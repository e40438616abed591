"""Dumps after every pass: `mlir-opt` takes them, and a compilation that goes on from one makes the same bytes."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest

from tileloom.archdsl import CompileError, PassError, save_image
from tileloom.compiler.codegen.compiled import CompiledNetwork
from tileloom.compiler.compilation import CompileOptions, DumpOptions, compile_network, passes_of
from tileloom.compiler.generators import quantised_resnet8, random_quantised_graph
from tileloom.compiler.ir.mlir_opt import check_with_mlir
from tileloom.compiler.ir.text import parse_module, print_module
from tileloom.compiler.passes.dumps import load_dump

from .compiled import arch_of
from .reference import needs_mlir

TWO_PROGRAMS, FOUR_OUTPUTS = 14, 16
"""Seeds of random networks: one has work of the host in between."""
LEVELS = ("canonicalise-graph", "canonicalise-qnn", "convert-qnn-to-tile", "convert-tile-to-pe")
"""A pass of each level."""
OPTIONS = CompileOptions(fallback=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class Dumped:
    """A compiled network, and the dumps of all passes on the way."""

    folder: Path
    network: CompiledNetwork

    def texts(self) -> dict[str, str]:
        return {path.name: path.read_text(encoding="utf-8") for path in sorted(self.folder.glob("*.mlir"))}

    def path(self, pass_name: str) -> Path:
        return max(self.folder.glob(f"??-{pass_name}.mlir"))


@pytest.fixture(scope="module")
def all_dumped(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Dumped]:
    """Compiled networks by name."""
    models = {
        "resnet8": quantised_resnet8(0), "two programs": random_quantised_graph(TWO_PROGRAMS),
        "four outputs": random_quantised_graph(FOUR_OUTPUTS),
    }  # fmt: skip
    found: dict[str, Dumped] = {}
    for name, model in models.items():
        folder = tmp_path_factory.mktemp("dumps")
        dumps = DumpOptions(print_after=("all",), folder=folder)
        network = compile_network(model, arch_of("8x8"), OPTIONS, dumps=dumps).network
        assert network is not None
        found[name] = Dumped(folder=folder, network=network)
    return found


@pytest.fixture(params=("resnet8", "two programs", "four outputs"))
def dumped(request: pytest.FixtureRequest, all_dumped: dict[str, Dumped]) -> Dumped:
    """Each of them."""
    return all_dumped[request.param]


@pytest.fixture
def resnet8(all_dumped: dict[str, Dumped]) -> Dumped:
    """One of them."""
    return all_dumped["resnet8"]


def files_of(network: CompiledNetwork, folder: Path) -> dict[str, bytes]:
    """All files of all images of a network."""
    for name, image in network.images.items():
        save_image(image, folder / name)
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def resumed(path: Path) -> CompiledNetwork | None:
    return compile_network("not read", arch_of("8x8"), OPTIONS, dumps=DumpOptions(resume_from=path)).network


@needs_mlir
def test_mlir_takes_the_dump_after_every_pass(dumped: Dumped) -> None:
    texts = dumped.texts()
    assert len(texts) == len(passes_of(OPTIONS))
    assert check_with_mlir(texts) == ()


def test_going_on_from_a_dump_of_any_level_makes_the_same_bytes(dumped: Dumped, tmp_path: Path) -> None:
    expected = files_of(dumped.network, tmp_path / "expected")
    assert expected
    for level in LEVELS:
        network = resumed(dumped.path(level))
        assert network is not None
        assert files_of(network, tmp_path / level) == expected, level


def test_every_dump_parses_and_prints_as_it_was(dumped: Dumped) -> None:
    for name, text in dumped.texts().items():
        assert print_module(parse_module(text, name)) == text


@pytest.mark.parametrize("seed", range(20, 26))
def test_tile_and_pe_modules_parse_to_what_was_printed(seed: int) -> None:
    for last in LEVELS[2:]:
        dumps = DumpOptions(stop_after=last)
        module = compile_network(random_quantised_graph(seed), arch_of("4x4"), OPTIONS, dumps=dumps).module
        parsed = parse_module(print_module(module))
        parsed.verify()
        assert parsed.is_structurally_equivalent(module)


@needs_mlir
@pytest.mark.parametrize(
    ("level", "before", "after", "message"),
    [
        ("convert-qnn-to-tile", "weights_pitch = 8 : i64, ", "", "op attribute \"weights_pitch\" is expected but not provided"),
        ("convert-qnn-to-tile", "write_at = affine_map<() -> (0)>", "write_at = 0 : i64", "expected base attribute 'builtin.affine_map'"),
        ("convert-qnn-to-tile", "operand_segment_sizes = array<i32: 1, 1, 0, 1, ", "operand_segment_sizes = array<i32: 1, 1, 1, 1, ", "operand_segment_sizes"),
        ("convert-qnn-to-tile", '"tile.copy"(%', '"tile.copy"(%5, %', "expected 3 operand types but had 2"),
        ("convert-qnn-to-tile", '"omp.terminator"() : () -> ()', "", "block with no terminator"),
        ("convert-tile-to-pe", "macs = ", "num_macs = ", "op attribute \"macs\" is expected but not provided"),
        ("convert-tile-to-pe", '"pe.preload"', '"pe.load_weights"', "unregistered operation 'pe.load_weights'"),
        ("canonicalise-graph", "version = ", "since = ", "op attribute \"version\" is expected but not provided"),
    ],
)  # fmt: skip
def test_mlir_refuses_wrong_dumps(resnet8: Dumped, level: str, before: str, after: str, message: str) -> None:
    text = resnet8.path(level).read_text(encoding="utf-8")
    assert before in text
    faults = check_with_mlir({"wrong.mlir": text.replace(before, after, 1)})
    assert faults and message in faults[0].message, faults


@pytest.mark.parametrize(
    ("level", "before", "after", "error", "message"),
    [
        ("convert-tile-to-pe", "rows = 8 : i64", "rows = 70000 : i64", PassError, "rows is 70000; it must be from 0 to"),
        ("convert-tile-to-pe", "rows = 8 : i64", "rowz = 8 : i64", PassError, "has no operand 'rowz'; did you mean 'rows'?"),
        ("convert-qnn-to-tile", " bits = 8 : i64", " bits = 7 : i64", PassError, "tile.store: bits are 7"),
        ("convert-qnn-to-tile", "weight_bits = 8 : i64", "weight_bits = 7 : i64", PassError, "weight_bits are 7"),
        ("convert-qnn-to-tile", "y_count = 8 : i64", "y_count = 0 : i64", PassError, "y_count is 0; it must be at least 1"),
        ("convert-qnn-to-tile", "write_at = affine_map<() -> (0)>", "write_at = affine_map<(d0) -> (d0)>", PassError, "write_at is over 1 of 0 indices"),
        ("convert-qnn-to-tile", ", step = 1 : i64}", ", step = 0 : i64}", PassError, "tile.for: step and upper must be positive"),
        ("canonicalise-qnn", "zero_point = ", "zero_point = 1000 : i64, was = ", PassError, "zero_point is 1000; it must be from -128 to 127"),
        ("convert-tile-to-pe", '"pe.halt"', '"pe.stop"', CompileError, "Operation pe.stop is not registered"),
    ],
)  # fmt: skip
def test_wrong_dumps_are_refused_with_the_cause(
    resnet8: Dumped, tmp_path: Path, level: str, before: str, after: str, error: type[Exception], message: str
) -> None:
    source = resnet8.path(level)
    text = source.read_text(encoding="utf-8")
    assert before in text
    wrong = tmp_path / source.name
    wrong.write_text(text.replace(before, after, 1), encoding="utf-8")
    (tmp_path / "arrays.npz").write_bytes((source.parent / "arrays.npz").read_bytes())
    with pytest.raises(error) as caught:
        resumed(wrong)
    assert message in str(caught.value)


def test_dumps_say_where_they_were_taken(dumped: Dumped) -> None:
    dump = load_dump(dumped.path("convert-tile-to-pe"))
    assert (dump.position, dump.pass_name) == (len(passes_of(OPTIONS)), "convert-tile-to-pe")
