"""Pictures in a notebook."""

from __future__ import annotations

from matplotlib.figure import Figure

from qops_batsim.experiments import Figure as PaperFigure
from qops_batsim.experiments import Panel, Series, draw_figure
from qops_batsim.measures import picture


def test_a_picture_without_a_file_can_be_shown() -> None:
    with picture(None, 4.0, 3.0) as figure:
        figure.subplots()
    assert figure._repr_png_().startswith(b"\x89PNG")


def test_a_paper_figure_can_be_shown_without_a_file() -> None:
    series = (Series(label="easy", x=(1.0, 2.0), y=(3.0, 4.0), low=(2.0, 3.0), high=(4.0, 5.0)),)
    panel = Panel(title="one", x_label="load", y_label="jobs", series=series)
    drawn = draw_figure(PaperFigure(name="1", title="both", panels=(panel, panel)))
    assert isinstance(drawn, Figure)
    assert len(drawn.axes) == 2
    assert drawn._repr_png_().startswith(b"\x89PNG")
