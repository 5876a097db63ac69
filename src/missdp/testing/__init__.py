"""Checks that anyone can run on a synthesizer or a mechanism of their own.

`check_synthesizer` runs everything and raises one error that lists what failed; the single checks
can be called one by one. All tables are made up: never run them on private rows.
"""

from missdp.exports import exported_names
from missdp.testing import pricing_mechanisms as _pricing_mechanisms  # noqa: F401 - registers
from missdp.testing.claims import Audit as Audit
from missdp.testing.claims import Claim as Claim
from missdp.testing.claims import audit as audit
from missdp.testing.claims import audit_synthesizer as audit_synthesizer
from missdp.testing.claims import judge as judge
from missdp.testing.claims import mu_of as mu_of
from missdp.testing.findings import Finding as Finding
from missdp.testing.findings import Report as Report
from missdp.testing.interference import PAIRS as PAIRS
from missdp.testing.interference import check_non_interference as check_non_interference
from missdp.testing.made_up import RULED as RULED
from missdp.testing.made_up import SCHEMA as SCHEMA
from missdp.testing.made_up import TINY as TINY
from missdp.testing.made_up import canary as canary
from missdp.testing.made_up import made_up as made_up
from missdp.testing.made_up import neighbours as neighbours
from missdp.testing.recording import Answer as Answer
from missdp.testing.recording import RecordingNoise as RecordingNoise
from missdp.testing.recording import ReplayedNoise as ReplayedNoise
from missdp.testing.sensitivity import check_sensitivity as check_sensitivity
from missdp.testing.synthesizers import check_synthesizer as check_synthesizer
from missdp.testing.undercharges import UnknownMechanismError as UnknownMechanismError
from missdp.testing.undercharges import log_ratio as log_ratio
from missdp.testing.undercharges import undercharges as undercharges

__all__ = exported_names(globals())
