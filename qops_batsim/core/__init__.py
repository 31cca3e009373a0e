"""The compiled core of all schedulers: jobs, plans, profiles of free processors, the log."""
