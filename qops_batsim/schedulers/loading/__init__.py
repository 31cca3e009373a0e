"""Loading the code of schedulers such that it is known what was run."""
