"""Formulas as MathML, made when the pages are built: no script and no network to read them."""

import re

from docutils import nodes
from latex2mathml.converter import convert
from sphinx.util import logging

LOGGER = logging.getLogger(__name__)
# Browsers know no mathvariant but "normal": letters of other alphabets are characters of their own.
SCRIPT = re.compile(r'<mi mathvariant="script">([A-Z])</mi>')
OLDER = dict(zip("BEFHILMR", "ℬℰℱℋℐℒℳℛ", strict=True))
# Relations and operators that were typed as characters are taken for letters, and named functions
# have no space after them.
OPERATOR = re.compile("<mi>([≤≥∈∉⊆⊂∪∩∖−×·⋯…‖≈≠→])</mi>")
FUNCTION = re.compile(r"<mi>(log|exp|min|max)</mi>(?=<m(?!o))")


def script(match):
    """The letter in script."""
    letter = match[1]
    return f"<mi>{OLDER.get(letter) or chr(0x1D49C + ord(letter) - ord('A'))}</mi>"


def mathml(tex, display):
    """A formula in TeX as MathML. An unknown command stays behind as a backslash."""
    formula = SCRIPT.sub(script, convert(tex, display=display))
    formula = OPERATOR.sub(r"<mo>\1</mo>", formula)
    formula = FUNCTION.sub(r'<mi>\1</mi><mspace width="0.167em" />', formula)
    return formula.replace("<math ", f'<math aria-label="{attribute(tex)}" ', 1)


def attribute(text):
    """Text as the value of an attribute."""
    return " ".join(text.split()).replace("&", "&amp;").replace("<", "&lt;").replace('"', "&quot;")


def visit(translator, node, display):
    """Write a formula, and warn if a part of it was not understood."""
    tex = node.astext()
    formula = mathml(tex, display)
    if "\\" in re.sub(r'aria-label="[^"]*"', "", formula) or "mathvariant" in formula:
        LOGGER.warning("not understood in a formula: %s", tex, location=node)
    if display == "block":
        formula = f'<div class="formula">{formula}</div>'
    translator.body.append(formula)
    raise nodes.SkipNode


def setup(app):
    """Register the renderer that ``html_math_renderer`` names."""
    app.add_html_math_renderer(
        "mathml",
        inline_renderers=(lambda translator, node: visit(translator, node, "inline"), None),
        block_renderers=(lambda translator, node: visit(translator, node, "block"), None),
    )
    return {"parallel_read_safe": True, "parallel_write_safe": True}
