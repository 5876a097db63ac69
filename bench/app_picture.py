"""Draw docs/img/app.png: the third step of `missdp app` on the bundled survey.

python bench/app_picture.py        (needs Debian's chromium and chromium-driver, and the extra app)
"""

import json
import subprocess
import tempfile
import time
from pathlib import Path

from selenium import webdriver

from missdp.datasets import yrbss

TARGET = Path(__file__).parents[1] / "docs" / "img" / "app.png"
SIZE = {"width": 1000, "height": 1240, "deviceScaleFactor": 1, "mobile": False}
READY = (
    "return document.readyState === 'complete'"
    " && document.querySelector('main').dataset.running === '0'"
)


def drive(url):
    """Plan a release on the page, and store a picture of the plan."""
    options = webdriver.ChromeOptions()
    options.binary_location = "/usr/bin/chromium"
    for word in ("--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars"):
        options.add_argument(word)
    browser = webdriver.Chrome(options, webdriver.ChromeService("/usr/bin/chromedriver"))
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", SIZE)
    browser.get(url)
    browser.get(f"{url.partition('?')[0]}plan")
    browser.find_element("css selector", "[name=rows]").send_keys("5000")
    browser.find_element("css selector", "button.main").click()
    time.sleep(1)
    while not browser.execute_script(READY):
        time.sleep(0.2)
    time.sleep(1)
    browser.execute_script("window.scrollTo(0, 0)")
    browser.save_screenshot(str(TARGET))
    browser.quit()


def main():
    with tempfile.TemporaryDirectory() as folder:
        yrbss().schema().to_toml(Path(folder) / "survey.toml")
        words = ["missdp", "app", "--schema", "survey.toml", "--no-browser", "--json"]
        with subprocess.Popen(words, cwd=folder, stdout=subprocess.PIPE, text=True) as server:
            text = ""
            while not text.rstrip().endswith("}"):
                text += server.stdout.readline()
            drive(json.loads(text)["url"])
            server.terminate()
    print(f"wrote {TARGET}")


if __name__ == "__main__":
    main()
