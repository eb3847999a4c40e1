"""The pictures of a report: SVG by matplotlib, in the colours of the page around it.

Colours are those of Okabe and Ito, which people with any colour vision tell apart. A figure is drawn in stand-ins,
which then become CSS variables of the page, so that light, dark and print each have their own; lines also differ by
their dashes or widths, and bars by their filling.
"""

from __future__ import annotations

import io
import re
import warnings
from collections import Counter
from collections.abc import Mapping, Sequence
from html import escape
from typing import Literal

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure

from vgi_cli.columns.numerals import Floats
from vgi_cli.reports.values import ColumnPicture, Pair, Ticks, Tipping, Trace

INK, LINES = "#010203", "#040506"
OBSERVED, IMPUTED, THIRD, FOURTH = "#0072b2", "#d55e00", "#009e73", "#cc79a7"
VARIABLES = {
    INK: "currentColor",
    LINES: "var(--lines)",
    OBSERVED: "var(--observed)",
    IMPUTED: "var(--imputed)",
    THIRD: "var(--third)",
    FOURTH: "var(--fourth)",
}
"""Stand-ins of colours, and what they become in the page."""
FOUR = ((OBSERVED, "-"), (IMPUTED, "--"), (THIRD, "-."), (FOURTH, ":"))
STYLE = {
    "svg.fonttype": "none",
    "svg.hashsalt": "vgi",
    "font.family": "sans-serif",
    "font.size": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.edgecolor": INK,
    "axes.labelcolor": INK,
    "axes.labelpad": 7,
    "axes.linewidth": 0.6,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": LINES,
    "grid.linewidth": 0.5,
    "xtick.color": INK,
    "ytick.color": INK,
    "text.color": INK,
    "legend.frameon": False,
    "legend.fontsize": 8,
    "lines.linewidth": 1.5,
    "patch.linewidth": 0.8,
    "figure.constrained_layout.use": True,
}
LEAST = 0.01
"""Nats a row that the axis of a curve spans at least."""
WIDE, READABLE = 500, 0.7
"""Pixels from which on a picture does not shrink below this share of its width, at which its letters can still be
read; on a narrower screen it is moved sideways."""
LONGEST = 14
"""Letters of a name or a level in a picture."""
MOMENT, UPRIGHT = 19, 10
"""Letters of a moment beside an axis of pairs, and those up to which two stand beside each other below one."""


def short(text: str, longest: int = LONGEST) -> str:
    """A text that fits into a picture; `$` would begin a formula."""
    text = text if len(text) <= longest else f"{text[: longest - 1]}…"
    return text.replace("$", r"\$")


def shorts(names: Sequence[str], longest: int = LONGEST) -> list[str]:
    """Names that fit into a picture. Those that would look alike keep their ends too: `income…2019`, `income…2020`."""
    tail = longest // 2
    ends = {name: short(name, longest) for name in names}
    count = Counter(ends.values())
    return [
        ends[name]
        if len(name) <= longest or count[ends[name]] == list(names).count(name)
        else short(f"{name[: longest - 1 - tail]}…{name[-tail:]}", longest)
        for name in names
    ]


class Canvas:
    """A figure of some panels that becomes the markup of an SVG. Use as a context: within it `axes` are drawn on."""

    def __init__(self, key: str, width: float, height: float, panels: tuple[int, int] = (1, 1)) -> None:
        """key: unique in the page; width and height in inches."""
        self._key = key
        self._style = matplotlib.rc_context(STYLE)
        self._size, self._panels = (width, height), panels
        self.axes: list[Axes] = []

    def __enter__(self) -> Canvas:
        self._style.__enter__()
        self._figure = Figure(figsize=self._size)
        FigureCanvasSVG(self._figure)
        self.axes = list(np.ravel(self._figure.subplots(*self._panels, squeeze=False)))
        return self

    def __exit__(self, *raised: object) -> None:
        if raised[0] is None:
            file = io.StringIO()
            with warnings.catch_warnings():  # of letters that fonts here lack: texts stay texts, by fonts of the reader
                warnings.filterwarnings("ignore", r"Glyph .* missing from", UserWarning)
                self._figure.savefig(file, format="svg", transparent=True, metadata={"Date": None})
            self._text = file.getvalue()
        self._style.__exit__(None, None, None)

    def markup(self, alt: str) -> str:
        """The SVG to stand in a page, with a text for those who do not see it."""
        return inlined(self._text, self._key, alt)


