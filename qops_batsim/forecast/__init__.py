"""Forecasts of when waiting jobs will start, and how true such forecasts were."""
