"""What ``benchmarks/readable.py`` draws: whole sentences, and signatures with first lines."""

from __future__ import annotations

from benchmarks.readable import names, sentences, sentences_in


def test_sentences_are_whole() -> None:
    item = "- The rules are those of M. Islam et al. (2003). A second one has six words. No more."
    assert list(sentences_in(item)) == [
        "The rules are those of M. Islam et al. (2003).",
        "A second one has six words.",
    ]
    assert list(sentences_in("| a table | of many cells | is no sentence |")) == []


def test_names_have_signature_and_first_line() -> None:
    found = set(names())
    line = "timing.on_grid(date: float) -> float -- Return the nearest date, in seconds, that is a"
    assert any(each.startswith(line) for each in found)
    assert all(" -- " in each for each in found)


def test_pages_have_sentences() -> None:
    assert len({each.partition("]")[0] for each in sentences()}) > 30
