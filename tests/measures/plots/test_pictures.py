from __future__ import annotations

import numpy as np
import pytest
from matplotlib.colors import to_rgb

from qops_batsim import InputError, read_run, run
from qops_batsim.dates import Calendar
from qops_batsim.measures import picture
from qops_batsim.measures.plots import gantt
from qops_batsim.measures.plots import over_time as plots
from qops_batsim.measures.plots.drawing import set_time_axis
from qops_batsim.measures.plots.gantt import by_deadline, by_state, colors_of

MUCH_KILLED = {"kill_and_restart": True, "tolerance_factor": 3.0}
SIGNATURES = {"png": b"\x89PNG", "pdf": b"%PDF", "svg": b"<?xml"}


@pytest.fixture
def result(write_run, mixed_run):
    return read_run(write_run(mixed_run(), hosts=4))


@pytest.mark.parametrize("kind", SIGNATURES)
def test_equal_runs_give_equal_gantt_charts(result, tmp_path, kind):
    first, second = tmp_path / f"first.{kind}", tmp_path / f"second.{kind.upper()}"
    gantt.gantt(result, first)
    gantt.gantt(result, second)
    assert first.read_bytes().startswith(SIGNATURES[kind])
    assert first.read_bytes() == second.read_bytes()


@pytest.mark.parametrize("kind", SIGNATURES)
def test_equal_runs_give_equal_plots(result, tmp_path, kind):
    first, second = tmp_path / f"first.{kind}", tmp_path / f"second.{kind}"
    plots.draw([result, result], first)
    plots.draw([result, result], second)
    assert first.read_bytes().startswith(SIGNATURES[kind])
    assert first.read_bytes() == second.read_bytes()


def test_a_gantt_chart_tells_states_rejections_and_units(result, tmp_path, monkeypatch):
    texts = drawn_texts(monkeypatch, lambda: gantt.gantt(result, tmp_path / "a.png"))
    assert "run: 5 jobs on 4 hosts" in texts
    assert {"successful: 2", "killed at walltime: 1", "killed by the scheduler: 1"} <= texts
    assert {"failed: 1", "refused, when submitted: 1"} <= texts
    assert "Time since the start of the simulation (seconds)" in texts
    assert {"1", "2", "3", "6"} <= texts  # labels of jobs


def test_a_gantt_chart_without_a_file(write_run, mixed_run, tmp_path):
    prefix = write_run(mixed_run(), hosts=4)
    before = sorted(tmp_path.iterdir())
    figure = gantt.gantt(prefix)
    assert figure.axes[0].get_title("left") == "run: 5 jobs on 4 hosts"
    assert sorted(tmp_path.iterdir()) == before


def test_a_part_of_the_run_is_drawn(result, tmp_path, monkeypatch):
    texts = drawn_texts(
        monkeypatch, lambda: gantt.gantt(result, tmp_path / "a.png", begin=17, end=24)
    )
    assert "run: 2 of 5 jobs on 4 hosts" in texts
    assert {"17", "24"} <= texts


def test_ticks_far_from_the_start_read_like_a_clock(write_run, tmp_path, monkeypatch):
    run = read_run(write_run([write_run.ran("1", 100 * 86400, 1, 100 * 86400, 6 * 3600, [0])]))
    texts = drawn_texts(monkeypatch, lambda: gantt.gantt(run, tmp_path / "a.png"))
    assert {"100 d\n00:00", "100 d\n06:00"} <= texts


def test_colours_tell_deadlines(tmp_path, monkeypatch):
    done = run("fqops", "sdsc_sp2_deadlines_500", None, MUCH_KILLED, out=tmp_path / "run")
    groups, refused = by_deadline(done.result, done.inputs.workloads)
    rows = sum(each.rows.astype(int) for each in groups)
    assert ((rows == 1) | ~done.result.executed).all()
    found = done.measured.deadlines
    count = {each.text: int((each.rows & done.result.executed).sum()) for each in groups}
    assert sum(count[text] for text in count if text.startswith("met")) == found.met.jobs
    assert count["missed"] + count["kept a later promise"] == found.missed.jobs
    assert count["killed, run again"] == done.measured.runs_killed > 0
    assert int(refused.sum()) == found.refused.jobs
    texts = drawn_texts(monkeypatch, lambda: gantt.gantt(done.result, tmp_path / "a.png"))
    assert f"refused, when submitted: {found.refused.jobs}" in texts
    texts = drawn_texts(
        monkeypatch, lambda: gantt.gantt(done.result, tmp_path / "a.png", color="state")
    )
    assert f"successful: {done.measured.jobs_successful}" in texts
    with pytest.raises(InputError, match="unknown colour 'deadlin'; did you mean 'deadline'"):
        gantt.gantt(done.result, color="deadlin")


