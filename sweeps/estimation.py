"""Price one workload on one architecture: map what has no mapping, estimate every op, add up."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from collections.abc import Mapping as MappingOf
from dataclasses import dataclass, replace
from typing import Literal, TypeVar

from ..archdsl import (
    ANY_OP,
    Infeasible,
    InfeasibleError,
    Mapping,
    MappingError,
    MappingFile,
    ModelError,
    Op,
    SpatialArch,
    VectorOp,
    Workload,
    WorkloadError,
    check_mapping,
    nearest_hint,
)
from ..models import ArchNumbers, KernelOp, OpEstimate, estimate_network, estimate_op, estimate_vector_op, resolve
from .document import EstimateDocument
from .documenting import Proof, estimate_document

Fidelity = Literal["throughput", "detailed"]


@dataclass(frozen=True, slots=True, kw_only=True)
class EstimateOptions:
    """How ops are mapped and counted.

    Attributes:
        objective: What the mapper minimises for every op.
        convention: Name of the counting convention.
        fidelity: Fidelity of the latency model.
        mappings: Given mappings; ops that they do not name are searched. None searches all.
        stationary: Tensor that alone stays in the PEs, in searched mappings.
        min_utilization: Least share of PEs that must have work in searched mappings, 0 to 1.
        time_limit_s: Longest search for one op; a search that it ends cannot be reproduced.
    """

    objective: str = "energy"
    convention: str = "tileloom"
    fidelity: Fidelity = "throughput"
    mappings: MappingFile | None = None
    stationary: str | None = None
    min_utilization: float = 0.0
    time_limit_s: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimated:
    """An estimate and the mappings that it holds for.

    Attributes:
        document: The estimate.
        mappings: By op name, vector work left out.
        sources: Where each number of the architecture comes from, by its dotted name.
    """

    document: EstimateDocument
    mappings: dict[str, Mapping]
    sources: dict[str, str]


OpT = TypeVar("OpT", bound=KernelOp)


def merge_equal_ops(workload: Workload) -> tuple[Op | VectorOp, ...]:
    """Ops of a workload; see `merge_equal`."""
    return merge_equal(workload.ops)


def merge_equal(ops: Sequence[OpT]) -> tuple[OpT, ...]:
    """Ops in execution order, those of one shape joined into the first, which then counts for all.

    The joined op keeps the first's name; its nodes are everybody's.
    """
    merged: dict[object, OpT] = {}
    for op in ops:
        key = _shape_of(op)
        first = merged.get(key)
        if first is None:
            merged[key] = op
        else:
            merged[key] = replace(first, count=first.count + op.count, nodes=(*first.nodes, *op.nodes))
    return tuple(merged.values())


def _shape_of(op: KernelOp) -> object:
    """Equal for ops that cost the same: names, of vector work's tensors too, do not count."""
    if not isinstance(op, VectorOp):
        return replace(op, name="", count=1, nodes=())
    reads, writes = (tuple(("", amount) for _, amount in moved) for moved in (op.read_bytes, op.write_bytes))
    return replace(op, name="", count=1, nodes=(), read_bytes=reads, write_bytes=writes)


