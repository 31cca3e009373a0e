"""AROMA: mapping of applications of four classes on unequal hosts that are shared in time."""
