"""Pages for people: the report and what stands beside it, made by Jinja from templates.

Names and other text that missdp did not write are escaped, for HTML or for Markdown.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from missdp.accounting import DeclaredRowCount, ExplicitSeed, PublicDomain
from missdp.accounting.exact import printed
from missdp.accounting.filters import ROW
from missdp.errors import MissingDependencyError, UnprovenError, replacing
from missdp.estimate.sensitivity import SensitivityAnalysis
from missdp.office.dossier.facts import Facts
from missdp.office.dossier.measurements import KINDS
from missdp.office.dossier.report import departures, numbers
from missdp.office.dossier.words import in_markdown, in_yaml, plain

_TEMPLATES = Path(__file__).parent / "templates"
_LONG = 600  # characters of what people say of a release


class Pages:
    """The pages of one release.

    Parameters
    ----------
    facts : Facts
    about : About
    release : str
        The release, in words.
    ledger : mapping or None
    version : str
    analyses : sequence of SensitivityAnalysis, optional
    """

    def __init__(
        self,
        facts: Facts,
        *,
        about: Any,
        release: str,
        ledger: Mapping[str, Any] | None,
        version: str,
        analyses: Sequence[SensitivityAnalysis] = (),
    ) -> None:
        absent = MissingDependencyError("a dossier needs an extra: pip install 'missdp[report]'")
        with replacing(ImportError, by=absent):
            import jinja2
        self._jinja, self.facts, self.about = jinja2, facts, about
        self.analyses = analyses
        self.said = {"about": about, "release": release, "ledger": ledger, "version": version}

    @cached_property
    def _common(self) -> dict[str, Any]:
        """What all pages show."""
        facts, guarantee = self.facts, self.facts.model.guarantee_
        kinds = {type(c) for c in guarantee.conditions}
        noise = [one.std for one in facts.relations if one.std is not None and len(one.names) == 2]
        alone = facts.model._alike  # whether intervals know how far rows are independent
        cell = f"{float(np.median(noise)) * facts.rows:.2g} rows" if noise else "a size not kept"
        return {
            **self.said,
            "guarantee": guarantee,
            "unit": plain(guarantee.unit),
            "epsilon": printed(guarantee.epsilon),
            "delta": printed(guarantee.delta),
            "delta_rows": f"{guarantee.delta * facts.rows:.1g}",
            "sentences": [plain(sentence, None) for sentence in guarantee.sentences],
            "conditions": [condition.statement() for condition in guarantee.conditions],
            "seeded": ExplicitSeed in kinds,
            "declared_rows": DeclaredRowCount in kinds,
            "public_domain": PublicDomain in kinds,
            "rows": facts.rows,
            "columns": len(facts.schema),
            "measured": facts.measured,
            "estimates": alone and facts.measured and not facts.model._applied_strategy.fills,
            "alone": alone,
            "size": facts.model._size,
            "cell_noise": cell,
            "family": type(facts.model).__name__,
            "strategy": facts.model._fitted_with["missing"],
            "risk": self._risk(),
            "kinds": KINDS,
        }

    def _risk(self) -> str:
        try:
            return plain(" ".join(str(self.facts.model.guarantee_.explain()).split()), None)
        except UnprovenError:  # delta is too large for exceptions that seldom
            return self.facts.model.guarantee_.sentences[2]

    def report(self) -> bytes:
        """Return the public report: one file, which loads nothing."""
        script = (_TEMPLATES / "report.js").read_text(encoding="utf-8")
        style = (_TEMPLATES / "report.css").read_text(encoding="utf-8")
        about = {key: plain(text, _LONG) for key, text in vars(self.about).items()}
        trusted = {
            name: self._markup(text) for name, text in (("script", script), ("style", style))
        }
        hashed = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
        environment = self._environment(autoescape=True, trim_blocks=True, lstrip_blocks=True)
        page: str = environment.get_template("report.html").render(
            self._common
            | numbers(self.facts)
            | trusted
            | {"about": about, "hash": hashed, "departures": [*map(departures, self.analyses)]}
        )
        return page.encode("utf-8")

    @property
    def _markup(self) -> type[str]:
        from markupsafe import Markup

        return Markup

    def registry(self) -> bytes:
        """Return a draft of an entry in the registry of deployments, as YAML.

        Its fields are those of github.com/opendp/deployments-registry-data.
        """
        guarantee = self.facts.model.guarantee_
        cost = getattr(guarantee.events[0], "cost", None) if guarantee.events else None
        words = "".join(c if c.isascii() and c.isalnum() else " " for c in self.about.title.lower())
        own = {
            "slug": "-".join(words.split())[:80] or "todo",
            "currency": getattr(cost, "currency", ""),
        }
        environment = self._environment(autoescape=False, trim_blocks=True)
        environment.filters["yaml"] = in_yaml
        page: str = environment.get_template("registry.yaml").render(self._common | own)
        return page.encode("utf-8")

    def answers(self) -> bytes:
        """Return the questions of NIST SP 800-226 with their answers."""
        return self._markdown("answers.md")

    def how_to_use(self) -> bytes:
        """Return what whoever uses the tables should know."""
        return self._markdown("how-to-use.md")

    def _markdown(self, name: str) -> bytes:
        """Return a page in Markdown; what others wrote is escaped before it gets there."""
        common = self._common
        theirs = {
            "about": {key: in_markdown(text, None) for key, text in vars(self.about).items()},
            "conditions": [in_markdown(text, None) for text in common["conditions"]],
            "release": in_markdown(common["release"], None),
        }
        if common["unit"] != ROW:  # whose name is somebody's, and stands in what is said of it
            said = {name: in_markdown(common[name], None) for name in ("unit", "risk")}
            sentences = [in_markdown(text, None) for text in common["sentences"]]
            theirs |= said | {"sentences": sentences}
        environment = self._environment(autoescape=False)
        text: str = environment.get_template(name).render(common | theirs)
        return text.encode("utf-8")

    def _environment(self, **how: Any) -> Any:
        loader = self._jinja.FileSystemLoader(_TEMPLATES)
        undefined = self._jinja.StrictUndefined
        return self._jinja.Environment(
            loader=loader, undefined=undefined, keep_trailing_newline=True, **how
        )
