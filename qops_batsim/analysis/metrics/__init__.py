"""Numbers about runs."""
