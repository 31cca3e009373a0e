def test_a_call_is_asked_for_a_date_that_is_not_over_when_the_engine_hears_of_it() -> None:
    news = News()
    assert news.reachable(5.0, 4.9999, 3) == 5.0
    news.submitted(Job("w0!1", 4.0, 1, "p"), 4.002)
    assert news.reachable(5.0, 4.9999, 3) == pytest.approx(4.9999 + 4 * 11 * 0.002)
    assert news.reachable(9.0, 4.9999, 3) == 9.0
