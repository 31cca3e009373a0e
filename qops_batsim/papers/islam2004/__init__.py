"""Islam et al. (2004): feedback, tolerance, slack, kill-and-restart."""
