"""Mapping search with proof: see README.md of `compiler`."""

from .api import Mapper, MappingResult, group_key, map_op
from .objective import OBJECTIVES, parse_objective
from .problem import Constraints

__all__ = ["OBJECTIVES", "Constraints", "Mapper", "MappingResult", "group_key", "map_op", "parse_objective"]
