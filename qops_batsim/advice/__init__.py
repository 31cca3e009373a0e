"""Quotes, explanations, charges and advice for operators of a centre."""
