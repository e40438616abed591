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
from tileloom.models.spatial_systems.published import APPLICATIONS, resnet50, workload_of
from tileloom.models.spatial_systems.reach import latency_for

# Jouppi et al., ISCA 2017, Table 3, achieved TOPS.
TPU_TOPS = {"MLP0": 12.3, "MLP1": 9.7, "LSTM0": 3.7, "LSTM1": 2.8, "CNN0": 86.0, "CNN1": 14.1}
# Abts et al., ISCA 2020: 20.4 thousand images per second at batch 1.
TSP_RESNET50_US = 1e6 / 20.4e3
# Arsovski and Raghavan, Hot Chips 2026: GB reached, within us.
LPX_REACH_US = {8: 0.35, 64: 0.75, 128: 1.15, 384: 1.6, 640: 2.05, 896: 2.5, 1152: 2.95}


def array_of(name: str) -> TiledArray:
    arch = load_arch(name)
    assert isinstance(arch, SpatialArch)
    return tiled_array_of(arch)


def print_row(name: str, published: float, model: float, unit: str) -> None:
    print(f"{name:28} {published:10.2f} {model:10.2f} {unit:5} {model / published - 1:+7.1%}")


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
        found = array_times(array_of("tpu_v1"), workload_of(application))
        print_row(f"TPU v1 {application.name}", TPU_TOPS[application.name], found.ops_per_s / 1e12, "TOPS")
    found = array_times(array_of("groq_tsp"), resnet50())
    print_row("TSP ResNet-50 batch 1", TSP_RESNET50_US, found.time_s * 1e6, "us")
    reaches = reach_of(load_system("lpx_rack", {"parameters.racks": 9}), "lpu.0")
    for gigabytes, published in LPX_REACH_US.items():
        print_row(f"LPX reach of {gigabytes} GB", published, latency_for(reaches, gigabytes * 1e9) * 1e6, "us")
    if "--schedule" in sys.argv[1:]:
        print_schedule()


if __name__ == "__main__":
    main()
