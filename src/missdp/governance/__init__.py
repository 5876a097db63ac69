"""Governance of releases: a ledger of budgets, plans, dossiers and reports.

Budgets stand in SQLite or PostgreSQL, are charged before private rows are read, and are never
refunded; every line of the ledger holds the hash of the one before it. Plans are made from public
facts, before a table is looked at; `missdp.governance.dossier` writes the dossier of a release. The
report for the curator looks at private rows.
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
