"""AROMA: mapping applications of four classes to unequal, time-shared hosts."""
