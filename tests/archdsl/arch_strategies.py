"""Hypothesis strategies over the whole description format: every field, every kind of node, odd texts and numbers."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from tileloom.archdsl import (
    DATATYPE_BITS,
    Arch,
    Bandwidth,
    DimClass,
    GpuArch,
    Keep,
    Mapping,
    MappingNode,
    Spatial,
    SpatialArch,
    System,
    Temporal,
    TensorRole,
)

Fields = dict[str, Any]

# Texts that YAML could take for something else, and the mark of an expression.
TEXTS = st.sampled_from(
    [
        "on",
        "no",
        "~",
        "null",
        "1e3",
        "010",
        "0x10",
        "- a",
        "a: b",
        "# c",
        "${x}",
        "$${x}",
        "$",
        "'",
        '"',
        "é ☃",
        " x ",
        "2024-01-01",
        "two\nlines",
        "end\n",
        " a\n\n  b: c\n",
        "tab\there",
    ]
) | st.text(st.characters(exclude_categories=["Cs", "Cc"]), min_size=1, max_size=30).filter(
    lambda text: bool(text.strip())
)
NAMES = st.from_regex(r"[A-Za-z_][A-Za-z0-9_]{0,8}", fullmatch=True)
COUNTS = st.integers(1, 4096)
BYTES = st.integers(1, 2**50)
AMOUNTS = st.floats(0, 1e15, allow_subnormal=False)
POSITIVE = st.floats(1e-9, 1e15, exclude_min=True)
BANDWIDTHS = st.one_of(
    st.just(Bandwidth(float("inf"))),
    st.builds(Bandwidth, POSITIVE, st.sampled_from(["cycle", "second"])),
)
DATATYPES = st.sampled_from(sorted(DATATYPE_BITS))
ROLES = st.lists(st.sampled_from(list(TensorRole)), min_size=1, max_size=3, unique=True)


def optional(required: dict[str, st.SearchStrategy[Any]], others: dict[str, st.SearchStrategy[Any]]) -> Any:
    """Fields of which some may be left out."""
    return st.fixed_dictionaries(required, optional=others)


TECHNOLOGY = optional({"node_nm": POSITIVE, "source": TEXTS}, {"voltage_v": POSITIVE})
INTRINSIC = optional({}, {"m": COUNTS, "n": COUNTS, "k": COUNTS})


@st.composite
def memories(draw: st.DrawFn, name: str, keeps_all: bool) -> Fields:
    fields: Fields = draw(
        optional(
            {
                "memory_class": st.sampled_from(["main_memory", "scratchpad", "cache", "register_file"]),
                "capacity_bytes": st.none() | BYTES,
                "width_bits": COUNTS,
                "source": TEXTS,
            },
            {
                "banks": COUNTS,
                "read_bandwidth": st.none() | BANDWIDTHS,
                "write_bandwidth": st.none() | BANDWIDTHS,
                "read_energy_pj_per_byte": AMOUNTS,
                "write_energy_pj_per_byte": AMOUNTS,
                "area_mm2": AMOUNTS,
                "latency_cycles": st.integers(0, 10**6),
                "double_buffered": st.booleans(),
                "min_transfer_bytes": BYTES,
                "ports": st.fixed_dictionaries({"read": COUNTS, "write": COUNTS, "read_write": st.integers(0, 3)}),
            },
        )
    )
    if not keeps_all:
        fields["keeps"] = draw(ROLES)
        fields["must_keep"] = draw(st.lists(st.sampled_from(fields["keeps"]), unique=True))
    if fields["memory_class"] == "main_memory":
        fields["technology"] = draw(st.none() | st.sampled_from(["ddr4", "hbm3"]))
    return {"kind": "memory", "name": name, **fields}


@st.composite
def fanouts(draw: st.DrawFn, name: str) -> Fields:
    axis = optional(
        {"name": NAMES, "size": COUNTS},
        {
            "multicast": st.booleans(),
            "reduction": st.booleans(),
            "network": st.sampled_from(["broadcast", "systolic"]),
            "dim_classes": st.lists(st.sampled_from(list(DimClass)), min_size=1, unique=True),
            "hop_energy_pj_per_byte": AMOUNTS,
        },
    )
    axes = draw(st.lists(axis, min_size=1, max_size=3, unique_by=lambda fields: fields["name"]))
    return {"kind": "fanout", "name": name, "axes": axes, "source": draw(TEXTS)}


@st.composite
def spatial_archs(draw: st.DrawFn) -> SpatialArch:
    names = draw(st.lists(NAMES, min_size=2, max_size=6, unique=True))
    nodes = [draw(memories(names[0], True))]
    for name in names[1:-1]:
        nodes.append(draw(st.one_of(memories(name, False), fanouts(name))))
    compute_type = optional({}, {"macs_per_cycle": POSITIVE, "energy_pj_per_mac": AMOUNTS, "accumulator_bits": COUNTS})
    compute = draw(
        optional(
            {"datatypes": st.dictionaries(DATATYPES, compute_type, min_size=1, max_size=3), "source": TEXTS},
            {
                "intrinsic": INTRINSIC,
                "area_mm2": AMOUNTS,
                "stationary": st.sampled_from(["none", "weight", "input", "output"]),
                "vector_lanes": st.integers(0, 10**6),
            },
        )
    )
    if compute.get("stationary", "none") != "none":
        compute["preload"] = draw(st.sampled_from(["exposed", "shadowed"]))
    nodes.append({"kind": "compute", "name": names[-1], **compute})
    top = draw(
        optional(
            {"clock_hz": POSITIVE, "technology": TECHNOLOGY, "source": TEXTS}, {"description": TEXTS, "notes": TEXTS}
        )
    )
    return SpatialArch.model_validate(
        {"schema_version": 1, "kind": "spatial", "name": draw(NAMES), "hierarchy": nodes, **top}
    )


@st.composite
def gpu_archs(draw: st.DrawFn) -> GpuArch:
    base, boost = sorted(draw(st.tuples(POSITIVE, POSITIVE)))
    shared = sorted(draw(st.tuples(BYTES, BYTES)))
    threads = sorted(draw(st.tuples(COUNTS, COUNTS)))
    idle, limit = sorted(draw(st.lists(POSITIVE, min_size=2, max_size=2, unique=True)))
    core = st.fixed_dictionaries({"shape": INTRINSIC, "dense_ops_per_s": POSITIVE, "accumulator_bits": COUNTS})
    source = draw(TEXTS)
    return GpuArch.model_validate(
        {
            "schema_version": 1,
            "kind": "gpu",
            "name": draw(NAMES),
            "technology": draw(st.none() | TECHNOLOGY),
            "die_area_mm2": draw(st.none() | AMOUNTS),
            "clocks": {"base_hz": draw(st.none() | st.just(base)), "boost_hz": boost, "source": source},
            "num_sms": draw(COUNTS),
            "sm": {
                "register_file_bytes": draw(BYTES),
                "shared_memory_bytes": shared[1],
                "shared_memory_per_block_bytes": shared[0],
                "max_threads": threads[1],
                "max_threads_per_block": threads[0],
                "source": source,
            },
            "tensor_cores": {
                "per_sm": draw(COUNTS),
                "datatypes": draw(st.dictionaries(DATATYPES, core, min_size=1, max_size=3)),
                "source": source,
            },
            "vector_units": {
                "ops_per_s": draw(st.dictionaries(DATATYPES, POSITIVE, min_size=1, max_size=2)),
                "source": source,
            },
            "l2": {
                "capacity_bytes": draw(BYTES),
                "read_bandwidth": draw(st.none() | BANDWIDTHS),
                "latency_cycles": draw(st.none() | COUNTS),
                "source": source,
            },
            "main_memory": {
                "capacity_bytes": draw(BYTES),
                "bandwidth": draw(BANDWIDTHS),
                "energy_pj_per_byte": draw(st.none() | AMOUNTS),
                "source": source,
            },
            "launch": {"floor_s": draw(st.floats(0, 1)), "source": source},
            "power": {"limit_w": limit, "idle_w": draw(st.none() | st.just(idle)), "source": source},
            "source": source,
        }
    )


ARCHS: st.SearchStrategy[Arch] = spatial_archs() | gpu_archs()


@st.composite
def systems(draw: st.DrawFn) -> System:
    num_racks, per_rack = draw(st.integers(1, 3)), draw(st.integers(2, 4))
    count = num_racks * per_rack
    generators = [
        {"kind": "ring", "members": ["chip"]},
        {"kind": "all_to_all", "members": ["chip"]},
        {"kind": "torus", "members": ["chip"], "shape": [num_racks, per_rack], "wrap": draw(st.booleans())},
        {"kind": "switch", "name": "hub", "members": ["chip"]},
        {"kind": "switch", "name": "hub", "members": ["chip"], "per_rack": True},
        {"kind": "edges", "pairs": [[f"chip.{i}", f"chip.{i + 1}"] for i in range(count - 1)]},
    ]
    return System.model_validate(
        {
            "schema_version": 1,
            "kind": "system",
            "name": draw(NAMES),
            "chips": [{"name": "chip", "count": count, "arch": draw(ARCHS)}],
            "links": [
                {
                    "name": "link",
                    "bandwidth": Bandwidth(draw(POSITIVE), "second"),
                    "latency_s": draw(st.floats(0, 1)),
                    "energy_pj_per_byte": draw(st.none() | AMOUNTS),
                    "source": draw(TEXTS),
                }
            ],
            "racks": [{"name": "rack", "count": num_racks, "chips": {"chip": per_rack}}],
            "topology": [{"link": "link", **draw(st.sampled_from(generators))}],
        }
    )


WORDS = st.text(st.characters(exclude_categories=["Cs", "Cc"], exclude_characters="."), min_size=1, max_size=8)
NODES: st.SearchStrategy[MappingNode] = st.one_of(
    st.builds(Keep, level=TEXTS, tensors=st.lists(TEXTS, min_size=1, max_size=3).map(tuple)),
    st.builds(Temporal, dim=TEXTS, tile=COUNTS),
    st.builds(Spatial, dim=TEXTS, tile=COUNTS, fanout=WORDS, axis=WORDS),
)
MAPPINGS = st.builds(Mapping, nodes=st.lists(NODES, min_size=1, max_size=8).map(tuple))
