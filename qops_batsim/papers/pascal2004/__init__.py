"""Pascal, Richard, Miegemolle and Monteil (2004): AROMA."""
