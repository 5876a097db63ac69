"""Sphinx configuration."""

project = "missdp"
author = "The missdp developers"
copyright = "2026, the missdp developers"
extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "sphinx.ext.viewcode",
]
myst_enable_extensions = ["dollarmath", "colon_fence", "deflist"]
myst_heading_anchors = 3
html_theme = "furo"
html_title = "missdp"
exclude_patterns = ["_build"]
autodoc_typehints = "none"
autodoc_member_order = "bysource"
napoleon_numpy_docstring = True
napoleon_google_docstring = False


def escape_bars(app, what, name, obj, options, lines):
    """Absolute values in formulas are no reStructuredText substitutions."""
    for i, line in enumerate(lines):
        if not line.lstrip().startswith((">>>", "...")):
            parts = line.split("``")
            parts[::2] = [part.replace("|", r"\|") for part in parts[::2]]
            lines[i] = "``".join(parts)


def setup(app):
    """Register the hook."""
    app.connect("autodoc-process-docstring", escape_bars)
