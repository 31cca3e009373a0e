"""Islam et al. (2003): QoPS, and how it compares with MSB, MRT, EASY and conservative."""
