"""The schedule verifier and its rules."""
