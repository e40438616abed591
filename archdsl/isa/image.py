"""A program image: everything that is needed to run a program, in one folder.

`manifest.json` says what stands where, `program.bin` holds the instructions (little endian, 16 bytes each), `data.bin`
main memory before the program, `arch.yaml` the architecture. The same image gives the same bytes.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from ..errors import ArchError, CompileError
from ..export import dump_arch
from ..loading import load_arch
from ..spatial import SpatialArch
from ..spec import nearest_hint
from ..validation import validate_document
from ..yamlio import read_yaml
from .definition import tensor_pe_array_isa
from .encoding import Instruction, completed, decode, encode_program
from .manifest import Checksums, Manifest, MemoryMap, OpRecord, Region, ScratchpadMap, Symbol, SymbolRole
from .parameters import PeArray, pe_array

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

MANIFEST, PROGRAM, DATA, ARCH = "manifest.json", "program.bin", "data.bin", "arch.yaml"
SCHEMA_VERSION = 1


@dataclass(frozen=True, kw_only=True)
class ProgramImage:
    """A program with its data and its architecture.

    Attributes:
        arch: The architecture that it is for.
        manifest: What stands where.
        program: Its instructions.
        data: Main memory before it.
    """

    arch: SpatialArch
    manifest: Manifest
    program: tuple[Instruction, ...]
    data: bytes

    @cached_property
    def array(self) -> PeArray:
        """The PE array that the architecture describes."""
        return pe_array(self.arch)

    def symbols(self, role: SymbolRole) -> tuple[Symbol, ...]:
        """The symbols of a role, in the manifest's order."""
        return tuple(symbol for symbol in self.manifest.symbols if symbol.role == role)

    def symbol(self, name: str) -> Symbol:
        """The symbol of that name.

        Raises:
            CompileError: There is none.
        """
        for symbol in self.manifest.symbols:
            if symbol.name == name:
                return symbol
        known = [symbol.name for symbol in self.manifest.symbols]
        raise CompileError(f"the program image has no symbol '{name}'{nearest_hint(name, known)}")

    def memory(self) -> npt.NDArray[np.uint8]:
        """A copy of main memory before the program, to place inputs into."""
        import numpy as np

        return np.frombuffer(self.data, dtype=np.uint8).copy()


def make_image(
    arch: SpatialArch,
    program: Sequence[Instruction],
    data: bytes,
    symbols: Sequence[Symbol],
    *,
    regions: Sequence[Region] = (),
    ops: Sequence[OpRecord] = (),
    scratchpad: ScratchpadMap | None = None,
) -> ProgramImage:
    """Joins a program, its data and what is known of both.

    Args:
        arch: The architecture that the program is for.
        program: The program.
        data: Main memory before it; a whole number of bus beats.
        symbols: Arrays in main memory.
        regions: Parts of main memory; one per symbol when left out.
        ops: What the instructions compute.
        scratchpad: What stands in the scratchpad beyond one op.

    Raises:
        CompileError: An instruction cannot be encoded, or the parts contradict one another.
    """
    beat = pe_array(arch).bus_bytes
    if not data or len(data) % beat:
        raise CompileError(f"main memory has {len(data)} bytes; it must be a whole number of beats of {beat} bytes")
    parts = regions or [Region(name=s.name, address=s.address, size_bytes=s.end - s.address) for s in symbols]
    parts = sorted(parts, key=lambda region: (region.address, region.name))
    peak = max((region.address + region.size_bytes for region in parts), default=0)
    values: dict[str, Any] = {
        "schema_version": SCHEMA_VERSION,
        "arch": arch.name,
        "num_instructions": len(program),
        "symbols": tuple(symbols),
        "ops": tuple(ops),
        "scratchpad": scratchpad,
        "checksums": Checksums(arch=arch_hash(arch), program=_hash(_packed(program)), data=_hash(data)),
    }
    try:
        memory = MemoryMap(size_bytes=len(data), peak_bytes=peak, regions=tuple(parts))
        manifest = Manifest(**values, memory=memory)
    except ValidationError as error:
        said = "; ".join(str(fault["msg"]) for fault in error.errors())
        raise CompileError(f"no program image can be made: {said}") from error
    # As it is read back: with all operands.
    return ProgramImage(arch=arch, manifest=manifest, program=tuple(map(completed, program)), data=data)


