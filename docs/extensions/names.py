"""Names in single backticks: their meaning in a docstring, and the page that describes them."""

import importlib
import inspect

# The packages whose names are public, in the order in which a name without a package is looked up.
PACKAGES = tuple(
    f"missdp.{package}" if package else "missdp"
    for package in (
        "",
        "schema",
        "table",
        "codebooks",
        "synth",
        "baselines",
        "statistics",
        "pricing",
        "accounting",
        "ground_truth",
        "evaluate",
        "sources",
        "engines",
        "session",
        "testing",
        "datasets",
        "errors",
    )
)


def key_of(name):
    """The key of a dotted name, which is equal for every name of one object, or None."""
    parts = name.split(".")
    for cut in range(len(parts), 0, -1):
        try:
            scope = importlib.import_module(".".join(parts[:cut]))
        except ImportError:
            continue
        return key_in(scope, parts[cut:])
    return None


def key_in(scope, parts):
    """The key of the object that these names reach from a module or class, or None."""
    if not parts:
        return scope.__name__ if inspect.ismodule(scope) else described(scope)
    first, *rest = parts
    if inspect.isclass(scope):
        for kind in scope.__mro__:
            declared = vars(kind).get("__annotations__")  # of `type` itself, a descriptor
            if first in vars(kind) or (isinstance(declared, dict) and first in declared):
                return None if rest else f"{kind.__module__}.{kind.__qualname__}.{first}"
        return None
    if not hasattr(scope, first):
        return None
    found = getattr(scope, first)
    if inspect.isclass(found) or inspect.ismodule(found):
        return key_in(found, rest)
    return None if rest else described(found) or f"{first} = {id(found)}"


def described(thing):
    """The name under which a class or function was written."""
    if getattr(thing, "__module__", None) and getattr(thing, "__qualname__", None):
        return f"{thing.__module__}.{thing.__qualname__}"
    return None


def meanings(name, module, kind=None):
    """Keys of the possible meanings of a name in a docstring, the nearest one first."""
    parts = name.removesuffix("()").split(".")
    scopes = [kind] if kind else []
    scopes += [importlib.import_module(found) for found in (module, *PACKAGES) if found]
    keys = [key_in(scope, parts) for scope in scopes] + [key_of(".".join(parts))]
    return [key for key in dict.fromkeys(keys) if key]


def find(app, env, node, contnode):
    """A link to the description of a name in single backticks."""
    if node.get("refdomain") != "py" or not node.get("reftarget"):
        return None
    known = env.domains["py"].objects
    if getattr(env, "keys_of_names", (0,))[0] != len(known):
        env.keys_of_names = (len(known), {key_of(name): name for name in reversed(known)})
    keys = env.keys_of_names[1]
    module, kind = node.get("py:module"), context(node)
    if kind:
        module = kind.__module__
        for base in kind.__mro__:  # attributes that are described, and set by no class
            owner = keys.get(f"{base.__module__}.{base.__qualname__}")
            if owner and f"{owner}.{node['reftarget']}" in known:
                return link(app, env, node, contnode, f"{owner}.{node['reftarget']}")
    for key in meanings(node["reftarget"], module, kind):
        if key in keys:
            return link(app, env, node, contnode, keys[key])
        if key.rpartition(".")[0] in keys:  # an attribute that its class describes among others
            return link(app, env, node, contnode, keys[key.rpartition(".")[0]])
    return None


def context(node):
    """The class in whose description a name stands, if it stands in one."""
    module, name = node.get("py:module"), node.get("py:class")
    if not (module and name):
        return None
    scope = importlib.import_module(module)
    for part in name.split("."):
        scope = getattr(scope, part, None)
    return scope if inspect.isclass(scope) else None


def link(app, env, node, contnode, name):
    """A link to the description of a name."""
    from sphinx.util.nodes import make_refnode

    entry = env.domains["py"].objects[name]
    return make_refnode(app.builder, node["refdoc"], entry.docname, entry.node_id, contnode, name)


def setup(app):
    """Ask here when Sphinx does not know a name."""
    app.connect("missing-reference", find)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
