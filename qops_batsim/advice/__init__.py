"""Advice for operators of a centre: explanations, charges, what a log could promise."""
