"""Sizes and ranges: the one place that says how much is accepted.

They keep sums finite and exact, and a short file or message from exhausting memory.
"""

from __future__ import annotations

MAX_SECONDS = 1e12
"""Latest date and longest duration (seconds)."""

MAX_STRETCH = 1e18
"""Largest finite stretch in a table of jobs."""

MAX_PROCESSORS = 10**9
"""Most processors of a job or of a machine."""

MAX_JOBS = 10_000_000
"""Most jobs of a generated workload."""

MAX_APPLICATIONS = 1_000_000
"""Most applications of a generated workload."""

MAX_LAXITY = 1e6
"""Largest laxity r of a generated job: its deadline is (1 + r) run times after its start."""

MIN_EXPANSION = 0.01
"""Smallest load that run times can be multiplied by."""

MAX_LOAD = 100.0
"""Greatest load that a workload can be scaled to."""

MAX_STEPS = 1_000_000
"""Most steps of one composed profile, repetitions included."""

MAX_AMOUNT = 1e300
"""Most seconds, flop or bytes in a profile."""

MAX_HOSTS = 1_000_000
"""Most hosts in a platform."""

MAX_HOST_ID = 10_000_000
"""Largest host identifier in text."""

MAX_OCCUPATIONS = 200_000_000
"""Most (job, host) pairs in the results of a run."""

MAX_INPUT_BYTES = 1 << 30
"""Largest input file, after decompression (bytes)."""

MAX_ODD_LINES = 100_000
"""Most lines of a workload log that are no records, and as many that are comments."""

MAX_INFLATION = 16
"""Most that the content of a compressed file may be larger than the file, if it is not small."""

MAX_SMALL_CONTENT = 64 << 20
"""Content of a compressed file that is small, however well it is compressed (bytes)."""

MAX_PLATFORM_BYTES = 64 << 20
"""Largest platform file (bytes)."""

MAX_MESSAGE_BYTES = 1 << 28
"""Longest message of the protocol unless told otherwise (bytes)."""
