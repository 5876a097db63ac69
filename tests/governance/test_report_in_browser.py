"""The public report in a real browser: nothing is asked of the network, nothing overflows.

The test needs Debian's chromium and chromium-driver, and selenium. A Python package brings
axe-core.
"""

import json
import shutil
from importlib.resources import files

import numpy as np
import pandas as pd
import pytest

from missdp import AllPairs, Categorical, Numeric, Schema
from missdp.governance.dossier import About, write_dossier

selenium = pytest.importorskip("selenium.webdriver")
BROWSER, DRIVER = shutil.which("chromium"), shutil.which("chromedriver")
pytestmark = pytest.mark.skipif(
    not (BROWSER and DRIVER), reason="needs chromium and chromium-driver"
)
LOOKS = [(1200, "light"), (1200, "dark"), (390, "light"), (390, "dark")]
LOOKS[-1] = pytest.param(*LOOKS[-1], marks=pytest.mark.short)


@pytest.fixture(scope="module")
def report(tmp_path_factory):
    """A report with a name that would run, had it not been made inert."""
    script = "<script>document.title='run'</script><img src=http://192.0.2.1/x onerror=alert(1)>"
    schema = Schema(
        (
            Categorical(name=script, levels=("a" * 3000, script), nullable=True, label=script),
            Categorical(name="wide", levels=tuple(f"level {i}" for i in range(40)), nullable=True),
            Numeric(name="number", lower=0, upper=10, bins=5, nullable=True),
        )
    )
    rng = np.random.default_rng(0)
    one = rng.integers(0, 2, 2000)
    wide, more = [f"level {i}" for i in rng.integers(0, 40, 2000)], rng.random(2000)
    rows = {script: np.array(schema[script].levels)[one], "wide": wide, "number": 5 * (one + more)}
    rows = pd.DataFrame(rows).mask(rng.random((2000, 3)) < 0.2)
    place = tmp_path_factory.mktemp("report") / "d"
    write_dossier(AllPairs(epsilon=5.0).fit(rows, schema=schema), place, about=About(title=script))
    return place / "report.html"


@pytest.fixture(scope="module")
def browser():
    options = selenium.ChromeOptions()
    options.binary_location = BROWSER
    for word in ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"):
        options.add_argument(word)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    found = selenium.Chrome(options=options, service=selenium.ChromeService(DRIVER))
    yield found
    found.quit()


def opened(browser, path, width, scheme, media=""):
    size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 500}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    features = [{"name": "prefers-color-scheme", "value": scheme}]
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": media, "features": features})
    for log in ("browser", "performance"):
        browser.get_log(log)
    browser.get(path.as_uri())


def asked_for(browser):
    """Return the addresses that the page requested from the network."""
    events = (json.loads(entry["message"])["message"] for entry in browser.get_log("performance"))
    sent = [e for e in events if e["method"] == "Network.requestWillBeSent"]
    return [e["params"]["request"]["url"] for e in sent]


@pytest.mark.parametrize(("width", "scheme"), LOOKS)
def test_nothing_leaves_nothing_fails_nothing_overflows(browser, report, width, scheme):
    opened(browser, report, width, scheme)
    assert browser.get_log("browser") == []
    assert asked_for(browser) == [report.as_uri()]
    assert browser.title.startswith("<script>")
    assert browser.execute_script("return document.documentElement.scrollWidth") <= width
    assert browser.execute_script("return document.querySelectorAll('script, img').length") == 1
    ink = "return getComputedStyle(document.body).backgroundColor"
    assert (browser.execute_script(ink) == "rgb(255, 255, 255)") == (scheme == "light")
    drawn = """return [...document.querySelectorAll('.chart svg')].filter(
        svg => svg.getBoundingClientRect().width < 20 || !svg.querySelector('rect')).length"""
    assert browser.execute_script(drawn) == 0
    assert len(browser.find_elements("css selector", ".chart svg")) > 30
    first = browser.find_elements("css selector", "header .tiles b")
    assert len(first) == 4
    assert first[-1].rect["y"] < 900


def test_the_matrix_is_sorted_and_stays_a_matrix(browser, report):
    opened(browser, report, 1200, "light")
    state = """return [...document.querySelectorAll('#matrix tr')].map(
        row => [...row.cells].map(cell => cell.textContent))"""
    before = browser.execute_script(state)
    change = "const o = document.getElementById('order'); o.value = arguments[0]; "
    for order in ("name", "strength", ""):
        browser.execute_script(change + "o.dispatchEvent(new Event('change'))", order)
        found = browser.execute_script(state)
        assert sorted(map(sorted, found)) == sorted(map(sorted, before))
        for place, row in enumerate(found[1:], 1):
            assert row[place] == ""  # nothing goes with itself
            assert row[0].split()[0] == found[0][place]
    assert found == before


def test_it_prints(browser, report):
    opened(browser, report, 1200, "dark", media="print")
    ink = "return getComputedStyle(document.documentElement).getPropertyValue('--ink')"
    assert browser.execute_script(ink) == "#000"
    opened(browser, report, 700, "light", media="print")  # about as wide as paper
    lines = """return [...document.querySelectorAll(".whole")].map(cell => {
        const range = document.createRange(); range.selectNodeContents(cell);
        return range.getClientRects().length; });"""
    assert {*browser.execute_script(lines)} == {1}  # no word in it is broken
    printed = browser.execute_cdp_cmd("Page.printToPDF", {})
    assert len(printed["data"]) > 10_000


@pytest.mark.long
@pytest.mark.parametrize(("width", "scheme"), LOOKS)
def test_axe_finds_nothing(browser, report, width, scheme):
    opened(browser, report, width, scheme)
    axe = files(pytest.importorskip("axe_core_python")) / "axe.min.js"
    browser.execute_script(axe.read_text(encoding="utf-8"))
    found = browser.execute_async_script("axe.run().then(arguments[0])")
    assert [(one["id"], one["nodes"][0]["html"][:200]) for one in found["violations"]] == []
