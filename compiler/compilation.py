"""From an ONNX file to programs for an architecture: the whole pipeline."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from xdsl.dialects.builtin import ModuleOp, StringAttr

from ..archdsl import Arch, ArchError, SpatialArch, pe_array
from .codegen.compiled import CompiledNetwork, images_of
from .codegen.ordering import LOADS_AHEAD
from .frontend.network import module_of, read_graph
from .ir.qnn import ROUNDING
from .ir.store import DataStore
from .ir.verification import verify_module
from .passes.base import Pass, PassContext
from .passes.check_host_ops import CheckHostOps
from .passes.convert_qnn_to_tile import ConvertQnnToTile
from .passes.convert_tile_to_pe import ConvertTileToPe
from .passes.manager import PassManager, PassRecord
from .pipeline import FRONT_PASSES

if TYPE_CHECKING:
    from onnx import ModelProto


@dataclass(frozen=True, slots=True, kw_only=True)
class CompileOptions:
    """Choices of a compilation.

    Attributes:
        fallback: Whether ops that the array cannot do may run on the host in the middle of the network.
        keeps_layers: Whether the result of every op is stored in main memory too, for debugging.
        keeps_on_chip: Whether results may stand in the scratchpad, as a whole, until they are used.
        is_depth_first: Whether ops may be cut together into bands of rows, where that takes fewer cycles.
        staging_bytes: Room of the scratchpad for weights and what else is staged; None for a choice of the compiler's.
        loads_ahead: How many loads may stand in front of what needs them, more where the bus is idle; 0 turns prefetching
            off.
    """

    fallback: bool = False
    keeps_layers: bool = False
    keeps_on_chip: bool = True
    is_depth_first: bool = True
    staging_bytes: int | None = None
    loads_ahead: int = LOADS_AHEAD


@dataclass(frozen=True, slots=True, kw_only=True)
class DumpOptions:
    """What of the way is written down, and how far it goes.

    Attributes:
        print_after: Names of passes, or `all`.
        stop_after: The last pass; None for all.
        folder: Where dumps go.
        resume_from: A dump from which to go on.
    """

    print_after: tuple[str, ...] = ()
    stop_after: str | None = None
    folder: Path | None = None
    resume_from: Path | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Compilation:
    """What a compilation made.

    Attributes:
        module: After the last pass that ran.
        store: Arrays of its constants.
        records: One for each pass that ran.
        network: The compiled network; None where it was stopped before.
        notices: What was chosen for the user while the network was read, such as the size of an open batch dim.
    """

    module: ModuleOp
    store: DataStore
    records: tuple[PassRecord, ...]
    network: CompiledNetwork | None
    notices: tuple[str, ...] = ()


def passes_of(options: CompileOptions | None = None) -> tuple[Pass, ...]:
    """All passes from `graph` to `pe`, in their order."""
    chosen = options or CompileOptions()
    return (
        *FRONT_PASSES,
        CheckHostOps(fallback=chosen.fallback),
        ConvertQnnToTile(
            staging_bytes=chosen.staging_bytes,
            keeps_layers=chosen.keeps_layers,
            keeps_on_chip=chosen.keeps_on_chip,
            is_depth_first=chosen.is_depth_first,
        ),
        ConvertTileToPe(loads_ahead=chosen.loads_ahead),
    )


def compile_network(
    source: str | os.PathLike[str] | ModelProto,
    arch: Arch,
    options: CompileOptions | None = None,
    *,
    shapes: Mapping[str, int] | None = None,
    dumps: DumpOptions | None = None,
) -> Compilation:
    """Compiles a network.

    Args:
        source: An `.onnx` file, or a model; not read where a dump is resumed from.
        arch: The architecture; it must describe a tensor PE array.
        options: Choices.
        shapes: Sizes of open dims.
        dumps: What is written down on the way.

    Raises:
        WorkloadError: The file is no usable network.
        ArchError: The architecture describes no tensor PE array.
        CompileError: The network needs something that the array cannot do, or more memory than there is.
    """
    if not isinstance(arch, SpatialArch):
        raise ArchError(f"{arch.name} is no tensor PE array: it is a GPU; start from the preset tpe_16x16")
    array = pe_array(arch)
    if array.format.is_float:
        raise ArchError(
            f"{arch.name}: its elements are {array.format.name}; networks compile for int8 (datatypes: int8)"
        )
    chosen = dumps or DumpOptions()
    manager = PassManager(
        passes=passes_of(options),
        print_after=chosen.print_after,
        stop_after=chosen.stop_after,
        dump_folder=chosen.folder,
    )
    num_done, notices = 0, ()
    if chosen.resume_from is not None:
        resumed = manager.resume_from(chosen.resume_from)
        module, store, num_done = resumed.module, resumed.store, resumed.num_done
    else:
        graph = read_graph(source, shapes=shapes)
        notices = graph.notices
        module, store = module_of(graph)
        verify_module(module, "the network is not valid; export it again")
    module.attributes[ROUNDING] = StringAttr(array.rounding)
    result = manager.run(module, PassContext(store=store, arch=arch), num_done=num_done)
    network = None
    if result.num_done == len(manager.passes):
        network = CompiledNetwork(module=result.module, store=store, images=images_of(result.module, arch, store))
    return Compilation(module=result.module, store=store, records=result.records, network=network, notices=notices)
