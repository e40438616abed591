"""Frameworks' all-reduces by size: what falls with larger messages is another kernel, never the same one."""

from __future__ import annotations

import numpy as np
import pytest

from tileloom.archdsl import load_system
from tileloom.models.systems import Collectives, make_machine


@pytest.mark.parametrize("system", ["dgx_h100", "dgx_b200", "dgx_a100"])
@pytest.mark.parametrize("num_chips", [2, 4, 8])
@pytest.mark.parametrize("mode", ["datasheet", "calibrated"])
def test_a_longer_message_is_shorter_only_by_another_kernel(system: str, num_chips: int, mode: str) -> None:
    described = load_system(system)
    machine = (
        make_machine(described) if mode == "datasheet" else make_machine(described, "calibrated", "custom_allreduce")
    )
    sizes = np.arange(1, 1500, dtype=np.int64) * 8192
    found = Collectives(op="all_reduce", sizes_bytes=sizes, num_chips=num_chips, library="trtllm").times(machine)
    falls = np.diff(found.time_s) < 0
    changes = np.array([left != right for left, right in zip(found.choices, found.choices[1:], strict=False)])
    assert not np.any(falls & ~changes)
    assert np.sum(changes) <= 4
