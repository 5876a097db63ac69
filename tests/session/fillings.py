"""Row functions that fill the rows of a session."""

from missdp.sources.filling import MarginallyFilledRow


def filling(session, laws):
    """Return the row function that fills missing cells by released laws."""
    return MarginallyFilledRow(session.facts.modelled.full_schema, laws)
