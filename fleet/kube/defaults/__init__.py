"""What an API server does to a built-in object between decoding and storing it.

`apply_defaults` fills in defaults, `prepare_create` and `prepare_update` settle what the server
owns (uid, times, generation, the other side of status and spec), `validate_create` and
`validate_update` refuse what must not be stored, all as upstream's registry strategies do.
`create` and `update` run the steps in upstream's order.

Everything is a pure function on values that `fleet.kube.schema` decoded; clock, uid and randomness
are passed in. `fleet.apiserver` calls this between authorization and the store.
"""

from __future__ import annotations

from fleet.kube.defaults.lifecycle import (
    create,
    generate_name,
    is_unchanged,
    mark_deleted,
    prepare_create,
    prepare_update,
    update,
)
from fleet.kube.defaults.registry import GENERATION_FIELDS, apply_defaults
from fleet.kube.defaults.validation import validate_create, validate_update

__all__ = [
    "GENERATION_FIELDS",
    "apply_defaults",
    "create",
    "generate_name",
    "is_unchanged",
    "mark_deleted",
    "prepare_create",
    "prepare_update",
    "update",
    "validate_create",
    "validate_update",
]
