"""Spatial processors beside what was published of them: TPU v1's applications, Groq's TSP, reach of NVIDIA's LPX.

python benchmarks/spatial_systems.py              # the comparison
python benchmarks/spatial_systems.py --schedule   # and ResNet-50 over eight TSPs, cycle by cycle
"""

import sys

from tileloom.archdsl import SpatialArch, load_arch, load_system
from tileloom.models.spatial_systems import (
    Placement,
    TiledArray,
    array_times,
    place,
    reach_of,
    schedule_faults,
    schedule_statically,
    tiled_array_of,
)
from tileloom.models.spatial_systems.families import Member, cnn1_family, lstm1_family, spread_of
from tileloom.models.spatial_systems.inception import PUBLISHED_SIDE
from tileloom.models.spatial_systems.published import APPLICATIONS, resnet50, workload_of
from tileloom.models.spatial_systems.reach import latency_for

# Jouppi et al., ISCA 2017, Table 3, achieved TOPS.
TPU_TOPS = {"MLP0": 12.3, "MLP1": 9.7, "LSTM0": 3.7, "LSTM1": 2.8, "CNN0": 86.0, "CNN1": 14.1}
# Abts et al., ISCA 2020: 20.4 thousand images per second at batch 1.
TSP_RESNET50_US = 1e6 / 20.4e3
# Inception V2 with Table 1's operations per weight byte: by larger images, or by more channels.
LARGE_SIDE = 367
WIDE = 1.66
# Arsovski and Raghavan, Hot Chips 2026: GB reached, within us.
LPX_REACH_US = {8: 0.35, 64: 0.75, 128: 1.15, 384: 1.6, 640: 2.05, 896: 2.5, 1152: 2.95}


def array_of(name: str) -> TiledArray:
    arch = load_arch(name)
    assert isinstance(arch, SpatialArch)
    return tiled_array_of(arch)


def print_row(name: str, published: float, model: float, unit: str) -> None:
    print(f"{name:28} {published:10.2f} {model:10.2f} {unit:5} {model / published - 1:+7.1%}")


def print_families(array: TiledArray) -> None:
    """Ranges of the applications of which several networks have the published facts."""
    intensity = next(one for one in APPLICATIONS if one.name == "CNN1").macs_per_weight
    families: dict[str, tuple[str, tuple[Member, ...]]] = {
        "LSTM1": ("LSTM1", lstm1_family()),
        "CNN1": ("CNN1", cnn1_family()),
        f"CNN1, {LARGE_SIDE} pixels": ("CNN1", cnn1_family(side=LARGE_SIDE)),
        f"CNN1, {WIDE} x channels": ("CNN1", cnn1_family(width=WIDE)),
    }
    head = f"{'family':28} {'members':>8} {'min':>7} {'median':>7} {'max':>7} TOPS  {'published':>9}  {'median':>7}"
    print(f"\n{head} {'MAC/weight':>10}")
    for name, (application, members) in families.items():
        spread = spread_of(members, array)
        rate = TPU_TOPS[application]
        where = "inside" if spread.has(rate * 1e12) else "outside"
        row = " ".join(f"{one / 1e12:7.2f}" for one in (spread.least, spread.median, spread.most))
        workload = members[0].workload
        weights = sum(op.tensor_bytes(op.tensor("W")) for op in workload.mac_ops())
        print(
            f"{name:28} {spread.num_members:8} {row}       {rate:6.1f} {where:8} {spread.median / 1e12 / rate - 1:+7.1%} "
            f"{workload.macs / weights:10.0f}"
        )
    print(
        f"CNN1's are Inception V2 ({PUBLISHED_SIDE} pixels); the paper's MAC/weight is {intensity}, docs/systems.md says more"
    )


def print_schedule() -> None:
    rack = load_system("groq_rack")
    placement = place(resnet50(), rack, num_stages=8)
    assert isinstance(placement, Placement)
    schedule = schedule_statically(placement, rack)
    print(
        f"\nResNet-50 over 8 TSPs: {schedule.latency_s * 1e6:.1f} us, faults: {list(schedule_faults(schedule, rack))}"
    )
    print(schedule.table())


def main() -> None:
    print(f"{'what':28} {'published':>10} {'model':>10} {'unit':5} {'error':>7}")
    for application in APPLICATIONS:
        if application.name in ("LSTM1", "CNN1"):
            continue
        found = array_times(array_of("tpu_v1"), workload_of(application))
        print_row(f"TPU v1 {application.name}", TPU_TOPS[application.name], found.ops_per_s / 1e12, "TOPS")
    found = array_times(array_of("groq_tsp"), resnet50())
    print_row("TSP ResNet-50 batch 1", TSP_RESNET50_US, found.time_s * 1e6, "us")
    reaches = reach_of(load_system("lpx_rack", {"parameters.racks": 9}), "lpu.0")
    for gigabytes, published in LPX_REACH_US.items():
        print_row(f"LPX reach of {gigabytes} GB", published, latency_for(reaches, gigabytes * 1e9) * 1e6, "us")
    print_families(array_of("tpu_v1"))
    if "--schedule" in sys.argv[1:]:
        print_schedule()


if __name__ == "__main__":
    main()