def arch_hash(arch: SpatialArch) -> str:
    """SHA-256 of an architecture in canonical form: equal architectures have equal ones."""
    return _hash(dump_arch(arch).encode())


def save_image(image: ProgramImage, folder: Path) -> None:
    """Writes an image.

    Args:
        image: The image.
        folder: Where to; made when it is missing.
    """
    folder.mkdir(parents=True, exist_ok=True)
    written = image.manifest.model_dump(mode="json", by_alias=True, exclude_none=True)
    (folder / ARCH).write_text(dump_arch(image.arch), encoding="utf-8")
    (folder / PROGRAM).write_bytes(_packed(image.program))
    (folder / DATA).write_bytes(image.data)
    # The manifest comes last: a folder that has one is whole.
    (folder / MANIFEST).write_text(json.dumps(written, indent=1) + "\n", encoding="utf-8")


def load_image(folder: Path | str, *, arch: SpatialArch | None = None) -> ProgramImage:
    """Reads an image and checks that its files belong together.

    Args:
        folder: Where it stands.
        arch: The architecture that it must be for; the image's own when left out.

    Raises:
        CompileError: A file is missing, its checksum or the version is wrong, a symbol lies outside memory, or the
            image is for another architecture; with the file and what to do.
    """
    folder = Path(folder)
    if not folder.is_dir():
        raise CompileError(f"{folder}: no such folder; a program image is a folder with {MANIFEST}")
    path = folder / MANIFEST
    if not path.is_file():
        raise CompileError(f"{path}: missing, so {folder} is no program image; compile the program again")
    manifest = validate_document(read_yaml(path, CompileError), Manifest, CompileError)
    found = _checked_arch(folder / ARCH, manifest, arch)
    data = _checked(folder / DATA, manifest.checksums.data)
    if len(data) != manifest.memory.size_bytes:
        raise CompileError(f"{folder / DATA}: has {len(data)} bytes, and {path} says {manifest.memory.size_bytes}")
    program_path = folder / PROGRAM
    program = _unpacked(_checked(program_path, manifest.checksums.program), program_path)
    if len(program) != manifest.num_instructions:
        raise CompileError(
            f"{program_path}: has {len(program)} instructions, and {path} says {manifest.num_instructions}"
        )
    return ProgramImage(arch=found, manifest=manifest, program=program, data=data)


def _checked_arch(path: Path, manifest: Manifest, wanted: SpatialArch | None) -> SpatialArch:
    if not path.is_file():
        raise CompileError(f"{path}: missing; compile the program again")
    found = load_arch(path)
    if not isinstance(found, SpatialArch):
        raise ArchError(f"{path}: {found.name} is of kind {found.kind}; a program image is for kind spatial")
    if arch_hash(found) != manifest.checksums.arch:
        raise CompileError(
            f"{path}: is not the architecture that the program was compiled for ({manifest.arch}); restore the file or"
            " compile the program again"
        )
    if wanted is not None and arch_hash(wanted) != manifest.checksums.arch:
        raise CompileError(
            f"{path.parent}: was compiled for {manifest.arch}, which differs from {wanted.name}; compile it for"
            f" {wanted.name}, or see: tileloom arch diff {path} {wanted.name}"
        )
    return found


def _checked(path: Path, checksum: str) -> bytes:
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        raise CompileError(f"{path}: missing; compile the program again") from None
    if _hash(content) != checksum:
        raise CompileError(
            f"{path}: its SHA-256 is {_hash(content)[:12]}..., and {MANIFEST} says {checksum[:12]}...; the file was"
            " changed: restore it or compile the program again"
        )
    return content


def _hash(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def _packed(program: Sequence[Instruction]) -> bytes:
    num_bytes = tensor_pe_array_isa().instruction_bits // 8
    return b"".join(word.to_bytes(num_bytes, "little") for word in encode_program(program))


def _unpacked(content: bytes, path: Path) -> tuple[Instruction, ...]:
    num_bytes = tensor_pe_array_isa().instruction_bits // 8
    if len(content) % num_bytes:
        raise CompileError(f"{path}: has {len(content)} bytes; it must be a multiple of {num_bytes}")
    words = (content[at : at + num_bytes] for at in range(0, len(content), num_bytes))
    return tuple(
        decode(int.from_bytes(word, "little"), f"{path}: instruction {idx}: ") for idx, word in enumerate(words)
    )
