"""Numbers of Islam et al. (2004): parameters of the experiments; results are curves only."""

STRINGENCY = 0.2
"""S of all experiments (section 5)."""

SLACK_LOADS = (1.3, 1.6)
SLACK_FACTORS = (1.0, 2.0, 3.0, 4.0, 5.0, 6.0)
"""Of Figures 6 and 7; the slack factors also of Figures 8 to 11."""

KILL_LOAD = 1.6
KILL_TOLERANCE_FACTORS = (2.0, 4.0)
"""Of Figures 8 to 11."""

DEADLINE_SHARE = 0.2
"""Share of the jobs with a user's deadline in Figures 10 and 11."""
