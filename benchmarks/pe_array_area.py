"""Modelled area of the tensor PE array and of its post-processing beside what Yosys makes of the RTL.

Both are areas of 45 nm standard cells before placement. The model's constants are published figures of units (adders,
multipliers, flip-flops), so that its level differs from Yosys'; the bound is on how far the ratio modelled over
synthesised moves between configurations: 15 % from the smallest to the largest, for the array, post-processing and both.

    python benchmarks/pe_array_area.py                                # four configurations, about four minutes
    python benchmarks/pe_array_area.py --held-back                    # five others
    python benchmarks/pe_array_area.py --config 16x8:2:24             # rows x cols : lanes : accumulator bits
    python benchmarks/pe_array_area.py --whole                        # every column of PEs is synthesised
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace

from tileloom.archdsl import PeArray, SpatialArch, load_arch, pe_array
from tileloom.models import pe_array_area, post_processing_area
from tileloom.rtl import array_cell_area_um2, cell_area

NODE_NM = 45.0
BOUND = 1.15
MOST_BUS_BYTES = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class Config:
    """A PE array: PEs down and across, lanes of post-processing, bits of a partial sum."""

    rows: int
    cols: int
    lanes: int
    accumulator_bits: int = 32

    def __str__(self) -> str:
        return f"{self.rows}x{self.cols}, {self.lanes} lanes, {self.accumulator_bits} bits"

    def array(self) -> PeArray:
        """The sizes that model and RTL are made from."""
        changes: dict[str, object] = {
            "parameters.rows": self.rows,
            "parameters.cols": self.cols,
            "parameters.bus_bytes": min(self.cols & -self.cols, MOST_BUS_BYTES),
            "parameters.scratchpad": "64 KiB",
            "hierarchy.mac.vector_lanes": self.lanes,
        }
        arch = load_arch("tpe_16x16", changes)
        assert isinstance(arch, SpatialArch)
        return replace(pe_array(arch), accumulator_bits=self.accumulator_bits)


CONFIGS = (
    Config(rows=4, cols=4, lanes=2),
    Config(rows=8, cols=8, lanes=4, accumulator_bits=24),
    Config(rows=16, cols=8, lanes=8),
    Config(rows=16, cols=16, lanes=16),
)
HELD_BACK = (
    Config(rows=2, cols=2, lanes=1, accumulator_bits=20),
    Config(rows=16, cols=4, lanes=1, accumulator_bits=20),
    Config(rows=6, cols=12, lanes=3, accumulator_bits=28),
    Config(rows=12, cols=8, lanes=8),
    Config(rows=4, cols=32, lanes=8),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """Modelled and synthesised cell area of one configuration, array and post-processing [um^2]."""

    config: Config
    modelled: tuple[float, float]
    synthesised: tuple[float, float]
    time_s: float

    def amounts(self, block: str) -> tuple[float, float]:
        """Modelled and synthesised area of `array`, `post-processing` or `both`."""
        at = {"array": slice(0, 1), "post-processing": slice(1, 2), "both": slice(0, 2)}[block]
        return sum(self.modelled[at]), sum(self.synthesised[at])

    def ratio(self, block: str) -> float:
        """Modelled over synthesised."""
        modelled, synthesised = self.amounts(block)
        return modelled / synthesised


def compare(config: Config, *, is_whole: bool = False) -> Row:
    """Models and synthesises one configuration."""
    array = config.array()
    begin = time.perf_counter()
    found = cell_area(array)
    array_um2 = array_cell_area_um2(array, is_whole=True) if is_whole else found.array_um2
    return Row(
        config=config,
        modelled=(
            pe_array_area(array, node_nm=NODE_NM).amount * 1e6,
            post_processing_area(array, node_nm=NODE_NM).amount * 1e6,
        ),
        synthesised=(array_um2, found.post_processing_um2),
        time_s=time.perf_counter() - begin,
    )


def spread(rows: Sequence[Row], block: str) -> float:
    """The largest ratio of modelled over synthesised area over the smallest."""
    ratios = [row.ratio(block) for row in rows]
    return max(ratios) / min(ratios)


def main() -> int:
    """Prints the table; returns 1 when the bound is missed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--held-back", action="store_true", help="five others")
    parser.add_argument("--config", action="append", type=_config, help="ROWSxCOLS[:LANES[:BITS]]; repeatable")
    parser.add_argument("--whole", action="store_true", help="synthesise every column of the PE array")
    options = parser.parse_args()
    configs: Sequence[Config] = options.config or (HELD_BACK if options.held_back else CONFIGS)
    rows: list[Row] = []
    for config in configs:
        rows.append(compare(config, is_whole=options.whole))
        print(f"{config}: {rows[-1].time_s:.0f} s", file=sys.stderr, flush=True)
    print(f"{'block':<16}{'configuration':<26}{'modelled [um2]':>15}{'Yosys [um2]':>13}{'ratio':>8}{'off mean':>10}")
    is_met = True
    for block in ("array", "post-processing", "both"):
        mean = sum(row.ratio(block) for row in rows) / len(rows)
        for row in rows:
            modelled, synthesised = row.amounts(block)
            off = row.ratio(block) / mean - 1
            print(
                f"{block:<16}{row.config!s:<26}{modelled:>15,.0f}{synthesised:>13,.0f}{row.ratio(block):>8.3f}{off:>+10.1%}"
            )
        print(f"{block:<16}{'largest over smallest':<26}{spread(rows, block):>36.3f}\n")
        is_met = is_met and spread(rows, block) <= BOUND
    return 0 if is_met else 1


def _config(text: str) -> Config:
    sizes, *rest = text.split(":")
    rows, _, cols = sizes.partition("x")
    if not rows.isdecimal() or not cols.isdecimal() or len(rest) > 2 or not all(part.isdecimal() for part in rest):
        raise argparse.ArgumentTypeError(f"'{text}' is not ROWSxCOLS[:LANES[:BITS]], e.g. 16x8:2:24")
    lanes = int(rest[0]) if rest else int(cols)
    return Config(rows=int(rows), cols=int(cols), lanes=lanes, accumulator_bits=int(rest[1]) if len(rest) > 1 else 32)


if __name__ == "__main__":
    raise SystemExit(main())
