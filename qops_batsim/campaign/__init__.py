"""Putting engine, schedulers and analysis together."""