def test_dates_are_those_of_the_calendar():
    """In every zoom the label tells what the ticks leave out; clocks go back on 27 October."""
    calendar = Calendar(843480031, "Europe/Stockholm")
    for begin, end, label, ticks in (
        (0, 300 * 86400, "1996 to 1997", {"1997", "Mar"}),
        (30 * 86400, 40 * 86400, "1996", {"Nov", "28"}),
        (33.5 * 86400, 34.5 * 86400, "1996-10-27 to 1996-10-28", {"03:00", "18:00"}),
        (100, 110, "1996-09-23", {"12", "20"}),
    ):
        with picture(None, 4, 3) as figure:
            axes = figure.add_subplot()
            set_time_axis(axes, begin, end, calendar)
            figure.canvas.draw()
            shown = {text.get_text() for text in axes.get_xticklabels()}
            assert axes.get_xlabel() == f"Date, {label} (Europe/Stockholm)"
            assert 4 < len(shown) < 14, shown
            assert ticks <= shown, shown


def drawn_texts(monkeypatch, draw) -> set[str]:
    """Return the texts of the figure that ``draw`` saves."""
    from matplotlib.figure import Figure
    from matplotlib.text import Text

    seen: set[str] = set()
    save = Figure.savefig

    def spy(figure, *arguments, **options):
        save(figure, *arguments, **options)
        seen.update(text.get_text() for text in figure.findobj(Text))

    monkeypatch.setattr(Figure, "savefig", spy)
    draw()
    return seen


def test_each_cell_of_the_image_is_the_mean_of_what_its_host_ran(write_run):
    ran = write_run.ran
    jobs = [
        ran("1", 0, 1, 0, 10, [0], 10, "COMPLETED_WALLTIME_REACHED"),
        ran("2", 0, 1, 12.5, 2.5, [0]),
        ran("3", 0, 1, 0, 20, [1]),
    ]
    result = read_run(write_run(jobs))
    colors = colors_of(result, by_state(result))
    image = gantt.occupation_image(result, colors, result.executed, (0, 20), (4, 2))
    red, idle = np.array(to_rgb("#e4572e")), np.array(to_rgb("#f3f3f0"))
    blue = image[1, 0]
    assert image.shape == (2, 4, 3)
    assert np.allclose(image[0, :2], red)
    assert np.allclose(image[0, 3], idle)
    assert np.allclose(image[1], blue)
    assert blue[2] > blue[0]
    # From 10 to 15 the host is idle half of the time.
    half = 2 * image[0, 2] - idle
    assert np.allclose(half, blue)
    # Both hosts in one cell.
    both = gantt.occupation_image(result, colors, result.executed, (0, 20), (4, 1))
    assert np.allclose(both[0], image.mean(axis=0))


def test_what_cannot_be_drawn_is_refused(result, write_run, tmp_path):
    out = tmp_path / "a.png"
    with pytest.raises(InputError, match=r"a\.gif: ends in \.gif; .* one of \.png, \.pdf, \.svg"):
        gantt.gantt(result, tmp_path / "a.gif")
    with pytest.raises(InputError, match=r"has no ending"):
        plots.draw([result], tmp_path / "a")
    with pytest.raises(InputError, match="begins at 30 s and ends at 24 s"):
        gantt.gantt(result, out, begin=30)
    with pytest.raises(InputError, match=r"no job runs from 30 s to 40 s .* from 0 s to 24 s"):
        gantt.gantt(result, out, begin=30, end=40)
    rejected = read_run(write_run([write_run.ran("1", 0, 9)], name="none"))
    for draw in (lambda: gantt.gantt(rejected, out), lambda: plots.draw([result, rejected], out)):
        with pytest.raises(InputError, match=r"none_jobs\.csv: no job of this run was executed"):
            draw()
    assert not out.exists()


def test_a_failed_drawing_leaves_no_file(tmp_path):
    with pytest.raises(ZeroDivisionError), picture(tmp_path / "a.png", 2, 2):
        _ = 1 / 0
    assert list(tmp_path.iterdir()) == []


def test_many_jobs_are_drawn_as_an_image(shared, tmp_path, monkeypatch):
    result = read_run(shared / "batsim" / "recorded" / "batsched_kth_easy_bf")
    texts = drawn_texts(monkeypatch, lambda: gantt.gantt(result, tmp_path / "a.png"))
    assert "batsched_kth_easy_bf: 27,992 jobs on 100 hosts" in texts
    assert "Time since the start of the simulation (days)" in texts
    texts = drawn_texts(monkeypatch, lambda: plots.draw([result], tmp_path / "c.png"))
    assert "Waiting jobs, mean of 2 days" in texts
    assert "batsched_kth_easy_bf (mean 68.4 %)" in texts
