"""Facts of GPUs that no description has, since all described ones share them."""

from __future__ import annotations

from typing import Final

LANES: Final = 128
"""Instructions per cycle of one SM, over all lanes: 4 schedulers, one warp each.

Source: NVIDIA, A100 and H100 whitepapers."""

CACHE_LATENCY_CYCLES: Final = 260
"""Cycles of a hit in the L2. Source: Luo et al., IPDPSW 2024: 262 on an H100; similar on A100 (200 to 260)."""

SYNCHRONOUS_SHARE: Final = 0.62
"""Rate of `mma.sync` over the full rate where the tensor cores have larger, asynchronous instructions.

Source: Luo et al., IPDPSW 2024: mma.sync reaches about 62 % of the peak of an H100, wgmma above 95 %."""

LOAD_LANES: Final = 32
"""Loads and stores of one SM per cycle, over all lanes. Source: NVIDIA, A100 and H100 whitepapers: 32 LD/ST units."""
