"""Accounting: what releases cost, computed from facts about mechanisms, never from data.

Events state what was done, accountants bound what it costs, a `Guarantee` says what that promises
and under which conditions, and a `Budget` refuses what it cannot afford before it is computed.
Budgets in a database that outlive a process (the ledger) are in `missdp.office`; what missing
values amplify is in `missdp.ground_truth`.
"""

from missdp.accounting.accountants import DEFAULT_ACCOUNTANTS as DEFAULT_ACCOUNTANTS
from missdp.accounting.accountants import FAST_ACCOUNTANTS as FAST_ACCOUNTANTS
from missdp.accounting.accountants import GDP as GDP
from missdp.accounting.accountants import PLD as PLD
from missdp.accounting.accountants import PURE as PURE
from missdp.accounting.accountants import RENYI as RENYI
from missdp.accounting.accountants import ZCDP as ZCDP
from missdp.accounting.accountants import Accountant as Accountant
from missdp.accounting.accountants import calibrate as calibrate
from missdp.accounting.accountants import delta_of as delta_of
from missdp.accounting.accountants import epsilon_of as epsilon_of
from missdp.accounting.accountants import epsilon_under as epsilon_under
from missdp.accounting.accountants import gaussian_delta as gaussian_delta
from missdp.accounting.accountants import gaussian_sigma as gaussian_sigma
from missdp.accounting.accountants import laplace_scale as laplace_scale
from missdp.accounting.accountants import to_dp_event as to_dp_event
from missdp.accounting.budget import Budget as Budget
from missdp.accounting.budget import Schedule as Schedule
from missdp.accounting.conditions import Assumption as Assumption
from missdp.accounting.conditions import BoundedObservation as BoundedObservation
from missdp.accounting.conditions import Condition as Condition
from missdp.accounting.conditions import CutsFromRelease as CutsFromRelease
from missdp.accounting.conditions import DataDependentDomain as DataDependentDomain
from missdp.accounting.conditions import DatasetCollection as DatasetCollection
from missdp.accounting.conditions import DeclaredRowCount as DeclaredRowCount
from missdp.accounting.conditions import EigenGap as EigenGap
from missdp.accounting.conditions import ExplicitSeed as ExplicitSeed
from missdp.accounting.conditions import FixedSchedule as FixedSchedule
from missdp.accounting.conditions import LevelsFromRelease as LevelsFromRelease
from missdp.accounting.conditions import MissingCompletelyAtRandom as MissingCompletelyAtRandom
from missdp.accounting.conditions import ObservedAtMost as ObservedAtMost
from missdp.accounting.conditions import PublicDomain as PublicDomain
from missdp.accounting.conditions import RowIndependentMissingness as RowIndependentMissingness
from missdp.accounting.conditions import RowsWithoutUnit as RowsWithoutUnit
from missdp.accounting.conditions import TakenFromFile as TakenFromFile
from missdp.accounting.conditions import WeightsOfRows as WeightsOfRows
from missdp.accounting.events import Adjacency as Adjacency
from missdp.accounting.events import ApproximateEvent as ApproximateEvent
from missdp.accounting.events import ComposedEvent as ComposedEvent
from missdp.accounting.events import Event as Event
from missdp.accounting.events import GaussianEvent as GaussianEvent
from missdp.accounting.events import LaplaceEvent as LaplaceEvent
from missdp.accounting.events import Protects as Protects
from missdp.accounting.events import PureEvent as PureEvent
from missdp.accounting.events import RDPEvent as RDPEvent
from missdp.accounting.events import SampledGaussianEvent as SampledGaussianEvent
from missdp.accounting.events import SelectionEvent as SelectionEvent
from missdp.accounting.events import ZCDPEvent as ZCDPEvent
from missdp.accounting.events import flatten as flatten
from missdp.accounting.exact import difference as difference
from missdp.accounting.exact import replace_one_of as replace_one_of
from missdp.accounting.exact import scale_for as scale_for
from missdp.accounting.exact import share_of as share_of
from missdp.accounting.exact import zcdp_rho as zcdp_rho
from missdp.accounting.filters import Cost as Cost
from missdp.accounting.filters import Currency as Currency
from missdp.accounting.filters import FilterEvent as FilterEvent
from missdp.accounting.filters import UnitEvent as UnitEvent
from missdp.accounting.filters import releases as releases
from missdp.accounting.guarantee import Guarantee as Guarantee
from missdp.accounting.risk import Risk as Risk
from missdp.aliases import exported, moved_from

__all__ = exported(globals())

__getattr__ = moved_from(__name__)
