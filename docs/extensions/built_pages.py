"""Built pages are readable without a network, and each of their links leads somewhere."""

import re
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

# Attributes, by tag, whose files a browser fetches when a page is opened.
FETCHED = {
    "script": ("src",),
    "link": ("href",),
    "img": ("src", "srcset"),
    "iframe": ("src",),
    "source": ("src", "srcset"),
    "video": ("src", "poster"),
    "audio": ("src",),
    "object": ("data",),
    "embed": ("src",),
}
# Links of a page to others of its kind, which no browser follows by itself.
NOT_FETCHED = {"canonical", "alternate", "search", "index", "next", "prev", "author", "copyright"}
AWAY = re.compile(r"(?:https?:)?//")
IN_STYLE = re.compile(r"(?:@import\s+|url\()\s*[\"']?((?:https?:)?//[^\"')\s]+)")


class Page(HTMLParser):
    """The names of a page, the targets of its links, and the files that it fetches."""

    def __init__(self, text):
        super().__init__()
        self.names, self.links, self.fetched = set(), [], []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        found = {name: value or "" for name, value in attrs}
        self.names.update(found[name] for name in ("id", "name") if name in found)
        if tag == "a" and "href" in found:
            self.links.append(found["href"])
        if tag == "link" and set(found.get("rel", "").split()) & NOT_FETCHED:
            return
        self.fetched += [found[name] for name in FETCHED.get(tag, ()) if name in found]
        self.fetched += IN_STYLE.findall(found.get("style", ""))


def faults(folder):
    """List the faults of the pages of a folder, in words."""
    folder = Path(folder)
    pages = {
        path: Page(path.read_text(encoding="utf-8")) for path in sorted(folder.rglob("*.html"))
    }
    found = []
    for path, page in pages.items():
        where = path.relative_to(folder)
        found += [f"{where} fetches {what}" for what in page.fetched if AWAY.match(what)]
        for link in page.links:
            if not leads_somewhere(path, link, pages):
                found.append(f"{where}: {link} leads nowhere")
    for path in sorted(folder.rglob("*.css")):
        away = IN_STYLE.findall(path.read_text(encoding="utf-8"))
        found += [f"{path.relative_to(folder)} fetches {what}" for what in away]
    return found


def leads_somewhere(path, link, pages):
    """Whether a link of a page to this documentation has a target. Other links are not followed."""
    parts = urlsplit(link)
    if parts.scheme or parts.netloc:
        return True
    target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
    if target not in pages:
        return target.is_file()
    return not parts.fragment or unquote(parts.fragment) in pages[target].names


def check(app, exception):
    """Warn of every fault when the pages are built."""
    if exception is None and app.builder.name == "html":
        from sphinx.util import logging

        for fault in faults(Path(app.outdir).resolve()):
            logging.getLogger(__name__).warning("%s", fault)


def setup(app):
    """Check pages when all are written."""
    app.connect("build-finished", check)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