def inlined(svg: str, key: str, alt: str) -> str:
    """A file of matplotlib as an element of a page: names that are unique in it, colours of the page, no size of its
    own but its proportions."""
    body = svg[svg.index("<svg") :]
    box = re.search(r'viewBox="([^"]+)"', body)
    assert box is not None
    width = float(box[1].split()[2])
    body = re.sub(r"<metadata>.*?</metadata>", "", body, flags=re.S)
    body = re.sub(r"<!--.*?-->", "", body, flags=re.S)
    body = re.sub(r'\bid="', f'id="{key}-', body)
    body = re.sub(r'(xlink:href="#|url\(#)', rf"\1{key}-", body)
    for stand_in, variable in VARIABLES.items():
        body = re.sub(stand_in, variable, body, flags=re.I)
    body = re.sub(r"font: ([0-9.]+)px [^;\"]*", r"font: \1px system-ui, sans-serif", body)
    body = re.sub(r"\n\s*", "\n", body)
    most = width * 1.34
    least = f"; min-width: {READABLE * most:.0f}px" if most > WIDE else ""
    head = f'<svg viewBox="{box[1]}" style="max-width: {most:.0f}px{least}" role="img" aria-label="{escape(alt, True)}"'
    names = ' xmlns:xlink="http://www.w3.org/1999/xlink" xmlns="http://www.w3.org/2000/svg"'
    return head + names + body[body.index(">") :]


def curves(key: str, drawn: Mapping[str, tuple[Floats, Floats]], alt: str) -> str:
    """The curves of the training: what was climbed, and scores of held-out rows; the acceptance in a panel of its
    own."""
    scores = {name: curve for name, curve in drawn.items() if name != "acceptance"}
    if "loglik" in scores:
        scores.pop("objective", None)  # of EM: the sum over rows with the penalty, in another unit
    accepted = drawn.get("acceptance")
    with Canvas(key, 3.4 * (1 + (accepted is not None)), 2.4, (1, 1 + (accepted is not None))) as canvas:
        own = canvas.axes[0]
        for (name, (epochs, values)), (colour, dash) in zip(scores.items(), FOUR, strict=False):
            few = len(values) < 30
            label = name.replace("_", " ")
            own.plot(epochs, values, dash, color=colour, label=label, marker="o" if few else None, markersize=3)
        every = np.concatenate([values for _, values in scores.values()] or [np.zeros(1)])
        low = float(np.quantile(every, 0.1))
        if every.min() < low - 3 * (every.max() - low) and every.max() > low:
            own.set_ylim(low - 1.5 * (every.max() - low), every.max() + 0.2 * (every.max() - low))
        bottom, top = own.get_ylim()
        if top - bottom < LEAST:  # rounding, not training
            own.set_ylim((bottom + top - LEAST) / 2, (bottom + top + LEAST) / 2)
        own.ticklabel_format(axis="y", useOffset=False)
        own.locator_params(axis="x", integer=True)
        own.set_xlabel("epoch")
        own.set_ylabel("nats a row")
        own.legend(loc="best")
        if accepted is not None:
            canvas.axes[1].plot(*accepted, color=OBSERVED, marker="o" if len(accepted[0]) < 30 else None, markersize=3)
            canvas.axes[1].set_ylim(0, 1)
            canvas.axes[1].locator_params(axis="x", integer=True)
            canvas.axes[1].set_xlabel("epoch")
            canvas.axes[1].set_ylabel("accepted proposals")
    return canvas.markup(alt)


def matrix(key: str, shares: Floats, names: Sequence[str], rows: int, alt: str, carried: int = 0) -> str:
    """The missingness matrix; shares [r, columns] of missing cells. The last `carried` columns are named as carried,
    behind a line."""
    columns = len(names)
    with Canvas(key, min(7.0, max(3.0, 0.35 * columns + 1.2)), 3.0) as canvas:
        own = canvas.axes[0]
        paint = np.zeros((*shares.shape, 4))
        paint[..., :3] = np.array([213, 94, 0]) / 255  # the colour of imputed cells, on whatever is behind
        paint[..., 3] = shares
        own.imshow(paint, aspect="auto", interpolation="nearest", extent=(-0.5, columns - 0.5, rows, 0))
        own.grid(False)
        own.set_ylabel("row")
        modelled = columns - carried
        if carried and modelled:
            own.axvline(modelled - 0.5, color=INK, linewidth=0.9, linestyle=":")
        if columns <= 25:
            labels = [f"{name}{' (carried)' * (j >= modelled)}" for j, name in enumerate(shorts(names))]
            own.set_xticks(range(columns), labels, rotation=60, ha="right", rotation_mode="anchor")
        else:
            own.set_xlabel(f"column (the last {carried}: carried)" if carried else "column")
    return canvas.markup(alt)


