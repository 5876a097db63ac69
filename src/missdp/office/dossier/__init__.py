"""The papers of a release: a report, a registry entry, answers, measurements, how to use it."""

from missdp.aliases import exported
from missdp.office.dossier.folder import FILES as FILES
from missdp.office.dossier.folder import About as About
from missdp.office.dossier.folder import write_dossier as write_dossier
from missdp.office.dossier.read_back import from_measurements as from_measurements

__all__ = exported(globals())
