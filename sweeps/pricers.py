"""Which pricer prices the designs of a sweep."""

from __future__ import annotations

from .evaluation import Pricer
from .objectives import Pricing


def pricer_of(pricing: Pricing) -> Pricer:
    """The pricer; its model is imported when it is asked for."""
    if pricing is Pricing.SERVING:
        from .served import serving_pricer

        return serving_pricer()
    if pricing is Pricing.KERNELS:
        from .launched import kernel_pricer

        return kernel_pricer()
    from .mapped import mapping_pricer

    return mapping_pricer()
