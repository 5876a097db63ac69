"""The page in a real browser: the whole way, two tabs, the keyboard, axe, light and dark.

The tests need Debian's chromium and chromium-driver, selenium and the extra ``app``. A Python
package brings axe-core.
"""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from importlib.resources import files
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from missdp.cli.main import main

selenium = pytest.importorskip("selenium.webdriver")
pytest.importorskip("starlette")
selenium_select = pytest.importorskip("selenium.webdriver.support.ui").Select
BROWSER, DRIVER = shutil.which("chromium"), shutil.which("chromedriver")
pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(not (BROWSER and DRIVER), reason="needs chromium and chromium-driver"),
]
STEPS = ("data", "schema", "plan", "release", "look")
LOOKS = [(1200, "light"), (1200, "dark"), (390, "light"), (390, "dark")]
READY = "return document.readyState == 'complete' && document.querySelector('main').dataset.running"


@pytest.fixture(scope="module")
def browser():
    options = selenium.ChromeOptions()
    options.binary_location = BROWSER
    for word in ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"):
        options.add_argument(word)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    driver = selenium.Chrome(options=options, service=selenium.ChromeService(DRIVER))
    yield driver
    driver.quit()


class Page:
    """The page of a running command in a browser."""

    def __init__(self, browser, *words):
        self.browser = browser
        command = [sys.executable, "-m", "missdp", "app", "--no-browser", "--json", *words]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        text = ""
        while not text.rstrip().endswith("}"):
            text += self.process.stdout.readline()
        self.url = json.loads(text)["url"]
        self.root = self.url.partition("?")[0]
        self.look(1200, "light")
        browser.get(self.url)

    def look(self, width, scheme):
        size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 500}
        self.browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
        features = [{"name": "prefers-color-scheme", "value": scheme}]
        self.browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})

    def one(self, query):
        return self.browser.find_element("css selector", query)

    def type(self, name, text, within="main"):
        field = self.one(f"{within} [name='{name}']")
        field.clear()
        field.send_keys(text)

    def press(self, text):
        """Press the first visible button, link or summary with a text, and wait for its end."""
        every = self.browser.find_elements("css selector", "main button, main a, main summary")
        button = next(e for e in every if e.text.strip().startswith(text) and e.is_displayed())
        self.browser.execute_script("arguments[0].scrollIntoView({block: 'center'})", button)
        button.click()
        self.wait()

    def wait(self, seconds=120):
        time.sleep(0.3)
        until = time.monotonic() + seconds
        while time.monotonic() < until and self.browser.execute_script(READY) != "0":
            time.sleep(0.1)
        assert self.browser.execute_script(READY) == "0"

    def until(self, text, query):
        """Wait until an element has a text."""
        for _ in range(600):
            if text in self.one(query).text:
                return
            time.sleep(0.1)
        raise AssertionError(self.one(query).text)

    @property
    def scrolled(self):
        return self.browser.execute_script("return window.scrollY")

    @property
    def text(self):
        return self.one("main").text

    def go(self, step):
        self.browser.get(self.root + step)

    def close(self):
        self.browser.get("about:blank")
        self.process.terminate()
        self.process.communicate(timeout=30)


@pytest.fixture
def opened(folder, browser):
    """Open the page, and close it after the test."""
    pages = []

    def open_page(*words):
        pages.append(Page(browser, *words))
        return pages[-1]

    yield open_page
    for page in pages:
        page.close()


def complete(page):
    """Go through steps 1 and 2."""
    page.press("people.csv")
    page.press("Go on")
    page.press("One reason for all marked")
    page.type("reason", "the questionnaire")
    page.press("Save the schema")


def test_from_csv_to_dossier(opened, browser, folder):
    page = opened()
    complete(page)
    page.press("Go on")
    page.type("rows", "400")
    page.press("Compute the plan")
    assert (
        len([e for e in browser.find_elements("css selector", ".planned") if e.is_displayed()]) == 1
    )
    page.one("#slider").send_keys("\ue014")  # the right arrow
    page.press("Take ε = 2")
    assert page.one("input[name=epsilon]").get_attribute("value") == "2.0"
    page.type("ledger", "sqlite:///l.db")
    page.type("account", "people")
    page.press("Create this account")
    page.press("Create the account")
    page.press("State the guarantee")
    assert "differentially private" in page.text
    assert 0 < page.one(".confirm").rect["y"] - page.scrolled < 450  # it is in view
    page.one("[name=confirmed]").click()
    page.press("Release now")
    page.press("Go on")
    for button in ("Draw rows", "Write the dossier", "Compare with"):
        page.press(button)
    page.type("questions", "mean(age) by smoker")
    page.press("Estimate")
    assert len(browser.find_elements("css selector", ".answer svg path")) == 2
    assert {"people.model.json", "people.synthetic.csv", "people-dossier"} <= {*os.listdir()}
    browser.get(page.root + "file/report")
    assert "synthetic data" in browser.title
    browser.get(page.root + "file/compare")
    assert browser.title.startswith("CURATOR ONLY")
    severe = [one for one in browser.get_log("browser") if one["level"] == "SEVERE"]
    assert severe == []
    events = (json.loads(one["message"])["message"] for one in browser.get_log("performance"))
    sent = [
        e["params"]["request"]["url"] for e in events if e["method"] == "Network.requestWillBeSent"
    ]
    outside = [url for url in sent if not url.startswith((page.root, "data:", "about:", "chrome:"))]
    assert outside == []


