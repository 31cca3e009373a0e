"""The schedule verifier; each ``rules_`` module has some of its rules."""
