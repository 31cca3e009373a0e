"""Slack-based backfilling (Talby and Feitelson 1999)."""
