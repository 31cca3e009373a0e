"""The best possible admission: schedules that know the future, and bounds that none can beat."""
