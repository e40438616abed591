"""Run a sweep with the fake evaluator as a program of its own, so that a test can interrupt or kill it.

python run_fake_sweep.py SPEC DIR JOBS
"""

from __future__ import annotations

import sys
from pathlib import Path

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parent.parent.parent))
    from tests.sweeps.fake_evaluator import fake_load
    from tests.sweeps.sweep_case import local, run
    from tileloom.archdsl import SweepError
    from tileloom.sweeps.loading import load_sweep

    try:
        summary = run(
            load_sweep(Path(sys.argv[1]), fake_load), Path(sys.argv[2]), make_executor=local(int(sys.argv[3]))
        )
    except SweepError as err:
        sys.exit(f"error: {err}")
    sys.exit(130 if summary.is_interrupted else 0)
