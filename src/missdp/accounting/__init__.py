"""Accounting: what releases cost, computed from facts about mechanisms, never from data.

Events state what was done, accountants bound what it costs, a `Guarantee` says what that promises
and under which conditions, and a `Budget` refuses what it cannot afford before it is computed.
"""

from missdp.accounting.accountants import (
    DEFAULT_ACCOUNTANTS,
    FAST_ACCOUNTANTS,
    Accountant,
    PureAccountant,
    RDPAccountant,
    ZCDPAccountant,
    delta_of,
    epsilon_of,
    epsilon_under,
)
from missdp.accounting.budget import Budget, Schedule
from missdp.accounting.calibrate import (
    calibrate,
    gaussian_delta,
    gaussian_sigma,
    laplace_scale,
)
from missdp.accounting.conditions import (
    Assumption,
    BoundedObservation,
    Condition,
    CutsFromRelease,
    DataDependentDomain,
    DatasetCollection,
    DeclaredRowCount,
    EigenGap,
    ExplicitSeed,
    FixedSchedule,
    MissingCompletelyAtRandom,
    ObservedAtMost,
    PublicDomain,
    RowIndependentMissingness,
)
from missdp.accounting.events import (
    Adjacency,
    ApproximateEvent,
    ComposedEvent,
    Event,
    GaussianEvent,
    LaplaceEvent,
    Protects,
    PureEvent,
    RDPEvent,
    SampledGaussianEvent,
    SelectionEvent,
    ZCDPEvent,
    flatten,
)
from missdp.accounting.exact import difference, replace_one_of, scale_for, share_of, zcdp_rho
from missdp.accounting.filters import Cost, Currency, FilterEvent, releases
from missdp.accounting.gdp import GDPAccountant
from missdp.accounting.guarantee import Guarantee
from missdp.accounting.pld import PLDAccountant, to_dp_event

__all__ = [
    "DEFAULT_ACCOUNTANTS",
    "FAST_ACCOUNTANTS",
    "Accountant",
    "Adjacency",
    "ApproximateEvent",
    "Assumption",
    "BoundedObservation",
    "Budget",
    "ComposedEvent",
    "Condition",
    "Cost",
    "Currency",
    "CutsFromRelease",
    "DataDependentDomain",
    "DatasetCollection",
    "DeclaredRowCount",
    "EigenGap",
    "Event",
    "ExplicitSeed",
    "FilterEvent",
    "FixedSchedule",
    "GDPAccountant",
    "GaussianEvent",
    "Guarantee",
    "LaplaceEvent",
    "MissingCompletelyAtRandom",
    "ObservedAtMost",
    "PLDAccountant",
    "Protects",
    "PublicDomain",
    "PureAccountant",
    "PureEvent",
    "RDPAccountant",
    "RDPEvent",
    "RowIndependentMissingness",
    "SampledGaussianEvent",
    "Schedule",
    "SelectionEvent",
    "ZCDPAccountant",
    "ZCDPEvent",
    "calibrate",
    "delta_of",
    "difference",
    "epsilon_of",
    "epsilon_under",
    "flatten",
    "gaussian_delta",
    "gaussian_sigma",
    "laplace_scale",
    "releases",
    "replace_one_of",
    "scale_for",
    "share_of",
    "to_dp_event",
    "zcdp_rho",
]
