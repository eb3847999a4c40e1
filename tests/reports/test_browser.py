"""The pages in a headless Chromium: nothing overlaps, nothing is said on the console, and they open at once.

`VGI_CHROMIUM` names the program where it is not on the path; without one these tests are skipped. What is printed is
looked at with poppler's `pdftotext` and `pdftoppm`.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import unicodedata
from html import unescape
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import vgi_cli

pytest.importorskip("matplotlib", reason="the extra `report` is not installed")

SAMPLES = Path(__file__).parents[2] / "sample_data"
CHROMIUM = os.environ.get("VGI_CHROMIUM") or shutil.which("chromium") or shutil.which("google-chrome")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.usefixtures("laid_out"),
    pytest.mark.skipif(CHROMIUM is None, reason="no Chromium here"),
]

LOOK = """
<script>
addEventListener("load", () => setTimeout(() => {
  const boxes = (all) => [...all].map(e => ({e, r: e.getBoundingClientRect()}))
    .filter(b => b.r.width && b.r.height && b.e.checkVisibility());
  const meet = (a, b, slack) => Math.min(a.right, b.right) - Math.max(a.left, b.left) > slack
    && Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top) > slack;
  const overlaps = [];
  for (const svg of document.querySelectorAll("figure svg")) {
    const texts = boxes(svg.querySelectorAll("text"));
    for (let i = 0; i < texts.length; i++) for (let j = 0; j < i; j++) {
      const turned = [texts[i], texts[j]].some(t => /rotate\\(-?[1-9]/.test(t.e.getAttribute("transform") || ""));
      if (!turned && meet(texts[i].r, texts[j].r, 3))
        overlaps.push(`${texts[i].e.textContent.trim()} / ${texts[j].e.textContent.trim()}`);
    }
  }
  const blocks = boxes(document.querySelectorAll("main figure, main .verdicts, main .scroll, main h2, main p"));
  for (let i = 0; i < blocks.length; i++) for (let j = 0; j < i; j++)
    if (!blocks[i].e.contains(blocks[j].e) && !blocks[j].e.contains(blocks[i].e) && meet(blocks[i].r, blocks[j].r, 2))
      overlaps.push(`${blocks[i].e.tagName} / ${blocks[j].e.tagName}`);
  const style = getComputedStyle(document.body);
  const found = {
    overlaps, back: style.backgroundColor, ink: style.color,
    wider: document.documentElement.scrollWidth - innerWidth,
    milliseconds: performance.timing.loadEventEnd - performance.timing.navigationStart,
    focusable: document.querySelectorAll("a[href], summary, [tabindex='0']").length,
    pictures: document.querySelectorAll("figure svg").length,
    unnamed: [...document.querySelectorAll("figure svg, .scroll")].filter(e => !e.getAttribute("aria-label")).length,
  };
  const told = document.createElement("pre");
  told.id = "found";
  told.textContent = JSON.stringify(found);
  document.body.append(told);
}, 50));
</script>
"""


def look(page: Path, width: int, *more: str) -> dict[str, Any]:
    """What Chromium makes of a page; nothing may be on its console."""
    copy = page.with_name(f"looked-at-{page.name}")
    copy.write_text(page.read_text(encoding="utf-8").replace("</body>", f"{LOOK}</body>"), encoding="utf-8")
    command = [
        *(str(CHROMIUM), "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"),
        *(f"--user-data-dir={page.parent / 'profile'}", "--enable-logging=stderr", "--virtual-time-budget=20000"),
        *(f"--window-size={width},900", *more, "--dump-dom", copy.as_uri()),
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    assert "CONSOLE" not in done.stderr, done.stderr
    told = re.search(r'<pre id="found">(.*?)</pre>', done.stdout, re.S)
    assert told is not None
    found: dict[str, Any] = json.loads(told[1].replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&"))
    return found


def luminance(colour: str) -> float:
    """Relative luminance of `rgb(r, g, b)` (WCAG)."""
    parts = [int(part) / 255 for part in re.findall(r"\d+", colour)[:3]]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return float(np.dot([0.2126, 0.7152, 0.0722], linear))


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory, chained: Path) -> dict[str, Path]:
    """Of penguins (mixed), of 560 columns, of a flow, and of two runs side by side; and of two checks."""
    folder = tmp_path_factory.mktemp("pages")
    draw = np.random.default_rng(0)
    x = draw.normal(size=(600, 6)) @ draw.normal(size=(6, 560)) + 0.7 * draw.normal(size=(600, 560))
    texts = np.array([[f"{value:.3f}" for value in row] for row in x], dtype=object)
    texts[draw.random(x.shape) < draw.uniform(0.02, 0.3, 560)] = ""
    lines = [",".join(f"v{i:03}" for i in range(560)), *(",".join(row) for row in texts)]
    (folder / "wide.csv").write_text("\n".join(lines) + "\n")
    small: dict[str, Any] = {"threads": 1, "set": {"bootstrap": 4}}
    penguins = vgi_cli.fit(SAMPLES / "penguins.csv", out=folder / "penguins", **small)
    wide = {"bootstrap": 2, "model.factors": 6}
    many = vgi_cli.fit(folder / "wide.csv", model="fa", out=folder / "wide", threads=1, set=wide)
    flow = vgi_cli.load(chained)
    found = {"penguins": penguins, "wide": many, "flow": flow, "both": [penguins, flow]}
    for name, runs in found.items():
        vgi_cli.report(runs, out=folder / f"{name}.html", tipping=["bill_length_mm"] if name == "penguins" else [])
    for name, table in (("check", SAMPLES / "penguins.csv"), ("check-wide", folder / "wide.csv")):
        vgi_cli.check(table, trial=False, report=folder / f"{name}.html")
        found[name] = []
    return {name: folder / f"{name}.html" for name in found}


@pytest.mark.parametrize("width", [1200, 420])
@pytest.mark.parametrize("name", ["penguins", "wide", "flow", "both", "check", "check-wide"])
def test_page(name: str, width: int, pages: dict[str, Path]) -> None:
    assert pages[name].stat().st_size < 5_000_000
    found = look(pages[name], width)
    assert found["overlaps"] == [] and found["wider"] <= 0
    assert 0 < found["milliseconds"] < 2000
    assert (
        found["pictures"] >= (2 if name.startswith("check") else 5)
        and found["unnamed"] == 0
        and found["focusable"] > (5 if name.startswith("check") else 10)
    )


@pytest.mark.parametrize("name", ["penguins", "flow"])
def test_light_and_dark(name: str, pages: dict[str, Path]) -> None:
    light, dark = (look(pages[name], 1200, f"--blink-settings=preferredColorScheme={n}") for n in (1, 0))
    assert luminance(light["back"]) > 0.9 > 0.1 > luminance(dark["back"])
    for found in (light, dark):
        bright, dim = sorted((luminance(found["back"]), luminance(found["ink"])), reverse=True)
        assert (bright + 0.05) / (dim + 0.05) > 7


def sheets(page: Path, *more: str) -> list[tuple[str, np.ndarray]]:
    """The sheets on which Chromium prints a page: the text of each without blanks, and its pixels [h, w, 3]."""
    file = page.with_suffix(".pdf")
    command = [
        *(str(CHROMIUM), "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", *more),
        *(f"--user-data-dir={page.parent / 'profile'}", "--no-pdf-header-footer", f"--print-to-pdf={file}"),
    ]
    subprocess.run([*command, page.as_uri()], capture_output=True, timeout=120, check=True)
    text = subprocess.run(["pdftotext", "-raw", file, "-"], capture_output=True, text=True, check=True).stdout
    texts = [bare(sheet) for sheet in text.split("\f")[:-1]]
    subprocess.run(["pdftoppm", "-r", "60", file, file.with_suffix("")], check=True)
    found = []
    for image in sorted(page.parent.glob(f"{page.stem}-*.ppm")):
        _, size, _, pixels = image.read_bytes().split(b"\n", 3)
        width, height = map(int, size.split())
        found.append(np.frombuffer(pixels, np.uint8).reshape(height, width, 3))
        image.unlink()
    return list(zip(texts, found, strict=True))


def bare(text: str) -> str:
    """Without blanks, ligatures and marks of HTML."""
    return re.sub(r"\s", "", unicodedata.normalize("NFKC", unescape(re.sub(r"<[^>]*>", "", text))))


@pytest.mark.skipif(shutil.which("pdftoppm") is None, reason="no poppler here")
@pytest.mark.parametrize("name", ["penguins", "wide", "flow", "both"])
def test_printed(name: str, pages: dict[str, Path]) -> None:
    """Printed from a dark screen a page is black on white; a picture is on one sheet with its title and its caption, no
    heading is the last of a sheet, nothing is cut off at the edge, and what is closed says so."""
    source = pages[name].read_text(encoding="utf-8")
    found = sheets(pages[name], "--blink-settings=preferredColorScheme=0")
    assert len(found) > 4
    for _, pixels in found:
        assert (pixels.min(axis=2) > 200).mean() > 0.75  # white paper
        edge = np.concatenate([pixels[:, -12:].reshape(-1, 3), pixels[:, :12].reshape(-1, 3)])
        assert (edge == 255).all()
    figures = re.findall(r"<figure>(.*?)</figure>", source, re.S)
    assert len(figures) > 10
    for figure in figures:
        upright = re.findall(r"<text(?![^>]*rotate\(-?[1-9])[^>]*>(.*?)</text>", figure, re.S)
        texts = [bare(one) for one in [*upright, *re.findall(r"<figcaption[^>]*>(.*?)</figcaption>", figure, re.S)]]
        assert texts and any(all(one in text for one in texts) for text, _ in found), texts
    headings = [bare(one) for one in re.findall(r"<h[23][^>]*>(.*?)</h[23]>", source, re.S)]
    assert not [text[-60:] for text, _ in found for one in headings if text.endswith(one)]
    closed = len(re.findall("<details>", source))
    assert (
        sum(text.count(bare("(closed: open it before you print to have it here)")) for text, _ in found) == closed > 3
    )
