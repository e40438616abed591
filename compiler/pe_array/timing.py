"""What the closed-form timing model needs of a kernel: its loads, units and stores as plain numbers."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from ...archdsl import PeArray
from ...models import KernelTiming
from .convolution import ConvLayout, ConvShape
from .schedule import plan_kernel

Ints = npt.NDArray[np.int64]


def kernel_timing(array: PeArray, shape: ConvShape, layout: ConvLayout) -> KernelTiming:
    """The numbers on which a kernel's cycles depend; nothing is emitted.

    Args:
        array: The PE array.
        shape: The convolution or matrix product.
        layout: Its data in main memory.

    Raises:
        CompileError: The kernel does not fit the array's memories.
    """
    plan = plan_kernel(array, shape, layout)
    units, waits = plan.units, plan.waits
    vectors = np.array([tile.num_vectors for tile in plan.tiles])[units.tile]
    # The stores behind a group's last unit, one per tile of output channels.
    num_stores = np.where(units.ends_group, units.place + 1, 0)
    stores_end = np.cumsum(num_stores)
    last = np.flatnonzero(units.ends_group)
    group_sizes = units.place[last] + 1
    first_outputs: Ints = np.repeat(units.output[last] - units.place[last], group_sizes)
    first_stores: Ints = np.repeat(stores_end[last] - group_sizes, group_sizes)
    outputs = first_outputs + np.arange(len(first_stores)) - first_stores
    widths = np.minimum(array.cols, plan.problem.shape.outputs - outputs * array.cols)
    stored = np.concatenate([[0], stores_end[last]])[waits.stored]
    return KernelTiming(
        load_rows=plan.loads.rows,
        load_beats=plan.loads.beats,
        loads_end=waits.loads_end,
        steps=units.num_taps,
        vectors=vectors,
        begins_tile=np.diff(units.block, prepend=-1),
        wants_weights=waits.weights,
        wants_input=waits.inputs,
        wants_parameters=waits.parameters,
        wants_stores=stored,
        num_stores=num_stores,
        store_beats=-(-widths // array.bus_bytes),
    )
