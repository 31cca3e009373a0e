"""Many runs: cases and seeds, intervals, comparisons."""