def column(key: str, drawn: ColumnPicture, alt: str) -> str:
    """Observed against imputed cells of a column: several imputations as thin lines."""
    with Canvas(key, 3.1, 1.9) as canvas:
        own = canvas.axes[0]
        if drawn.how == "bars":
            _bars(own, drawn)
        else:
            own.fill_between(drawn.at, drawn.observed, color=OBSERVED, alpha=0.25, linewidth=0)
            own.plot(drawn.at, drawn.observed, color=OBSERVED, linewidth=2)
            if drawn.how == "density":
                for one in drawn.imputed:
                    own.plot(drawn.at, one, color=IMPUTED, linewidth=0.8)
            else:
                height = float(drawn.observed.max()) or 1.0
                for number, one in enumerate(drawn.imputed):
                    places = np.clip(one, drawn.at[0], drawn.at[-1])
                    level = -height * (0.08 + 0.07 * number)
                    own.plot(places, np.full(len(places), level), "|", color=IMPUTED, markersize=5)
            own.set_xlim(drawn.at[0], drawn.at[-1])
            own.set_xticks(drawn.at[[0, len(drawn.at) // 2, -1]], [short(label) for label in drawn.labels])
            first, _, last = own.get_xticklabels()
            first.set_horizontalalignment("left")
            last.set_horizontalalignment("right")
            own.set_yticks([])
            own.spines["left"].set_visible(False)
    return canvas.markup(alt)


def _bars(own: Axes, drawn: ColumnPicture) -> None:
    """Shares of levels: observed filled, imputed as a line for each draw."""
    own.bar(drawn.at, drawn.observed, width=0.8, color=OBSERVED, alpha=0.3, edgecolor=OBSERVED)
    for number, one in enumerate(drawn.imputed):
        offset = 0.12 * (number - (len(drawn.imputed) - 1) / 2)
        own.plot(drawn.at + offset, one, "D", color=IMPUTED, markersize=2.5)
    labels = shorts(drawn.labels, 10)
    crowded = len(drawn.at) > 5 or sum(map(len, labels)) > 30
    if crowded:
        own.set_xticks(drawn.at, labels, rotation=50, ha="right", rotation_mode="anchor")
    else:
        own.set_xticks(drawn.at, labels)
    own.set_ylim(bottom=0)
    own.set_ylabel("share")


def pairs(key: str, drawn: Sequence[Pair], alt: str) -> str:
    """Points of pairs of columns: observed dots, imputed crosses."""
    across = min(len(drawn), 3)
    down = -(-len(drawn) // across)
    every = sorted({name for pair in drawn for name in pair.names})
    names = dict(zip(every, shorts(every, 18), strict=True))
    with Canvas(key, 2.4 * across, 2.1 * down, (down, across)) as canvas:
        for own, pair in zip(canvas.axes, drawn, strict=False):
            own.plot(*pair.observed, "o", color=OBSERVED, markersize=2.2, alpha=0.5, markeredgewidth=0)
            own.plot(*pair.imputed, "x", color=IMPUTED, markersize=3, markeredgewidth=0.8)
            own.set_xlabel(names[pair.names[0]])
            own.set_ylabel(names[pair.names[1]])
            _axis_of_a_pair(own, "x", pair.ticks[0])
            _axis_of_a_pair(own, "y", pair.ticks[1])
        for own in canvas.axes[len(drawn) :]:
            own.set_visible(False)
    return canvas.markup(alt)


def _axis_of_a_pair(own: Axes, which: Literal["x", "y"], ticks: Ticks | None) -> None:
    """The ticks of one axis: numbers, or moments at their places."""
    if ticks is None:
        own.locator_params(axis=which, nbins=4)
        own.ticklabel_format(axis=which, style="sci", scilimits=(-3, 5), useMathText=False)
        return
    labels = [short(label, MOMENT) for label in ticks[1]]
    (own.xaxis if which == "x" else own.yaxis).set_ticks(ticks[0], labels)
    if which == "x" and max(map(len, labels)) > UPRIGHT:
        own.tick_params(axis="x", rotation=20)


def traces(key: str, drawn: Trace, alt: str) -> str:
    """Traces of the mean and the spread of a column's imputed cells."""
    with Canvas(key, 3.1, 2.6, (2, 1)) as canvas:
        for own, values, name in zip(canvas.axes, (drawn.mean, drawn.spread), ("mean", "spread"), strict=True):
            rounds = np.arange(values.shape[1]) * drawn.every
            for one, (colour, dash) in zip(values, FOUR, strict=False):
                own.plot(rounds, one, dash, color=colour, linewidth=0.9)
            own.axvline(drawn.kept * drawn.every, color=INK, linewidth=0.6, dashes=(2, 2))
            own.set_ylabel(name)
            own.locator_params(axis="y", nbins=4)
        canvas.axes[0].tick_params(labelbottom=False)
        canvas.axes[1].set_xlabel("round")
    return canvas.markup(alt)


def tipping(key: str, drawn: Tipping, heights: Ticks | None, alt: str) -> str:
    """The mean of a column with its interval over shifts of its fills; `heights`: places of its axis and their
    labels."""
    with Canvas(key, 4.4, 2.6) as canvas:
        own = canvas.axes[0]
        sds = [at.sd for at in drawn.shifts]
        own.fill_between(
            sds, [at.low for at in drawn.shifts], [at.high for at in drawn.shifts], color=OBSERVED, alpha=0.25, lw=0
        )
        own.plot(sds, [at.estimate for at in drawn.shifts], color=OBSERVED)
        own.axhline(drawn.against, color=IMPUTED, linewidth=1.2, linestyle="--")
        for at in (drawn.below, drawn.above):
            if at is not None:
                own.axvline(at, color=INK, linewidth=0.9, linestyle=":")
        own.set_xlim(sds[0], sds[-1])
        own.set_xlabel("shift of the fills, standard deviations")
        if heights is None:
            own.set_ylabel("mean")
            own.ticklabel_format(axis="y", style="sci", scilimits=(-3, 5), useMathText=False)
        else:
            own.set_yticks(heights[0], [short(label) for label in heights[1]])
    return canvas.markup(alt)


def bars(key: str, names: Sequence[str], values: Sequence[float], label: str, mark: float | None, alt: str) -> str:
    """Horizontal bars of columns, with a line at `mark`."""
    with Canvas(key, 4.6, 0.5 + 0.19 * max(len(names), 2)) as canvas:
        own = canvas.axes[0]
        places = np.arange(len(names))
        own.barh(places, values, height=0.7, color=OBSERVED, alpha=0.75)
        own.set_yticks(places, shorts(names, 22))
        own.invert_yaxis()
        own.set_xlabel(label)
        own.grid(axis="y", visible=False)
        if mark is not None:
            own.axvline(mark, color=IMPUTED, linewidth=1.2, linestyle="--")
    return canvas.markup(alt)


def covered(
    key: str, names: Sequence[str], values: Sequence[float], chance: Sequence[float], mark: float, alt: str
) -> str:
    """Shares of columns as dots beside the share `mark` that they should be; `chance`: by how much each may differ from
    it by chance, as a bar."""
    with Canvas(key, 4.6, 0.5 + 0.19 * max(len(names), 2)) as canvas:
        own = canvas.axes[0]
        places = np.arange(len(names))
        low = np.maximum(mark - np.array(chance), 0.0)
        own.barh(
            places, np.minimum(mark + np.array(chance), 1.0) - low, left=low, height=0.7, color=OBSERVED, alpha=0.3
        )
        own.plot(values, places, "D", color=IMPUTED, markersize=3.5, clip_on=False)
        own.set_yticks(places, shorts(names, 22))
        own.set_ylim(len(names) - 0.4, -0.6)
        own.set_xlim(min(0.6, *values, *low) - 0.02, 1)
        own.set_xlabel("share in 90 % intervals")
        own.grid(axis="y", visible=False)
        own.axvline(mark, color=IMPUTED, linewidth=1.2, linestyle="--")
    return canvas.markup(alt)


def spark(observed: Floats, imputed: Floats) -> str:
    """A picture of one line for a table: the observed density or shares and the mean of the imputed ones [n]; `imputed`
    may be empty."""
    top = float(max(observed.max(), imputed.max() if len(imputed) else 0.0)) or 1.0
    step = max(len(observed) // 24, 1)

    def points(values: Floats) -> str:
        some = values[::step]
        across = 90 / max(len(some) - 1, 1)
        return " ".join(f"{i * across:.0f},{19 - 18 * value / top:.0f}" for i, value in enumerate(some))

    lines = [f'<polyline class="observed" points="{points(observed)}"/>']
    if len(imputed):
        lines.append(f'<polyline class="imputed" points="{points(imputed)}"/>')
    return f'<svg class="spark" viewBox="0 0 90 20" aria-hidden="true">{"".join(lines)}</svg>'