class Estimator:
    """Estimates workloads on architectures and shares what their searches have in common.

    What it returns does not depend on what it was asked before.

    Args:
        options: How ops are mapped and counted.
    """

    def __init__(self, options: EstimateOptions) -> None:
        from ..compiler import Constraints, Mapper  # sets up compiled loops, which kernels of a GPU do not need

        self.options = options
        self._mapper = Mapper(
            options.objective,
            convention=options.convention,
            fidelity=options.fidelity,
            constraints=Constraints(stationary=options.stationary, min_utilization=options.min_utilization),
            time_limit_s=options.time_limit_s,
        )

    def prepare(self, workloads: Sequence[Workload], archs: Sequence[SpatialArch]) -> None:
        """Map every op on several architectures ahead, op by op, which takes far less memory than one by one.

        It changes no estimate. Whatever goes wrong shows in `estimate`.
        """
        ops = {
            (op.dims, op.tensors): op
            for workload in workloads
            for op in merge_equal_ops(workload)
            if not isinstance(op, VectorOp)
        }
        for op in ops.values():
            self._mapper.map_ahead(op, archs)

    def estimate(
        self, workload: Workload, arch: SpatialArch, *, on_op: Callable[[Op | VectorOp], None] = lambda _: None
    ) -> Estimated:
        """Estimate a workload on an architecture.

        Args:
            workload: The workload.
            arch: The architecture.
            on_op: Is told each op before it is mapped.

        Raises:
            InfeasibleError: An op has no legal mapping.
            MappingError: A given mapping is illegal, or names an op that the workload lacks.
            ModelError: The architecture cannot run an op.
            WorkloadError: The workload has no ops.
        """
        ops = merge_equal_ops(workload)
        if not ops:
            raise WorkloadError(f"{workload.name}: nothing in it can be modelled, so there is nothing to estimate")
        numbers = resolve(arch)
        given = _given_mappings(self.options.mappings, ops, arch)
        estimates: list[tuple[OpEstimate, int]] = []
        proofs: dict[str, Proof] = {}
        for op in ops:
            on_op(op)
            try:
                estimate, proof = self._estimate_op(op, given, arch, numbers)
            except ModelError as error:
                raise ModelError(f"{op.name} ({op.kind}, {op.datatype}): {error}") from error
            estimates.append((estimate, op.count))
            if proof is not None:
                proofs[op.name] = proof
        document = estimate_document(
            estimate_network(workload.name, estimates, arch, numbers=numbers),
            workload,
            arch.name,
            numbers,
            convention=self.options.convention,
            fidelity=self.options.fidelity,
            objective=self.options.objective if proofs else None,
            proofs=proofs,
        )
        mappings = {e.op.name: e.mapping for e, _ in estimates if e.mapping is not None}
        sources = {source.quantity: f"{source.origin}: {source.detail}" for source in numbers.provenance}
        return Estimated(document=document, mappings=mappings, sources=sources)

    def _estimate_op(
        self, op: Op | VectorOp, given: MappingOf[str, Mapping], arch: SpatialArch, numbers: ArchNumbers
    ) -> tuple[OpEstimate, Proof | None]:
        if isinstance(op, VectorOp):
            return estimate_vector_op(op, arch, numbers=numbers), None
        if op.name in given:
            options = self.options
            mapping = given[op.name]
            return estimate_op(
                op, mapping, arch, convention=options.convention, fidelity=options.fidelity, numbers=numbers
            ), None
        found = self._mapper.map_op(op, arch, numbers=numbers)
        if isinstance(found, Infeasible):
            raise InfeasibleError(found)
        proof = Proof(proved_optimal=found.proved_optimal, gap=found.gap, space_size=found.space_size)
        return found.estimate, proof


def estimate_workload(workload: Workload, arch: SpatialArch, options: EstimateOptions) -> Estimated:
    """Estimate one workload on one architecture; see `Estimator`, which is cheaper for many."""
    return Estimator(options).estimate(workload, arch)


def _given_mappings(file: MappingFile | None, ops: Sequence[Op | VectorOp], arch: SpatialArch) -> dict[str, Mapping]:
    """The given mapping of every op that has one, all of them legal."""
    if file is None:
        return {}
    mac_ops = [op for op in ops if isinstance(op, Op)]
    names = {op.name for op in mac_ops}
    unknown = [name for name in file.mappings if name != ANY_OP and name not in names]
    if unknown:
        hints = (f"'{name}'{nearest_hint(name, sorted(names))}" for name in unknown)
        raise MappingError(f"the mapping file names ops that the workload lacks: {'; '.join(hints)}")
    keys = {op.name: op.name if op.name in file.mappings else ANY_OP for op in mac_ops}
    chosen = {op: file.mappings[keys[op.name]] for op in mac_ops if keys[op.name] in file.mappings}
    diagnostics = [
        file.diagnostic(keys[op.name], fault.node_idx, f"{op.name} on {arch.name}: {fault.message}")
        for op, mapping in chosen.items()
        for fault in check_mapping(mapping, op, arch)
    ]
    if diagnostics:
        raise MappingError("", dict.fromkeys(diagnostics))
    return {op.name: mapping for op, mapping in chosen.items()}