def test_a_wrong_schema_is_mended_in_its_row(opened, browser):
    page = opened("people.csv")
    page.press("Read the table")
    page.press("Go on")
    age = column(browser, "age")
    page.type(f"{age}.upper", "5")
    page.until("attribute 'age'", "#state")  # while it is typed
    page.press("Save the schema")
    alert = page.one("[role=alert]")
    assert "'age'" in alert.text
    assert browser.switch_to.active_element == alert
    assert page.one(f"[name='{age}.upper']").get_attribute("value") == "5"
    page.type(f"{age}.upper", "120")
    page.until("No error", "#state")
    page.press("Save the schema")
    assert browser.find_elements("css selector", "[role=alert]") == []


def column(browser, name):
    """Return the place of a column in the form."""
    summaries = browser.find_elements("css selector", ".column > summary bdi")
    (summary,) = [one for one in summaries if one.text == name]
    return summary.find_element("xpath", "ancestor::details").get_attribute("id")[7:]


def test_numbers_become_categories_in_one_step(opened, browser):
    page = opened("people.csv")
    page.press("Read the table")
    page.press("Go on")
    age = column(browser, "age")
    page.type(f"{age}.lower", "1")
    page.type(f"{age}.upper", "2")
    selenium_select(page.one(f"[name='{age}.kind']")).select_by_visible_text(
        "categories without an order"
    )
    page.wait()
    assert page.one(f"[name='{age}.levels']").get_attribute("value") == "1\n2"
    assert page.one(f"#column-{age}").rect["y"] < page.scrolled + 900


def test_fields_of_a_column_have_its_name_for_a_screen_reader(opened, browser):
    page = opened("people.csv")
    page.press("Read the table")
    page.press("Go on")
    age = column(browser, "age")
    for name, label in (("upper", "Largest possible value"), ("nullable", "Cells may be missing")):
        field = page.one(f"[name='{age}.{name}']")
        assert field.accessible_name.startswith(f"age: {label}")


def test_second_submit_of_a_form_sends_nothing(opened, browser):
    opened("people.csv")
    browser.execute_script("""
        window.prevented = [];
        window.addEventListener("submit", (event) => {
          prevented.push(event.defaultPrevented);
          event.preventDefault();
        });""")
    click = "document.querySelector('button.main').click(); return prevented"
    assert [browser.execute_script(click) for _ in range(2)] == [[False], [False, True]]
    # A form is sent again on a page that is shown again, and if its sending was stopped.
    assert (
        browser.execute_script(f"window.dispatchEvent(new Event('pageshow')); {click}")[-1] is False
    )
    assert browser.execute_script(click)[-1] is True
    time.sleep(3.2)
    assert browser.execute_script(click)[-1] is False


def test_edit_of_the_release_removes_its_confirmation(opened, browser):
    page = opened()
    complete(page)
    page.go("release")
    for name, text in (("ledger", ""), ("account", ""), ("epsilon", "1")):
        page.type(name, text)
    page.press("State the guarantee")
    page.one("[name=confirmed]").click()
    assert browser.find_elements("css selector", ".confirm")
    page.one("[name=epsilon]").send_keys("0")
    assert not browser.find_elements("css selector", ".confirm")


def test_what_is_typed_is_not_lost_in_another_step(opened, browser):
    page = opened("people.csv")
    page.press("Read the table")
    page.press("Go on")
    age = column(browser, "age")
    page.type(f"{age}.public", "question 3")
    page.until("No error", "#state")
    page.go("plan")
    page.go("schema")
    assert page.one(f"[name='{age}.public']").get_attribute("value") == "question 3"


def test_a_refused_release_charges_nothing(opened):
    page = opened()
    complete(page)
    page.go("release")
    page.type("ledger", "sqlite:///l.db")
    page.type("account", "people")
    page.press("Create this account")
    page.type("total-epsilon", "1")
    page.press("Create the account")
    page.type("epsilon", "5")
    page.press("State the guarantee")
    assert "cannot pay for this release" in page.text
    page.press("Show the account")
    assert "Spent: 0 %" in page.text
    assert not Path("people.model.json").exists()


@pytest.mark.usefixtures("account")
def test_a_killed_server_leaves_what_a_killed_command_leaves(opened, browser, capsys):
    rng = np.random.default_rng(0)
    wide = pd.DataFrame(rng.integers(0, 9, (30_000, 25))).add_prefix("c")
    wide.to_csv("people.csv", index=False)
    page = opened()
    complete(page)
    page.go("release")
    for name, text in (("ledger", "sqlite:///l.db"), ("account", "p"), ("epsilon", "1")):
        page.type(name, text)
    page.press("State the guarantee")
    page.one("[name=confirmed]").click()
    page.one("button.danger").click()
    while not (started := charges(capsys)["started"]):
        time.sleep(0.02)
    page.process.send_signal(signal.SIGKILL)
    for _ in range(1200):  # so long only if the machine is busy
        if not re.search(FITTING, commands()):
            break
        time.sleep(0.1)
    saved = Path("people.model.json").exists()  # only if the noise was drawn before
    assert charges(capsys)["started"] == ([] if saved else started)
    browser.execute_script("return poll()")
    assert not re.search(FITTING, commands())


