"""AROMA: mapping applications of four classes of service on hosts that share time."""
