"""Checks that anyone can run on a synthesizer or a mechanism of their own.

`check_synthesizer` runs all checks and raises one error that lists the failures. Each check can be
called by itself too. All tables are examples: never run the checks on private rows.
"""

from missdp.exports import exported_names
from missdp.testing import pricing_mechanisms as _pricing_mechanisms  # noqa: F401 - registers
from missdp.testing.claims import Audit as Audit
from missdp.testing.claims import Claim as Claim
from missdp.testing.claims import audit as audit
from missdp.testing.claims import audit_synthesizer as audit_synthesizer
from missdp.testing.claims import judge as judge
from missdp.testing.claims import mu_of as mu_of
from missdp.testing.example_tables import RULED as RULED
from missdp.testing.example_tables import SCHEMA as SCHEMA
from missdp.testing.example_tables import TINY as TINY
from missdp.testing.example_tables import canary as canary
from missdp.testing.example_tables import example_table as example_table
from missdp.testing.example_tables import neighbours as neighbours
from missdp.testing.findings import Finding as Finding
from missdp.testing.findings import Report as Report
from missdp.testing.interference import PAIRS as PAIRS
from missdp.testing.interference import check_non_interference as check_non_interference
from missdp.testing.recording import Answer as Answer
from missdp.testing.recording import RecordingNoise as RecordingNoise
from missdp.testing.recording import ReplayedNoise as ReplayedNoise
from missdp.testing.sensitivity import check_sensitivity as check_sensitivity
from missdp.testing.synthesizers import check_synthesizer as check_synthesizer
from missdp.testing.undercharges import UnknownMechanismError as UnknownMechanismError
from missdp.testing.undercharges import log_ratio as log_ratio
from missdp.testing.undercharges import undercharges as undercharges

__all__ = exported_names(globals())