FITTING = r"missdp\.app\.child fit people"


def commands():
    """Command lines of running processes."""
    return subprocess.run(["ps", "-eo", "args"], capture_output=True, text=True, check=True).stdout


def charges(capsys):
    capsys.readouterr()
    assert main(["ledger", "show", "--ledger", "sqlite:///l.db", "--account", "p", "--json"]) == 0
    (account,) = json.loads(capsys.readouterr().out)["accounts"]
    return account


def test_two_tabs_do_not_overwrite_each_other(opened, browser):
    page = opened()
    page.press("people.csv")
    page.go("schema")
    first = browser.current_window_handle
    browser.switch_to.new_window("tab")
    page.go("schema")
    age = column(browser, "age")
    page.type(f"{age}.upper", "110")
    page.press("Save the schema")
    second = browser.current_window_handle
    browser.switch_to.window(first)
    page.type(f"{age}.upper", "99")
    page.press("Save the schema")
    assert "another tab changed the schema" in page.text
    assert page.one(f"[name='{age}.upper']").get_attribute("value") == "110"
    browser.switch_to.window(second)
    browser.close()
    browser.switch_to.window(first)


def test_a_second_user_and_other_origins_are_refused(opened, browser, folder):
    page = opened("people.csv")
    browser.delete_all_cookies()
    page.go("data")
    assert "token" in browser.find_element("css selector", "body").text
    browser.get(page.url)
    (folder / "evil.html").write_text(
        f"<form method=post action='{page.root}data/read'><input name=data value=people.csv></form>"
    )
    browser.get((folder / "evil.html").as_uri())
    browser.execute_script("document.forms[0].submit()")
    time.sleep(1)
    assert "refused" in browser.page_source or "missdp:" in browser.page_source
    browser.get(page.url)
    assert "Columns: " not in page.text


@pytest.mark.parametrize(("width", "scheme"), LOOKS)
def test_axe_finds_nothing_and_nothing_overflows(opened, browser, width, scheme):
    page = opened()
    complete(page)
    page.go("plan")
    page.type("rows", "400")
    page.type("epsilon", "1")
    page.press("Compute the plan")
    page.look(width, scheme)
    axe = (files(pytest.importorskip("axe_core_python")) / "axe.min.js").read_text("utf-8")
    for step in STEPS:
        page.go(step)
        browser.execute_script(
            "for (const e of document.querySelectorAll('details')) e.open = true"
        )
        browser.execute_script(axe)
        result = browser.execute_async_script("axe.run().then(arguments[0])")
        wrong = [(one["id"], one["nodes"][0]["html"][:200]) for one in result["violations"]]
        assert (step, wrong) == (step, [])
        assert browser.execute_script("return document.documentElement.scrollWidth") <= width
        ink = browser.execute_script("return getComputedStyle(document.body).backgroundColor")
        assert (ink == "rgb(255, 255, 255)") == (scheme == "light")


def test_the_keyboard_alone_reads_a_table_and_declares_a_column(opened, browser):
    page = opened()
    keys = selenium.ActionChains(browser)

    def to(query):
        for _ in range(60):
            keys.send_keys("\ue004").perform()  # the tab key
            if browser.execute_script("return document.activeElement.matches(arguments[0])", query):
                return
        raise AssertionError(query)

    to("button[value='people.csv']")
    keys.send_keys("\ue007").perform()  # the enter key
    page.wait()
    to("a.next")
    keys.send_keys("\ue007").perform()
    page.wait()
    to("#column-2 [name='2.public']")
    keys.send_keys("the questionnaire\ue007").perform()
    page.wait()
    assert "Saved people.toml" in page.text
    assert "from the data" not in page.one("#column-2 summary").text


def test_a_large_table_keeps_the_page_responsive(opened, browser):
    rng = np.random.default_rng(0)
    wide = pd.DataFrame(rng.integers(0, 50, (200_000, 30))).add_prefix("c")
    wide.to_csv("people.csv", index=False)
    page, began = opened(), time.monotonic()
    page.one("button[value='people.csv']").click()
    time.sleep(0.6)
    slowest = longest_answer(browser, 20)
    assert page.one("#stage").text or "Columns: 30" in page.text
    page.wait()
    took = time.monotonic() - began
    assert "Columns: 30" in page.text
    # A page that waits for the command answers when it ends. On a busy machine, all takes longer.
    assert slowest < max(1.0, took / 4), (slowest, took)


def longest_answer(browser, times):
    """Return the longest time of several requests, in seconds, while a command runs."""
    script = """const done = arguments[0], now = () => performance.now() / 1000, start = now();
        fetch("/progress").then(r => r.json()).then(() => done(now() - start))"""
    return max(browser.execute_async_script(script) for _ in range(times))
