"""`python -m tests.helm.rendered` prints what the chart renders to, as a JSON array of objects.

Values come as JSON by standard input. For who runs them and has no engine of Helm's.
"""

from __future__ import annotations

import json
import sys

from helm_python import Chart  # type: ignore[import-not-found]

from tests.helm.check import CHART, render

if __name__ == "__main__":
    json.dump(render(Chart.load(str(CHART)), json.load(sys.stdin)), sys.stdout)
