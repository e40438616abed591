"""Component models beside every published point: anchor, published, model, error; then errors by group.

python benchmarks/component_anchors.py            # literature in full, CACTI by group
python benchmarks/component_anchors.py --cacti    # every CACTI run as well
"""

import sys
from collections.abc import Iterable

from tileloom.models.components import AnchorError, ErrorSummary, anchor_errors, chip_errors, summarise


def print_errors(title: str, errors: Iterable[AnchorError]) -> None:
    print(f"\n{title}")
    print(f"{'quantity':24} {'conditions':38} {'published':>10} {'model':>10} {'error':>7}  seen, source")
    for error in errors:
        anchor = error.anchor
        print(
            f"{anchor.quantity:24} {anchor.conditions:38} {anchor.published:10.4g} {error.modelled:10.4g} "
            f"{error.relative:+7.0%}  {anchor.evidence}; {anchor.source}"
        )


def print_summary(title: str, summaries: Iterable[ErrorSummary]) -> None:
    print(f"\n{title}")
    print(f"{'group':30} {'points':>6} {'median':>7} {'worst':>7} {'bias':>7}")
    for found in summaries:
        print(f"{found.group:30} {found.count:6} {found.median:7.0%} {found.worst:7.0%} {found.bias:+7.0%}")


def main() -> None:
    errors = anchor_errors()
    shown = errors if "--cacti" in sys.argv[1:] else [e for e in errors if e.anchor.evidence != "run"]
    chips = chip_errors()
    for role in ("calibration", "validation"):
        print_errors(f"{role} points", [error for error in shown if error.anchor.role == role])
    print_errors("whole chips (validation; areas of the presets)", chips)
    summaries = summarise([*errors, *chips])
    for role in ("calibration", "validation"):
        print_summary(f"errors on the {role} points, absolute", [s for s in summaries if s.role == role])


if __name__ == "__main__":
    main()
