"""The directive ``public-names``: names of a package, first in one line each, then in full."""

import importlib
import inspect
import sys
from functools import cache
from typing import Literal, get_args, get_origin

from docutils import nodes
from docutils.statemachine import StringList
from names import PACKAGES
from sphinx import addnodes
from sphinx.pycode import ModuleAnalyzer
from sphinx.util.docutils import SphinxDirective

import missdp

# Methods that scikit-learn adds.
LEFT_OUT = ("get_metadata_routing", "set_fit_request", "set_output", "set_transform_request")


def home(package, name):
    """The shortest public name of something that a package exports."""
    short = name in missdp.__all__ and name in getattr(
        importlib.import_module(package), "__all__", ()
    )
    return f"missdp.{name}" if short else f"{package}.{name}"


@cache
def described():
    """The classes that the packages export."""
    packages = [importlib.import_module(package) for package in PACKAGES]
    found = [getattr(package, name) for package in packages for name in package.__all__]
    return {kind for kind in found if inspect.isclass(kind) and not outside(kind)}


def lines_for(package, name):
    """The directive that describes one name."""
    found = getattr(importlib.import_module(package), name)
    full = home(package, name)
    if inspect.isclass(found) and getattr(found, "__module__", "").startswith("missdp"):
        kind = "exception" if issubclass(found, BaseException) else "class"
        # Members of bases with a page of their own are described on that page.
        known = [base for base in found.__mro__[1:] if base in described()]
        others = [base for base in found.__mro__[1:] if outside(base)]
        stop = ",".join(sorted(base.__name__ for base in known + others))
        return [
            f".. auto{kind}:: {full}",
            "   :members:",
            f"   :inherited-members: {stop}",
            f"   :exclude-members: {', '.join([*LEFT_OUT, *inherited(found, known)])}",
            "",
            *(
                f"   Also: all of :py:obj:`{base.__name__} <{place(base)}>`.\n"
                for base in known[:1]
            ),
        ]
    if inspect.isroutine(found):
        return [f".. autofunction:: {full}", ""]
    told = told_of(name, found) + possible(found)
    return [f".. py:data:: {name}", f"   :module: {package}", "", f"   {told}", ""]


def told_of(name, found):
    """The text under a module's constant or alias, where it is defined."""
    for module in [module for key, module in sys.modules.items() if key.startswith("missdp.")]:
        if vars(module).get(name) is found or vars(module).get(name) == found:
            told = ModuleAnalyzer.for_module(module.__name__).find_attr_docs().get(("", name))
            if told:
                return " ".join(told).strip()
    return ""


def possible(found):
    """The types that an alias allows, in words."""
    if get_origin(found) is Literal:
        return " One of " + ", ".join(f"``{value!r}``" for value in get_args(found)) + "."
    return ""


def inherited(kind, known):
    """Attributes of described bases, which autodoc would describe again in every subclass."""
    own = vars(kind).keys() | vars(kind).get("__annotations__", {}).keys()
    theirs = {name for base in known for part in base.__mro__ for name in vars(part)}
    return sorted(name for name in theirs - own if not name.startswith("_"))


def place(kind):
    """Where an exported class is described."""
    package = next(r for r in PACKAGES if kind.__name__ in importlib.import_module(r).__all__)
    return f"{package}.{kind.__name__}"


def outside(kind):
    """Whether a class comes from another package."""
    return not kind.__module__.startswith("missdp")


class PublicNames(SphinxDirective):
    """Describe names of a package: those of the content, or all that the package exports."""

    required_arguments = 1
    has_content = True

    def run(self):
        package = self.arguments[0]
        module = importlib.import_module(package)
        names = " ".join(self.content).split() or module.__all__
        lines = [summary(package, name) for name in names] if len(names) > 1 else []
        lines.append("")
        for name in names:
            lines += lines_for(package, name)
        box = nodes.container()
        self.state.nested_parse(StringList(lines, source=package), self.content_offset, box)
        for signature in box.findall(
            lambda n: isinstance(n, addnodes.desc_signature) and n.get("module")
        ):
            also_known(signature)
        return box.children


def also_known(signature):
    """Let links to other public names of it lead here, too. Pages of source code use them."""
    first = getattr(
        importlib.import_module(signature["module"]), signature["fullname"].split(".")[0]
    )
    packages = [signature["module"], getattr(first, "__module__", "missdp")]
    for package in {"missdp", *(".".join(name.split(".")[:2]) for name in packages)}:
        if (name := f"{package}.{signature['fullname']}") not in signature["ids"]:
            signature["ids"].append(name)


def summary(package, name):
    """One line about a name, with a link to its description."""
    found = getattr(importlib.import_module(package), name)
    ours = inspect.isroutine(found) or (inspect.isclass(found) and not outside(found))
    told = inspect.getdoc(found) if ours else told_of(name, found)
    first = (told or "").split("\n\n")[0].replace("\n", " ").replace("|", "\\|")
    return f"* :py:obj:`{name} <{home(package, name)}>`" + (f": {first}" if first else "")


def source_of(app, module, name):
    """Where the source of an alias of other packages' types is: in the package that exports it."""
    if not module or not name:  # asked of signatures that are no Python names
        return None
    found = getattr(importlib.import_module(module), name.split(".")[0], None)
    ours = str(getattr(found, "__module__", "")).startswith("missdp")
    return None if ours or found is None else module


def setup(app):
    """Register the directive."""
    app.setup_extension("sphinx.ext.viewcode")
    app.add_directive("public-names", PublicNames)
    app.connect("viewcode-follow-imported", source_of)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
