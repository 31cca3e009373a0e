"""Talby and Feitelson (1999): slack-based backfilling."""
