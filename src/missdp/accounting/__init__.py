"""Accounting: the privacy cost of releases, computed from facts about mechanisms, never from data.

Events state facts about mechanisms. Measures and compositions bound the cost of events. A
`Guarantee` states the promise and its conditions. A `Filter` or a `Composition` is charged before
anything is computed. Budgets that outlive a process are kept in a database, the ledger
(`missdp.governance`). Amplification by missing values is in `missdp.ground_truth`.
"""

from missdp.accounting.budget import Filter as Filter
from missdp.accounting.composition import epsilon_of as epsilon_of
from missdp.accounting.composition import proven_epsilon as proven_epsilon
from missdp.accounting.events import Adjacency as Adjacency
from missdp.accounting.events import ApproximateEvent as ApproximateEvent
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
from missdp.accounting.exact import replace_one_of as replace_one_of
from missdp.accounting.exact import scale_for as scale_for
from missdp.accounting.exact import zcdp_rho as zcdp_rho
from missdp.accounting.filters import FilterEvent as FilterEvent
from missdp.accounting.filters import releases as releases
from missdp.accounting.guarantee import Guarantee as Guarantee
from missdp.accounting.measures import Cost as Cost
from missdp.accounting.measures import PrivacyMeasure as PrivacyMeasure
from missdp.accounting.plans import Composition as Composition
from missdp.accounting.unit_costs import UnitEvent as UnitEvent
from missdp.conditions import Assumption as Assumption
from missdp.conditions import BinsFromRelease as BinsFromRelease
from missdp.conditions import BoundedObservation as BoundedObservation
from missdp.conditions import Condition as Condition
from missdp.conditions import CountedOutsideTheKernel as CountedOutsideTheKernel
from missdp.conditions import DataDependentDomain as DataDependentDomain
from missdp.conditions import DatasetCollection as DatasetCollection
from missdp.conditions import DeclaredRowCount as DeclaredRowCount
from missdp.conditions import EigenGap as EigenGap
from missdp.conditions import ExplicitSeed as ExplicitSeed
from missdp.conditions import FixedSchedule as FixedSchedule
from missdp.conditions import FloatingPointTraining as FloatingPointTraining
from missdp.conditions import LevelsFromRelease as LevelsFromRelease
from missdp.conditions import MissingCompletelyAtRandom as MissingCompletelyAtRandom
from missdp.conditions import ObservedAtMost as ObservedAtMost
from missdp.conditions import PublicDomain as PublicDomain
from missdp.conditions import RefusalsNotPrivate as RefusalsNotPrivate
from missdp.conditions import RowFunctionsTested as RowFunctionsTested
from missdp.conditions import RowIndependentMissingness as RowIndependentMissingness
from missdp.conditions import RowsWithoutUnit as RowsWithoutUnit
from missdp.conditions import WeightsOfRows as WeightsOfRows
from missdp.exports import exported_names

__all__ = exported_names(globals())
