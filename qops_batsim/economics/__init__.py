"""Prices of quality of service: categories, slowdowns, charges, and the tolerance of users."""
