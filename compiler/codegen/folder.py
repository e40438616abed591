"""A compiled network as a folder: images of its programs, what the host does, and what it needs for that.

`network.json` says what there is; `host.mlir` is the module with empty programs, so that reading it is quick; `arrays.npz`
holds the constants of what the host does. One program's image stands in the folder itself, several in folders of their
names. The same network gives the same bytes.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

from xdsl.dialects.builtin import FloatAttr, IntegerAttr, ModuleOp
from xdsl.ir import Block, Region, SSAValue

from ...archdsl import (
    CompileError,
    ProgramImage,
    Scaling,
    SpatialArch,
    load_image,
    read_yaml,
    save_image,
    validate_document,
)
from ..compilation import CompileOptions
from ..host import host_ops
from ..ir import pe
from ..ir.attributes import dtype_of, shape_of
from ..ir.data import ConstantOp, InputOp, OutputOp
from ..ir.graph import GraphOp, made_by
from ..ir.store import DataStore
from ..ir.text import parse_module, print_module
from ..ir.verification import verify_module
from ..passes.dumps import arrays_of
from ..quantisation.reals import step_of
from .compiled import CompiledNetwork
from .records import HostRecord, NetworkRecord, OptionsRecord, ProgramRecord, TensorRecord

NETWORK, HOST, ARRAYS, MANIFEST = "network.json", "host.mlir", "arrays.npz", "manifest.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class SavedNetwork:
    """What a folder holds.

    Attributes:
        record: What `network.json` says.
        network: The network; the bodies of its module's programs are empty.
    """

    record: NetworkRecord
    network: CompiledNetwork


def save_network(network: CompiledNetwork, folder: Path, *, name: str, options: CompileOptions) -> NetworkRecord:
    """Writes a compiled network.

    Args:
        network: The network.
        folder: Where to; made when it is missing.
        name: Of the network.
        options: With which it was compiled.

    Returns:
        What `network.json` says.

    Raises:
        CompileError: Nothing of the network runs on the array.
    """
    if not network.images:
        raise CompileError(f"{name}: nothing of it runs on the PE array, so there is no program to save")
    folder.mkdir(parents=True, exist_ok=True)
    host = host_module(network.module)
    programs: list[ProgramRecord] = []
    for program, image in network.images.items():
        place = "." if len(network.images) == 1 else program
        save_image(image, folder / place)
        programs.append(_program_record(program, image, place, _hash(folder / place / MANIFEST)))
    (folder / HOST).write_text(print_module(host), encoding="utf-8")
    network.store.save(folder / ARRAYS, arrays_of(host))
    ops = list(network.module.body.block.ops)
    record = NetworkRecord(
        schema_version=1,
        name=name,
        arch=next(iter(network.images.values())).arch.name,
        inputs=tuple(_input_record(op) for op in ops if isinstance(op, InputOp)),
        outputs=tuple(_output_record(op, network) for op in ops if isinstance(op, OutputOp)),
        programs=tuple(programs),
        host=tuple(_host_records(network.module)),
        options=OptionsRecord(**asdict(options)),
        checksums={file: _hash(folder / file) for file in (ARRAYS, HOST)},
    )
    # This file comes last: a folder that has one is whole.
    written = record.model_dump(mode="json", exclude_none=True)
    (folder / NETWORK).write_text(json.dumps(written, indent=1) + "\n", encoding="utf-8")
    return record


def load_network(folder: Path | str, *, arch: SpatialArch | None = None) -> SavedNetwork:
    """Reads a compiled network and checks that its files belong together.

    Args:
        folder: Where it stands.
        arch: The architecture that it must be for; its own when left out.

    Raises:
        CompileError: A file is missing or changed, the version is unknown, or it is for another architecture; with the
            file and what to do.
    """
    folder = Path(folder)
    path = folder / NETWORK
    if not folder.is_dir():
        raise CompileError(f"{folder}: no such folder; tileloom compile makes one with {NETWORK}")
    if not path.is_file():
        hint = f"; it is a program image: see tileloom rtl run {folder}" if (folder / MANIFEST).is_file() else ""
        raise CompileError(f"{path}: missing, so {folder} is no compiled network; compile it again{hint}")
    record = validate_document(read_yaml(path, CompileError), NetworkRecord, CompileError)
    for file, checksum in record.checksums.items():
        _check(folder / file, checksum)
    images: dict[str, ProgramImage] = {}
    for program in record.programs:
        images[program.name] = load_image(folder / program.folder, arch=arch)
        _check(folder / program.folder / MANIFEST, program.manifest)
    module = parse_module((folder / HOST).read_text(encoding="utf-8"), str(folder / HOST))
    verify_module(module, str(folder / HOST))
    network = CompiledNetwork(module=module, store=DataStore.load(folder / ARRAYS), images=images)
    return SavedNetwork(record=record, network=network)


def host_module(module: ModuleOp) -> ModuleOp:
    """A copy of a module of level `pe` whose programs have no instructions."""
    made = ModuleOp([])
    made.attributes.update(module.attributes)
    values: dict[SSAValue, SSAValue] = {}
    for op in module.body.block.ops:
        if isinstance(op, pe.ProgramOp):
            copy = pe.ProgramOp.create(
                operands=[values[operand] for operand in op.operands], attributes=op.attributes,
                result_types=[result.type for result in op.results], regions=[Region(Block())],
            )  # fmt: skip
            values.update(zip(op.results, copy.results, strict=True))
        else:
            copy = op.clone(value_mapper=values)
        made.body.block.add_op(copy)
    return made


def _input_record(op: InputOp) -> TensorRecord:
    scaling = None
    if isinstance(op.scale, FloatAttr) and isinstance(op.zero_point, IntegerAttr) and op.scale.value.data > 0:
        scaling = Scaling(scale=float(op.scale.value.data), zero_point=int(op.zero_point.value.data))
    record = _tensor_record(op.input_name.data, op.result, scaling)
    choices = [
        shape_of(use.operation.operands[0])[use.operation.int_attribute("axis", 0)]
        for use in op.result.uses
        if isinstance(use.operation, GraphOp) and use.operation.op_type == "Gather" and use.index == 1
    ]
    return record.model_copy(update={"num_choices": min(choices)}) if choices else record


def _output_record(op: OutputOp, network: CompiledNetwork) -> TensorRecord:
    """An output, with the scaling that its last op says."""
    owner, scaling = op.value.owner, None
    if isinstance(owner, pe.ProgramOp):
        at = next(idx for idx, result in enumerate(owner.results) if result is op.value)
        name = owner.output_names.data[at]
        scaling = network.images[owner.program_name.data].symbol(name.data).scaling
    elif isinstance(owner, GraphOp) and owner.op_type == "QuantizeLinear":
        is_conversion = made_by(owner.inputs[0], "DequantizeLinear") is not None
        step = None if is_conversion else step_of(owner, network.store)
        scaling = step and Scaling(scale=step.scale, zero_point=step.zero_point)
    return _tensor_record(op.output_name.data, op.value, scaling)


def _tensor_record(name: str, value: SSAValue, scaling: Scaling | None = None) -> TensorRecord:
    return TensorRecord(name=name, shape=shape_of(value), dtype=str(dtype_of(value)), scaling=scaling)


def _program_record(name: str, image: ProgramImage, folder: str, manifest: str) -> ProgramRecord:
    ops = image.manifest.ops
    return ProgramRecord(
        name=name, folder=folder, manifest=manifest, num_ops=len(ops), num_instructions=len(image.program),
        macs=sum(op.macs for op in ops),
    )  # fmt: skip


def _host_records(module: ModuleOp) -> Iterator[HostRecord]:
    for host in host_ops(module):
        op = host.op
        read = [operand for operand in op.operands if not isinstance(operand.owner, ConstantOp)]
        yield HostRecord(
            nodes=op.node_names, kind=op.op_type, place=host.place, reason=None if op.reason is None else op.reason.data, read_bytes=sum(map(_num_bytes, read)),
            written_bytes=sum(map(_num_bytes, op.results)),
        )  # fmt: skip


def _num_bytes(value: SSAValue) -> int:
    return math.prod(shape_of(value)) * dtype_of(value).itemsize


def _check(path: Path, checksum: str) -> None:
    if not path.is_file():
        raise CompileError(f"{path}: missing; compile the network again")
    if _hash(path) != checksum:
        raise CompileError(
            f"{path}: its SHA-256 is {_hash(path)[:12]}..., and {NETWORK} says {checksum[:12]}...; the file was changed:"
            " restore it or compile the network again"
        )


def _hash(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()
