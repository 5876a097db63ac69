"""Public facts about columns and rows.

* `attributes`, `numeric`, `dates`, `differences`, `open_categorical`: kinds of columns.
* `binning`: bins of numeric attributes, declared or released by a fit.
* `rules`: facts about rows, in the syntax of `expressions`. `logic`, `bound_rules` and `rule_set`
  compute with them.
* `layout`: formats of files, units and weights. `schema`: all facts, and their TOML file.
* `modelled`: the modelled view of a schema. `question_text`: the syntax of questions.
* `undeclared`: conditions of guarantees that follow from a schema. `cliques`: sets of attributes
  that are counted together.

`missdp.table` reads cells by these facts.
"""

from missdp.exports import exported_names
from missdp.schema.attributes import Attribute as Attribute
from missdp.schema.attributes import Categorical as Categorical
from missdp.schema.attributes import Level as Level
from missdp.schema.attributes import Ordinal as Ordinal
from missdp.schema.binning import Binning as Binning
from missdp.schema.binning import BinSource as BinSource
from missdp.schema.dates import Date as Date
from missdp.schema.dates import DateTime as DateTime
from missdp.schema.differences import Difference as Difference
from missdp.schema.layout import Layout as Layout
from missdp.schema.layout import SurveyWeight as SurveyWeight
from missdp.schema.layout import Unit as Unit
from missdp.schema.numeric import AnyAttribute as AnyAttribute
from missdp.schema.numeric import Numeric as Numeric
from missdp.schema.open_categorical import OpenCategorical as OpenCategorical
from missdp.schema.open_categorical import ReleasedCategorical as ReleasedCategorical
from missdp.schema.rules import Always as Always
from missdp.schema.rules import Determined as Determined
from missdp.schema.rules import Never as Never
from missdp.schema.rules import NotApplicable as NotApplicable
from missdp.schema.rules import Rule as Rule
from missdp.schema.schema import Schema as Schema

__all__ = exported_names(globals())
