"""The live lab in a real browser: quiet, complete, by keyboard, in a link, taken along, narrow, dark."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from urllib.parse import quote

import pytest
from test_same_experiment import CATALOGUE, hashes

import cwndlab
import needs
from browser import Browser, find
from cwndlab import _native
from cwndlab.experiment.scenario import planner
from cwndlab.report import html_report
from cwndlab.report.live_page import serve, templates
from cwndlab.report.live_page import settings as lab
from cwndlab.report.live_page.settings import Flow, Settings
from cwndlab.testbeds import loader, tables

pytestmark = pytest.mark.live

SHORT = Settings(
    (Flow("linux-6.8", "cubic"), Flow("freebsd-13", "newreno", start=500_000_000, extra=10_000_000)),
    buffer=40,
    duration=4_000_000_000,
)
RESULT = "document.body.dataset.result"


@pytest.fixture(scope="module")
def site() -> Iterator[str]:
    needs.need_page()
    with serve.server(0) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/"
        server.shutdown()


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    program = find()
    needs.need(None if program else "no Chromium on PATH (Debian: chromium)")
    assert program
    with Browser(program) as started:
        yield started


def shown(browser: Browser, site: str, address: str) -> Browser:
    browser.media()
    browser.size(1400, 900)
    browser.open("about:blank")
    browser.open(f"{site}#{address}")
    browser.wait(f"{RESULT} !== undefined")
    return browser


@pytest.fixture
def page(browser: Browser, site: str) -> Browser:
    return shown(browser, site, lab.address(SHORT))


def expected(yaml: str) -> str:
    """The hash that the command line comes to."""
    scenario = planner.make(loader.load(yaml)).runs[0].scenario
    simulation = _native.Simulation(json.dumps(scenario), 0)
    simulation.advance(2**62)
    return tables.result_hash(hashes(simulation))


def yaml_of(settings: Settings) -> str:
    return lab.yaml_text(settings, templates.families_of(CATALOGUE))


def another(page: Browser, before: str) -> str:
    page.wait(f"{RESULT} !== {json.dumps(before)}")
    found: str = page.evaluate(RESULT)
    return found


COLOURED = """
(() => {
  const canvas = document.getElementById('plot'), {width, height} = canvas;
  const {data} = canvas.getContext('2d').getImageData(0, 0, width, height);
  const bands = [0, 0, 0, 0];
  for (let i = 0; i < data.length; i += 4) {
    const [r, g, b] = [data[i], data[i + 1], data[i + 2]];
    if (Math.max(r, g, b) - Math.min(r, g, b) > 60) bands[Math.floor(i / 4 / width / height * 4)]++;
  }
  return bands;
})()
"""


def test_opens_without_complaint_and_asks_for_its_own_files_only(page: Browser, site: str) -> None:
    assert page.complaints() == []
    assert [asked for asked in page.requests() if not asked.startswith(site)] == []
    assert min(page.evaluate(COLOURED)) > 50
    assert page.evaluate("document.querySelectorAll('#words p').length") == 6
    said = page.evaluate("document.getElementById('words').textContent")
    assert "What limited f1: the path " in said and "What limited f2: " in said


def test_the_hash_is_that_of_the_command_line(page: Browser) -> None:
    assert page.evaluate(RESULT) == expected(yaml_of(SHORT))


def test_a_key_on_a_slider_runs_it_anew_and_the_link_follows(page: Browser, site: str) -> None:
    before = page.evaluate(RESULT)
    page.evaluate("document.getElementById('rate').focus()")
    page.page.keyboard.press("ArrowRight")
    after = another(page, before)
    page.wait("location.hash.startsWith('#rate=12mbit')")
    assert page.evaluate("document.getElementById('rate').getAttribute('aria-valuetext')") == "12mbit"
    link = page.evaluate("location.hash.slice(1)")
    assert shown(page, site, link).evaluate(RESULT) == after
    assert page.complaints() == []


def test_a_drag_that_ends_soon_ends_with_its_own_run(page: Browser) -> None:
    page.evaluate("""(async () => {
        const slider = document.getElementById('buffer');
        for (let place = 3; place < 20; place++) {
            slider.value = place;
            slider.dispatchEvent(new Event('input', {bubbles: true}));
            await new Promise(requestAnimationFrame);
        }
    })()""")
    last = page.evaluate("lab.settings.buffer")
    wanted = expected(yaml_of(replace(SHORT, buffer=last)))
    page.wait(f"{RESULT} === {json.dumps(wanted)}")
    assert page.complaints() == []


def test_what_is_pinned_is_drawn_and_said_beside_what_is_changed(page: Browser, site: str) -> None:
    before = page.evaluate(RESULT)
    page.evaluate("document.getElementById('pin').click()")
    page.evaluate("""(() => {
        const select = document.getElementById('queue');
        select.value = 'fq_codel';
        select.dispatchEvent(new Event('change', {bubbles: true}));
    })()""")
    after = another(page, before)
    page.wait("document.querySelectorAll('#words .pinned').length > 3")
    page.wait("location.hash.includes('fq_codel') && location.hash.includes('&pin=')")
    link = page.evaluate("location.hash.slice(1)")
    assert shown(page, site, link).evaluate(RESULT) == after
    page.wait("document.querySelectorAll('#words .pinned').length > 3")
    page.evaluate("document.getElementById('swap').click()")
    assert another(page, after) == before


def test_what_is_taken_along(page: Browser) -> None:
    page.evaluate("""(() => {
        window.kept = {};
        HTMLAnchorElement.prototype.click = function () { kept[this.download] = lastBlob; };
        const make = URL.createObjectURL;
        URL.createObjectURL = (blob) => { window.lastBlob = blob; return make.call(URL, blob); };
        for (const kind of ['yaml', 'csv', 'svg', 'png']) document.getElementById(kind).click();
    })()""")
    page.wait("Object.keys(kept).length === 4")
    assert page.evaluate("kept['live-lab.yaml'].text()") == yaml_of(SHORT)
    rows = page.evaluate("kept['live-lab.csv'].text()").splitlines()
    assert len(rows) > 1000 and len({row.count(",") for row in rows}) == 1
    assert page.evaluate("kept['live-lab.svg'].text()").count("<path") > 10
    assert page.evaluate("kept['live-lab.png'].size") > 10_000
    assert page.complaints() == []


def test_keys_move_the_cursor_and_zoom(page: Browser) -> None:
    page.evaluate("document.getElementById('cursor').focus()")
    page.page.keyboard.press("ArrowRight")
    said = page.evaluate("document.getElementById('readout').textContent")
    assert said.startswith("2.04 sf1 cwnd ")
    waiting = re.search(r"queue ([0-9]+) packets, ([0-9.]+) (µs|ms)$", said)
    assert waiting and float(waiting[2]) == pytest.approx(int(waiting[1]) * 1514 * 8e3 / SHORT.rate, rel=0.05)
    page.page.keyboard.press("+")
    assert page.evaluate("[lab.picture.span().from, lab.picture.span().to]") == pytest.approx([1.04, 3.04])
    page.page.keyboard.press("0")
    assert page.evaluate("lab.picture.span().to") == 4


@pytest.mark.parametrize("width", [400, 1000, 1400])
def test_nothing_is_wider_than_the_window(page: Browser, width: int) -> None:
    page.size(width, 800, phone=width == 400)
    page.evaluate("document.getElementById('more').open = document.getElementById('numbers').open = true")
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    # On a phone the picture stays in sight while sliders are moved, and covers none that has the focus.
    page.evaluate("document.getElementById('start1').focus()")
    picture, slider = (
        page.evaluate(f"document.getElementById('{name}').getBoundingClientRect().toJSON()")
        for name in ("plot", "start1")
    )
    if width == 400:
        assert 0 <= picture["top"] < picture["bottom"] < slider["top"] < slider["bottom"] < 800


def test_everything_that_takes_input_has_a_name(page: Browser) -> None:
    named = "e.labels?.length || e.getAttribute('aria-label') || e.textContent.trim()"
    unnamed = f"Array.from(document.querySelectorAll('input, select, button')).filter(e => !({named})).length"
    assert page.evaluate(unnamed) == 0


CONTRAST = """
(() => {
  const light = (text) => {
    const [r, g, b] = text.match(/[\\d.]+/g).slice(0, 3).map((v) => v / 255)
        .map((v) => (v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const behind = (e) => {
    for (; e; e = e.parentElement) {
      const colour = getComputedStyle(e).backgroundColor;
      if (!/, 0\\)$|transparent/.test(colour)) return colour;
    }
    return 'rgb(255, 255, 255)';
  };
  const poor = [];
  const texts = 'h1, h1 span, p, button, label, legend, select, input[type=text], summary, .soft, .note, b';
  for (const e of document.querySelectorAll(texts)) {
    if (!e.getClientRects().length) continue;
    const [a, b] = [light(getComputedStyle(e).color), light(behind(e))].sort((x, y) => y - x);
    if ((a + 0.05) / (b + 0.05) < 4.5) poor.push(`${e.tagName} ${e.className} ${e.textContent.slice(0, 20)}`);
  }
  const paper = light(getComputedStyle(document.getElementById('figure')).backgroundColor);
  const style = getComputedStyle(document.documentElement);
  const probe = document.createElement('i');
  document.body.append(probe);
  for (const [name, least] of [['flow', 3], ['label', 4.5]]) {
    for (let n = 1; n <= 4; n++) {
      probe.style.color = style.getPropertyValue(`--${name}-${n}`);
      const [a, b] = [light(getComputedStyle(probe).color), paper].sort((x, y) => y - x);
      if ((a + 0.05) / (b + 0.05) < least) poor.push(`${name} ${n}`);
    }
  }
  probe.remove();
  return poor;
})()
"""


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_and_lines_have_contrast(page: Browser, scheme: str) -> None:
    page.media("screen", scheme)
    assert page.evaluate(CONTRAST) == []


def test_what_is_wrong_in_a_link_is_said(browser: Browser, site: str) -> None:
    page = shown(browser, site, f"{lab.address(SHORT)}&rate=fast&{quote('<img>')}=1")
    assert "rate: fast (from 100kbit to 10gbit); <img>: 1" in page.evaluate(
        "document.getElementById('trouble').textContent"
    ).replace("%3Cimg%3E", "<img>")
    assert page.evaluate("document.querySelectorAll('main img').length") == 0


def test_a_wrong_value_is_said_beside_its_field(page: Browser) -> None:
    page.evaluate("""(() => {
        const input = document.querySelector('#rate').closest('.row').querySelector('input[type=text]');
        input.value = '10Mbps';
        input.dispatchEvent(new Event('change', {bubbles: true}));
    })()""")
    assert (
        page.evaluate("document.querySelector('[aria-invalid=true]').getAttribute('aria-label')")
        == "Rate, exactly"
    )
    assert "from 100kbit" in page.evaluate("document.querySelector('.note.wrong').textContent")
    assert page.evaluate("lab.settings.rate") == SHORT.rate


def test_a_rate_without_a_unit_is_told_what_it_lacks(page: Browser, site: str) -> None:
    page.evaluate("""(() => {
        const input = document.querySelector('#rate').closest('.row').querySelector('input[type=text]');
        input.value = '10';
        input.dispatchEvent(new Event('change', {bubbles: true}));
    })()""")
    said = page.evaluate("document.querySelector('.note.wrong').textContent")
    assert said.startswith("the unit is missing, such as 10mbit (bit, kbit, mbit, gbit); from 100kbit")
    opened = shown(page, site, "duration=1s&rate=10")
    assert "rate: 10 (the unit is missing, such as 10mbit" in opened.evaluate(
        "document.getElementById('trouble').textContent"
    )


def test_the_rate_changes_in_mid_run(page: Browser, site: str) -> None:
    before = page.evaluate(RESULT)
    page.evaluate("""(() => {
        const input = document.getElementById('rate_then');
        input.value = '2mbit';
        input.dispatchEvent(new Event('change', {bubbles: true}));
    })()""")
    assert another(page, before) == expected(yaml_of(replace(SHORT, rate_then=2_000_000, rate_at=2 * 10**9)))
    page.wait("location.hash.includes('rate_then=2mbit&rate_at=2s')")
    late = page.evaluate("""(() => {
        const [times, rates] = lab.series.throughput(0, 0.5, 3, 4);
        return rates.at(-1);
    })()""")
    assert 0 < late < 2.1


def test_a_preset_has_what_was_published_beside_what_is_seen(page: Browser) -> None:
    page.evaluate("""[...document.querySelectorAll('#presets button')]
        .find((button) => button.textContent.includes('patch')).click()""")
    page.wait(
        "/Seen here: [0-9]+ Mbit.*pinned: [0-9]+/.test(document.getElementById('published').textContent)"
    )
    said = page.evaluate("document.getElementById('published').textContent")
    assert "693 Mbit/s with the patch, 715 before it" in said
    page.evaluate("document.getElementById('buffer').dispatchEvent(new Event('input', {bubbles: true}))")
    assert page.evaluate("document.getElementById('published').hidden")


def test_a_run_is_drawn_as_it_comes(page: Browser, site: str) -> None:
    long = replace(SHORT, rate=100_000_000, buffer=300, duration=60_000_000_000)
    page.open("about:blank")
    page.open(f"{site}#{lab.address(long)}")
    seen = page.evaluate("""(async () => {
        const seen = new Set(), plot = document.getElementById('plot');
        while (!window.lab?.series?.summary) {
            if (plot.dataset.until) seen.add(Number(plot.dataset.until));
            await new Promise(requestAnimationFrame);
        }
        return [...seen];
    })()""")
    assert len([until for until in seen if 0 < until < 60]) >= 3


def test_the_report_opens_a_run_with_the_bytes_it_has(browser: Browser, site: str, tmp_path: Path) -> None:
    text = yaml_of(replace(SHORT, duration=2_000_000_000)).replace("name: f1,", "name: x,")
    results = cwndlab.load(text).run(out=tmp_path / "results")
    html_report.write(results, tmp_path / "report.html")
    browser.open((tmp_path / "report.html").as_uri())
    browser.wait("document.querySelector('#legend .live') !== null")
    link = browser.evaluate("document.querySelector('#legend .live').href")
    assert link.startswith(f"http://127.0.0.1:{serve.PORT}/#") and browser.complaints() == []
    written = {name: table.sha256 for name, table in results.record(0).tables.items()}
    assert shown(browser, site, link.partition("#")[2]).evaluate(RESULT) == tables.result_hash(written)
