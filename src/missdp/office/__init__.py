"""What an office needs around releases: a ledger of budgets that outlives processes, and papers.

Budgets stand in SQLite or PostgreSQL, are charged before private rows are read, and are never
refunded; every line of the ledger holds the hash of the one before it.

`missdp.office.dossier` writes the papers of a release.
"""

from missdp.aliases import exported
from missdp.office.budget import LedgerBudget as LedgerBudget
from missdp.office.ledger import Ledger as Ledger
from missdp.office.ledger import Purpose as Purpose
from missdp.office.ledger import Started as Started

__all__ = exported(globals())
