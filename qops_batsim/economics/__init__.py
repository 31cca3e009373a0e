"""What quality of service costs: categories, slowdowns, charges, and what users tolerate."""
