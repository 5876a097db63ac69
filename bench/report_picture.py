"""Draw docs/img/report.png: the first screen of the report that `missdp demo` writes.

python bench/report_picture.py        (needs Debian's chromium, and the extra report)
"""

import subprocess
import tempfile
from pathlib import Path

TARGET = Path(__file__).parents[1] / "docs" / "img" / "report.png"
SIZE = "1000,960"


def main():
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run(["missdp", "demo", "-o", f"{folder}/demo.csv"], check=True)
        browser = [
            "chromium",
            "--headless=new",
            "--no-sandbox",
            "--disable-gpu",
            "--hide-scrollbars",
        ]
        browser += [f"--user-data-dir={folder}/profile", f"--window-size={SIZE}"]
        page = Path(folder) / "demo_dossier" / "report.html"
        subprocess.run([*browser, f"--screenshot={TARGET}", page.as_uri()], check=True)
    print(f"wrote {TARGET}")


if __name__ == "__main__":
    main()
