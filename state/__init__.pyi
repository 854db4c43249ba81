# The face of the package: every public name and its place, one import a line, as in that of `stateshift`.

from .migration.plan_file import NewTypes as NewTypes
from .migration.plan_file import PlanFile as PlanFile
from .migration.planning import make_plan as make_plan
from .plans.operators import describe_plans as describe_plans
