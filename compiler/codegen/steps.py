"""Steps: what one unit does once, with all that it waits for. A program is a list of them in an order that is right."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

Operands = Mapping[str, int]
Config = tuple[str, Operands]
"""An instruction that configures a unit, and its operands."""


@dataclass(slots=True, kw_only=True)
class Load:
    """An LD.

    Attributes:
        operands, config: Its operands, and the CFG_LD that it needs.
        kernel: Index of its kernel.
        after_walk: The walk (counted from 1) whose end of reading it waits for; 0 for none.
        after_store: The store whose end it waits for.
    """

    operands: Operands
    config: Operands
    kernel: int
    after_walk: int = 0
    after_store: int = 0

    @property
    def all_configs(self) -> tuple[Config, ...]:
        """All that must be configured for it."""
        return (("CFG_LD", self.config),) if self.config else ()


@dataclass(slots=True, kw_only=True)
class Walk:
    """A COMPUTE with the PRELOAD of its weights, or an ALU.

    Attributes:
        name: COMPUTE or ALU.
        operands: Its operands.
        configs: CFG_TILE, CFG_WALK and CFG_ALU as it needs them.
        preload: Operands of its PRELOAD; None for an ALU.
        kernel: Index of its kernel.
        after_load, after_store: The load and the store whose ends it waits for.
        preload_after_load, preload_after_store: Those for which its PRELOAD waits.
        input_banks, weight_banks: Banks of the scratchpad from which it reads inputs and weights, a bit each.
    """

    name: str
    operands: Operands
    configs: tuple[Config, ...]
    preload: Operands | None
    kernel: int
    after_load: int = 0
    after_store: int = 0
    preload_after_load: int = 0
    preload_after_store: int = 0
    input_banks: int = 0
    weight_banks: int = 0

    @property
    def all_configs(self) -> tuple[Config, ...]:
        """All that must be configured for it."""
        return self.configs


@dataclass(slots=True, kw_only=True)
class Store:
    """An ST.

    Attributes:
        operands, config: Its operands, and the CFG_ST that it needs.
        kernel: Index of its kernel.
        after_walk: The walk whose sums it waits for.
        after_load: The load (of its channel parameters, or of what it overwrites) whose end it waits for.
    """

    operands: Operands
    config: Operands
    kernel: int
    after_walk: int = 0
    after_load: int = 0

    @property
    def all_configs(self) -> tuple[Config, ...]:
        """All that must be configured for it."""
        return (("CFG_ST", self.config),)


Step = Load | Walk | Store


@dataclass(slots=True, kw_only=True)
class Steps:
    """A program's steps, unit by unit and as a whole.

    Attributes:
        order: All steps in an order in which they may run one after the other.
    """

    order: list[Step] = field(default_factory=list[Step])
