"""Checks that anyone can run on a synthesizer, a source or a mechanism of their own.

`check_synthesizer` and `check_source` run everything and raise one error that lists what failed;
the single checks can be called one by one. All tables are made up: never run them on private rows.
"""

from missdp.testing.claims import (
    Audit,
    Claim,
    audit,
    audit_samples,
    audit_synthesizer,
    judge,
    mu_of,
)
from missdp.testing.counting import check_source
from missdp.testing.findings import Finding, Report
from missdp.testing.habits import HABITS, check_habits, check_synthesizer
from missdp.testing.holes import HolePair, differing_facts, hole_pairs
from missdp.testing.interference import PAIRS, check_non_interference
from missdp.testing.made_up import RULED, SCHEMA, TINY, canary, made_up, neighbours
from missdp.testing.sensitivity import check_sensitivity
from missdp.testing.witnesses import Answer, Recorder, Repeater

__all__ = [
    "HABITS",
    "PAIRS",
    "RULED",
    "SCHEMA",
    "TINY",
    "Answer",
    "Audit",
    "Claim",
    "Finding",
    "HolePair",
    "Recorder",
    "Repeater",
    "Report",
    "audit",
    "audit_samples",
    "audit_synthesizer",
    "canary",
    "check_habits",
    "check_non_interference",
    "check_sensitivity",
    "check_source",
    "check_synthesizer",
    "differing_facts",
    "hole_pairs",
    "judge",
    "made_up",
    "mu_of",
    "neighbours",
]
