"""The schedule verifier: ``verifier`` checks, a ``rules_`` module each has the rules."""
