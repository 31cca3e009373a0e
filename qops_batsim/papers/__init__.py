"""The source papers, run again: one module a paper, with its tables, figures and claims."""
