"""`qnn` to `tile`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from xdsl.dialects.builtin import ModuleOp

from ...archdsl import InfeasibleError, PassError, SpatialArch, pe_array
from ..ir.store import DataStore
from ..ir.tile import ProgramOp
from ..tiling.network import Options, tile_program
from ..tiling.partition import Part, parts_of, with_programs
from ..tiling.scalings import scalings_of
from .base import PassContext


@dataclass(frozen=True, slots=True, kw_only=True)
class ConvertQnnToTile:
    """Places tensors, cuts ops to the PE array's memories, and writes them as loops over tiles.

    Before:
        %3 = "qnn.matmul"(%0, %w, %b, %m, %s) {...} : (tensor<4x16xi8>, ...) -> tensor<4x8xi8>
    After:
        %1 = "tile.program"(%0) ({
          %2 = "tile.buffer"() {buffer_name = "x", address = 0 : i64, role = "input"} : () -> memref<1x64xi8, "main">
          ...
          "tile.kernel"() ({
            %7 = "tile.parameters"(%5) {read_at = affine_map<() -> (0)>} ...
            %8 = "tile.place"() : () -> memref<1x128xi8, "scratchpad">
            "tile.copy"(%4, %8) {...}
            %9 = "tile.sums"() : () -> memref<4x8xi32, "accumulators">
            "tile.for"() ({
            ^bb0(%10: index):
              "tile.matmul"(%3, %8, %9, %10) {x = affine_map<(d0) -> (d0 * 8)>, ...}
            }) {upper = 2 : i64, step = 1 : i64}
            "tile.store"(%9, %7, %6) {...}
          }) {kernel_name = "fc", ...}
        }) {program_name = "program", ...} : (tensor<4x16xi8>) -> tensor<4x8xi8>

    Attributes:
        staging_bytes: Room of the scratchpad for weights and what else is staged, a quarter of it unless given; it grows
            where something does not fit.
        keeps_layers: Whether the result of every op is stored in main memory too.
        keeps_on_chip: Whether results may stand in the scratchpad, as a whole, until they are used.
        is_depth_first: Whether ops may be cut together into bands of rows.
    """

    name: ClassVar = "convert-qnn-to-tile"
    staging_bytes: int | None = None
    keeps_layers: bool = False
    keeps_on_chip: bool = True
    is_depth_first: bool = True

    def run(self, module: ModuleOp, ctx: PassContext) -> ModuleOp:
        """See `Pass`."""
        if ctx.arch is None:
            raise PassError(f"{self.name} needs an architecture")
        made = module.clone()
        parts = parts_of(made)
        names = ["program"] if len(parts) == 1 else [f"program{idx}" for idx in range(len(parts))]
        programs: list[tuple[Part, ProgramOp]] = []
        for part, name in zip(parts, names, strict=True):
            program = self._program(part, ctx.store, ctx.arch, name)
            program.attributes.update(scalings_of(part, ctx.store))
            programs.append((part, program))
        with_programs(made, programs)
        return made

    def _program(self, part: Part, store: DataStore, arch: SpatialArch, name: str) -> ProgramOp:
        """A program with as much room for staging as it needs: the more there is, the less stays on chip."""
        array = pe_array(arch)
        staging_bytes = self.staging_bytes or array.scratchpad_bytes // 4
        while True:
            options = Options(
                staging_bytes=min(staging_bytes, array.scratchpad_bytes),
                keeps_layers=self.keeps_layers,
                keeps_on_chip=self.keeps_on_chip,
                is_depth_first=self.is_depth_first,
                has_int4="int4" in arch.compute.datatypes,
            )
            try:
                return tile_program(part, store, array, options, name)
            except InfeasibleError:
                if staging_bytes >= array.scratchpad_bytes:
                    raise
                staging_bytes *= 2
