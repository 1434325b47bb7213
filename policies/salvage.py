"""What is left of an object that no write would let in, once each wrong part is left out.

For whoever has to be careful with such an object and must know what it was about: which namespaces,
below which parent, for which work. Leaving out a requirement of a selector makes it select more,
never less. Next step: `fleet.gateway.rulebook`.
"""

from __future__ import annotations

import copy
import re
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from policies.kind import Kind

Object = dict[str, Any]

_STEP: Final = re.compile(r"\[([^\]]*)\]|([^.\[\]]+)")
_MOST_CUTS: Final = 1000


def salvaged(kind: Kind[Any], obj: Object) -> Object:
    """A copy without what is wrong in its spec, as `kind` judges it. It is sound but for what must
    be given and is not."""
    spec = obj.get("spec")
    left = {**obj, "spec": copy.deepcopy(spec) if isinstance(spec, dict) else {}}
    for _ in range(_MOST_CUTS):
        # From behind: a list that loses an element keeps the numbers of those before it.
        if not any(_cut(left["spec"], cause.field) for cause in reversed(kind.problems(left))):
            break
    return left


def _cut(spec: Object, field: str) -> bool:
    """Take out the innermost element of a list that the fault is in, else the innermost field.
    Whether there was something to take out."""
    holder: Any = spec
    found: tuple[Any, str | int] | None = None
    in_list = False
    for match in list(_STEP.finditer(field))[1:]:
        inside, name = match.groups()
        step: str | int = name if name is not None else inside
        if isinstance(holder, list):
            if not str(step).isdecimal() or int(step) >= len(holder):
                break
            step, in_list, found = int(step), True, (holder, int(step))
        elif isinstance(holder, dict):
            if step not in holder:
                break
            if not in_list:
                found = holder, step
        else:
            break
        holder = holder[step]
    if found is None:
        return False
    del found[0][found[1]]
    return True
