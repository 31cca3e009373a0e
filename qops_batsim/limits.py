"""Accepted sizes and ranges, all in one place.

They keep sums finite and exact, and a short file or message from exhausting memory. Who writes
keeps to them as who reads does: what one of our commands has written, every other can read.
"""

from __future__ import annotations

import re

MAX_SECONDS = 1e12
"""Latest date and longest duration in an input (seconds)."""

MAX_END = 2 * MAX_SECONDS
"""Latest date in the files of a run (seconds): a job of the last date may run for the longest."""

MAX_SPAN = MAX_END + MAX_SECONDS
"""Longest time between two dates of a run, of which the first may be below 0 (seconds)."""

MAX_STRETCH = 1e22
"""Largest finite stretch in a table of jobs: that of one which waited for ever to run at once."""

MAX_PROCESSORS = 1_000_000
"""Most processors of a job or of a machine."""

MAX_HOST_AMOUNT = 10**15
"""Most that a host has of a kind, memory in bytes: floats and sums of a machine stay exact."""

MAX_WEIGHT = (1 << 32) - 1
"""Largest weight of a host, as in Slurm."""

MAX_WHOLE_NUMBER = (1 << 63) - 1
"""Largest whole number among the options of a scheduler."""

MAX_HOSTS = MAX_PROCESSORS + 1
"""Most hosts in a platform, the master among them."""

MAX_HOST_ID = MAX_PROCESSORS
"""Largest host identifier in text."""

IN_NO_NAME = re.compile(r'[,"\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]')
"""Letters that no name of a job, profile or workload has.

Batsim writes names unquoted: these would break its tables, move a terminal's cursor, or cannot
be written at all.
"""

NO_NAME = (
    "contains a comma, a quotation mark or a control character, which would break result files"
)
"""Message about a name with one of them."""

MAX_JOBS = 10_000_000
"""Most jobs of a generated workload."""

MAX_APPLICATIONS = 1_000_000
"""Most applications of a generated workload."""

MIN_EXPANSION = 0.01
"""Smallest load that run times can be multiplied by."""

MAX_LOAD = 100.0
"""Greatest load that a workload can be scaled to."""

MAX_NESTING = 32
"""Most composed profiles inside each other."""

MAX_STEPS = 100_000
"""Most steps of one composed profile, repetitions included."""

MAX_AMOUNT = 1e300
"""Most seconds, flop or bytes in a profile."""

MAX_OCCUPATIONS = 200_000_000
"""Most (job, host) pairs in the results of a run."""

MAX_INPUT_BYTES = 1 << 30
"""Largest input file, after decompression (bytes)."""

MAX_ODD_LINES = 100_000
"""Most lines of a workload log that are no records, and as many that are comments."""

MAX_DESCRIPTION_BYTES = 16 << 20
"""Largest description of a run, list of external events or other file of settings (bytes)."""

LETTERS_OF_OBJECT, LETTERS_OF_LIST = 10, 8
"""Least letters of a workload for each of its objects, and for each of its lists.

No workload has fewer, and that keeps what is made of a text in proportion to it.
"""

MAX_INFLATION = 16
"""Most that the content of a compressed file may be larger than the file, if it is not small."""

MAX_SMALL_CONTENT = 64 << 20
"""Content of a compressed file that is small, however well it is compressed (bytes)."""

MAX_PLATFORM_BYTES = 64 << 20
"""Largest platform file (bytes)."""

MAX_TRACE_BYTES = 64 << 20
"""Largest file of a usage trace (bytes)."""

MAX_MESSAGE_BYTES = 1 << 28
"""Longest message of the protocol unless told otherwise (bytes)."""

MAX_CONTAINERS = 4_000_000
"""Most objects and arrays of a message: each takes a few bytes there, and many in memory."""
