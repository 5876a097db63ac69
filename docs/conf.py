"""Sphinx configuration."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent / "extensions"))

project = "missdp"
author = "The missdp developers"
copyright = "2026, the missdp developers"
extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "sphinx.ext.viewcode",
    # Ours:
    "built_pages",
    "command_options",
    "mathml",
    "names",
    "public_names",
]
myst_enable_extensions = ["dollarmath", "colon_fence", "deflist"]
myst_heading_anchors = 4
html_math_renderer = "mathml"
html_theme = "furo"
html_title = "missdp"
html_static_path = ["static"]
html_css_files = ["missdp.css"]
exclude_patterns = ["_build"]
autodoc_typehints = "none"
autodoc_member_order = "bysource"
maximum_signature_line_length = 80
napoleon_numpy_docstring = True
napoleon_google_docstring = False
napoleon_use_param = False  # types in lists of parameters are words for people, and no links
napoleon_use_rtype = False
# A name in single backticks is a link, and a build fails if it leads nowhere.
default_role = "py:obj"
nitpicky = True
nitpick_ignore_regex = [("py:class", ".*"), ("py:exc", ".*")]


def escape_bars(app, what, name, obj, options, lines):
    """Absolute values in formulas are no reStructuredText substitutions."""
    for i, line in enumerate(lines):
        if not line.lstrip().startswith((">>>", "...")):
            parts = line.split("``")
            parts[::2] = [part.replace("|", r"\|") for part in parts[::2]]
            lines[i] = "``".join(parts)


def whole_sentences(app, what, name, obj, options, lines):
    """Napoleon takes what precedes a colon for a type; here it is the beginning of a sentence."""
    if what in {"attribute", "data", "property"} and lines:
        lines[0] = f": {lines[0]}"


def setup(app):
    """Register the hooks."""
    app.connect("autodoc-process-docstring", whole_sentences, priority=400)  # before napoleon
    app.connect("autodoc-process-docstring", escape_bars)
