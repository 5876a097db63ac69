"""The entry of a release in the registry of deployments of differential privacy, as far as known.

Its fields are those of github.com/opendp/deployments-registry-data, tier 3. What only a person can
say reads TODO; the day of publication, which must be a date there, is the year 1900 until then.
"""

from __future__ import annotations

from typing import Any

from missdp.accounting import DeclaredRowCount, Guarantee
from missdp.office.dossier.words import in_yaml, plain
from missdp.synth.base import Synthesizer

_TODO = "TODO"
_NO_DAY = "1900-01-01"
_CURRENCIES = {
    "pure": "pure epsilon",
    "zcdp": "zero-concentrated DP",
    "gdp": "Gaussian DP",
    "renyi": "Renyi DP of one order",
}
_MECHANISMS = {
    "AllPairs": "Discrete Gaussian noise on one-way counts and on one sum of clipped vectors, "
    "which holds the products of all pairs of attributes.",
    "AIM": "Marginals chosen by the exponential mechanism or permute-and-flip, counted with "
    "discrete Gaussian or discrete Laplace noise.",
    "MST": "A tree of pairs chosen by the exponential mechanism or permute-and-flip, counted with "
    "discrete Gaussian or discrete Laplace noise.",
}
_SAFE = (
    "Noise is drawn exactly, in whole numbers, from the operating system's cryptographic "
    "generator; scores of selections are on a grid. The release is not interactive; the time that "
    "a fit takes is not protected and must not be published. Access to the private table: TODO."
)


def registry_entry(model: Synthesizer, about: Any, *, release: str, version: str) -> bytes:
    """Return the entry as YAML.

    Parameters
    ----------
    model : Synthesizer
        A fitted one.
    about : About
        What people said of the release.
    release, version : str
        The id of the release, and the version of missdp.
    """
    guarantee, schema = model.guarantee_, model.schema_
    deployment = {
        "basic": _basic(about, len(schema)),
        "dp_variant": _variant(guarantee, model),
        "privacy_loss": _loss(guarantee),
        "deployment_model": {
            "model_name": "Central",
            "actors": "TODO: who runs the fit and sees the rows, and why they are trusted.",
            "release_type": "One release",
            "release_type_details": "TODO: other releases from the same table, past and planned.",
            "data_source_type": "Static",
            "access_type": "Non-interactive",
        },
        "accounting": _accounting(guarantee),
        "implementation": {
            "preprocessing_and_hyperparameter_tuning": "Cells are read one by one by public facts "
            f"of a schema; missing values: strategy {model._fitted_with['missing']!r}, inside the "
            "budget. TODO: was anything tried on the private table?",
            "mechanisms": f"{_mechanism(type(model).__name__)} missdp {version}. {_SAFE}",
            "justification": "TODO: why this epsilon, and who decided.",
        },
        "administrative": {
            "notes": f"{release}. Drafted by missdp from the released model and its schema.",
            "registry_authors": [plain(about.curator, None) or _TODO],
        },
    }
    slug = "".join(c if c.isascii() and c.isalnum() else "-" for c in about.title.lower())
    entry = {
        "url_slug": "-".join(filter(None, slug.split("-")))[:80] or "todo",
        "status": "Draft",
        "tier": 3,
        "deployment": deployment,
    }
    head = (
        "# A draft for the registry of deployments: whatever reads TODO is for a person to say.\n"
    )
    return f"{head}{in_yaml(entry)}\n".encode()


def _mechanism(family: str) -> str:
    return _MECHANISMS.get(family, f"Those of the synthesizer {family} of missdp, which see.")


def _basic(about: Any, columns: int) -> dict[str, Any]:
    return {
        "name": about.title,
        "data_curators": [about.curator or _TODO],
        "intended_use": about.audience or _TODO,
        "data_product_type": "Synthetic data",
        "data_product_region": about.region or _TODO,
        "description": f"A synthetic table of {columns} attributes, and the model that it is drawn "
        "from, made from a private table with missing values.",
        "publication_date": about.published or _NO_DAY,
    }


def _variant(guarantee: Guarantee, model: Synthesizer) -> dict[str, Any]:
    declared = [c.n for c in guarantee.conditions if isinstance(c, DeclaredRowCount)]
    rows = f", and the number of rows, {declared[0]}, which was declared" if declared else ""
    return {
        "variant_name": "Approximate DP" if guarantee.delta else "Pure DP",
        "data_domain": f"Tables of any number of rows over a public schema of "
        f"{len(model.schema_)} attributes; cells may be missing where it says so.",
        "unprotected_quantities": f"The schema: names, levels, bounds and rules{rows}.",
    }


def _loss(guarantee: Guarantee) -> dict[str, Any]:
    numbers = {"epsilon": float(guarantee.epsilon), "delta": float(guarantee.delta)}
    return {
        "privacy_unit": "Row",
        "privacy_unit_details": " ".join([guarantee.sentences[1], guarantee.sentences[3]])
        + " TODO: is one person one row?",
        "privacy_parameters": numbers if guarantee.delta else {"epsilon": numbers["epsilon"]},
        "privacy_parameters_details": " ".join(c.statement() for c in guarantee.conditions)
        or "The guarantee rests on no condition.",
    }


def _accounting(guarantee: Guarantee) -> dict[str, Any]:
    cost = getattr(guarantee.events[0], "cost", None) if guarantee.events else None
    currency = _CURRENCIES.get(getattr(cost, "currency", ""), "epsilon and delta")
    return {
        "post_processing": "The model is fitted to noisy measurements, which are projected and "
        "smoothed; rows are drawn from it, and follow the rules of the schema.",
        "composition": "All parts of the fit are charged to one privacy filter before anything is "
        f"computed from rows; it counts in {currency}, and is converted once.",
    }
