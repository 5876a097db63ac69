"""Governance of releases: a ledger of budgets, plans, dossiers and reports.

Budgets are stored in SQLite or PostgreSQL. They are charged before private rows are read, and are
never refunded. Every line of the ledger has the hash of the line before it. Plans are made from
public facts, before a table is read. `missdp.governance.dossier` writes the dossier of a release.
The report for the curator compares private rows.
"""

from missdp.exports import exported_names
from missdp.governance.curator import curator_report as curator_report
from missdp.governance.ledger import Ledger as Ledger
from missdp.governance.ledger import Purpose as Purpose
from missdp.governance.ledger import Started as Started
from missdp.governance.ledger_budget import LedgerBudget as LedgerBudget
from missdp.governance.plan import Plan as Plan
from missdp.governance.plan import Planned as Planned
from missdp.governance.plan import plan as plan

__all__ = exported_names(globals())
