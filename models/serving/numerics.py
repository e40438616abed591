"""In which datatypes a model is served: weights, products and the cache."""

from __future__ import annotations

from dataclasses import dataclass, replace

from ...archdsl import DATATYPE_BITS, GpuArch, LanguageModel, ModelError, WeightRole, nearest_hint, weight_tensors

QUANTISED_ROLES: frozenset[WeightRole] = frozenset({"attention", "feed_forward", "experts", "shared_experts"})
"""Roles whose matrices are quantised; embeddings, output projection, router, norms and biases stay as they are."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Numerics:
    """Datatypes of one way to serve a model.

    Attributes:
        name: What it is called.
        datatype: What the tensor cores multiply in quantised matrices.
        weight_bits: Bits of a weight of a quantised matrix.
        expert_bits: Bits of a weight of a routed expert, scales included.
        expert_datatype: What the tensor cores multiply in routed experts.
        kv_bits: Bits of an element of the cache.
        plain_datatype: Datatype of all else, activations included.
    """

    name: str
    datatype: str
    weight_bits: int
    expert_bits: float
    expert_datatype: str
    kv_bits: int
    plain_datatype: str = "bf16"

    @property
    def plain_bits(self) -> int:
        """Bits of activations and of weights that are not quantised."""
        return DATATYPE_BITS[self.plain_datatype]

    @property
    def products(self) -> frozenset[str]:
        """What the tensor cores multiply."""
        return frozenset({self.datatype, self.expert_datatype, self.plain_datatype})

    def bits_of(self, role: WeightRole, *, is_matrix: bool = True) -> float:
        """Bits of a weight of that role."""
        if role not in QUANTISED_ROLES or not is_matrix:
            return self.plain_bits
        return self.expert_bits if role == "experts" else self.weight_bits


def _numerics(name: str, datatype: str, weight_bits: int) -> Numerics:
    return Numerics(
        name=name,
        datatype=datatype,
        weight_bits=weight_bits,
        expert_bits=weight_bits,
        expert_datatype=datatype,
        kv_bits=16,
    )


QUANTISATIONS: dict[str, Numerics] = {
    "bf16": _numerics("bf16", "bf16", 16),
    "fp8": _numerics("fp8", "fp8", 8),
    "int8": _numerics("int8", "int8", 8),
    "fp4": _numerics("fp4", "fp4", 4),
    "int8_weights": _numerics("int8_weights", "bf16", 8),
    "int4_weights": _numerics("int4_weights", "bf16", 4),
}
"""Weights and activations in one datatype (`fp8` is w8a8), or weights alone (`..._weights`: products in bf16)."""

PUBLISHED = "published"
KV_DATATYPES = ("bf16", "fp8", "int8", "fp4")


def numerics_of(model: LanguageModel, quantisation: str = PUBLISHED, kv: str = "bf16") -> Numerics:
    """How to serve a model.

    Args:
        model: The model.
        quantisation: A name of `QUANTISATIONS`, or `published`: as the weights were published.
        kv: Datatype of the cache.

    Raises:
        ModelError: Unknown names.
    """
    if kv not in KV_DATATYPES:
        raise ModelError(f"unknown datatype of the cache '{kv}'{nearest_hint(kv, KV_DATATYPES)}")
    if quantisation == PUBLISHED:
        found = _published(model)
    elif quantisation in QUANTISATIONS:
        found = QUANTISATIONS[quantisation]
    else:
        known = (PUBLISHED, *QUANTISATIONS)
        raise ModelError(f"unknown quantisation '{quantisation}'{nearest_hint(quantisation, known)}")
    return replace(found, kv_bits=DATATYPE_BITS[kv])


def _published(model: LanguageModel) -> Numerics:
    # Weights of four bits (AWQ, GPTQ) are multiplied in bf16.
    name = {"fp16": "bf16", "fp32": "bf16", "tf32": "bf16", "int4": "int4_weights"}.get(model.datatype, model.datatype)
    if name not in QUANTISATIONS:
        raise ModelError(f"{model.name}: cannot serve weights of datatype '{model.datatype}'; name a quantisation")
    found = replace(QUANTISATIONS[name], name=PUBLISHED)
    if model.experts is not None and model.experts.weight_bits is not None:
        return replace(found, expert_bits=model.experts.weight_bits)
    return found


def require_datatypes(model: LanguageModel, numerics: Numerics, arch: GpuArch) -> None:
    """Check that a GPU multiplies what a model is served in.

    Raises:
        ModelError: It does not; the message has the quantisations that it does.
    """
    known = arch.tensor_cores.datatypes
    if missing := sorted(numerics.products - set(known)):
        fitting = [name for name, one in QUANTISATIONS.items() if one.products <= set(known)]
        raise ModelError(
            f"{model.name} in {numerics.datatype}: the tensor cores of {arch.name} have no {', '.join(missing)} (they have "
            f"{', '.join(known)}); choose --quantisation {', '.join(fitting) or 'of another chip'}"
        )


def weight_bytes(model: LanguageModel, numerics: Numerics, roles: frozenset[WeightRole] | None = None) -> int:
    """Bytes of all weights, or of some roles."""
    bits = sum(
        tensor.num_weights * numerics.bits_of(tensor.role, is_matrix=len(tensor.shape) > 1)
        for tensor in weight_tensors(model)
        if roles is None or tensor.role in roles
    )
    return int(-(-bits // 8))
