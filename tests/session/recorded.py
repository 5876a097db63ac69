"""Helpers that tests of sessions share: a session with a recording of its answers."""

from missdp.accounting import Cost, Filter
from missdp.session import CountedRows, Session
from missdp.sources import MemorySource, strategy_named
from missdp.testing import RecordingNoise


def strange(kind):
    """Return a subclass of one of our types. It could state another event, or keep counts."""
    return type("Strange", (kind,), {})


def session_on(source, missing="joint", *, cost=None, noise=None):
    """Return a recording, and a session on a source or on rows that it may record."""
    noise = noise or RecordingNoise(0)
    budget = Filter.from_cost(cost or Cost(privacy_measure="gdp", amount=1.0), delta=1e-6)
    source = source if hasattr(source, "counts") else MemorySource(source)
    return noise, Session(
        CountedRows.from_source(source, strategy_named(missing)), budget=budget, noise=noise
    )
