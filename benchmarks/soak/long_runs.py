"""Random runs of up to 20,000 jobs: 10 minutes verify a million."""

from __future__ import annotations

import functools

import random_runs

case = functools.partial(random_runs.case, always_long=True)
