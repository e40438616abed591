"""How the ops of a program are cut, read from their instructions: what really happens, whatever kernel made them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ..archdsl import ProgramImage

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from ..models import Accesses

    Ints = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Tiling:
    """How an op was cut, read from its instructions.

    Attributes:
        num_walks: COMPUTEs and ALUs.
        most_vectors: Vectors of the longest of them.
        num_stores: STs.
        weight_bytes: Bytes of weights that are loaded.
        weight_passes: How often every byte of the weights is loaded, on average; 0 without weights.
        input_bytes: Bytes of activations that are loaded; 0 where they stand in the scratchpad.
        is_output_local, is_output_stored: Whether results go to the scratchpad, and to main memory.
    """

    num_walks: int
    most_vectors: int
    num_stores: int
    weight_bytes: int
    weight_passes: float
    input_bytes: int
    is_output_local: bool
    is_output_stored: bool

    def __str__(self) -> str:
        weights = "no weights" if not self.weight_bytes else f"weights loaded {self.weight_passes:.3g}x"
        inputs = f"input {self.input_bytes:,} B loaded" if self.input_bytes else "input on chip"
        kept = "kept on chip" if self.is_output_local else ""
        stored = "stored" if self.is_output_stored else ""
        output = " and ".join(filter(None, (kept, stored))) or "not stored"
        walks = f"walks {self.num_walks:,} of up to {self.most_vectors:,} vectors, stores {self.num_stores:,}"
        return f"{walks}; {weights}, {inputs}, output {output}"


def tiling_of(image: ProgramImage, kernel: int, kernels: Ints, accesses: Accesses) -> Tiling:
    """How an op was cut.

    Args:
        image: The image.
        kernel: Index of the op.
        kernels: [instructions] index of the op that each belongs to.
        accesses: Of every instruction.
    """
    import numpy as np

    symbols = {symbol.name: symbol for symbol in image.manifest.symbols}
    weights: dict[str, int] = {}
    loaded = {"weight": 0, "activation": 0}
    walks: list[int] = []
    stores: set[int] = set()
    num_stores = 0
    for idx in np.flatnonzero(kernels == kernel):
        insn = image.program[idx]
        if insn.name in ("COMPUTE", "ALU"):
            walks.append(insn["x_count"] * insn["y_count"])
        elif insn.name == "ST":
            num_stores += 1
            stores.add(insn["space"])
        elif insn.name == "LD" and insn["space"] == 0:
            region = region_at(image, insn["memory_address"])
            symbol = symbols.get(region)
            kind = "weight" if symbol is not None and symbol.role == "weight" else "activation"
            loaded[kind] += int(accesses.memory_read_bytes[idx])
            if kind == "weight" and symbol is not None:
                weights[region] = symbol.end - symbol.address
    size = sum(weights.values())
    return Tiling(
        num_walks=len(walks), most_vectors=max(walks, default=0), num_stores=num_stores, weight_bytes=loaded["weight"],
        weight_passes=loaded["weight"] / size if size else 0.0, input_bytes=loaded["activation"],
        is_output_local=1 in stores, is_output_stored=0 in stores,
    )  # fmt: skip


def region_at(image: ProgramImage, address: int) -> str:
    """Name of the part of main memory that holds a byte; empty for none."""
    regions = image.manifest.memory.regions
    return next((r.name for r in regions if r.address <= address < r.address + r.size_bytes), "")
