"""What every backend refuses about keys: state without a current key, and keys of other subtasks."""

from __future__ import annotations

from ...serializers.errors import DeclarationError, ValueNotConvertible, shown


def no_current_key() -> DeclarationError:
    """Return the error for an access to state without a current key."""
    return DeclarationError(
        "state was accessed without a current key",
        advice="access keyed state while an element or a timer of a key is processed; open() has no key",
    )


def require_own(key: object, group: int, key_groups: range) -> None:
    """Refuse a key of another subtask.

    Args:
        key: The key.
        group: Its key group.
        key_groups: Those of this subtask.

    Raises:
        ValueNotConvertible: The subtask does not have this key group.
    """
    if group not in key_groups:
        raise ValueNotConvertible(
            f"the key {shown(key)} is in key group {group}; this subtask has {key_groups.start} to"
            f" {key_groups.stop - 1}",
            advice="partition the elements by the key that the state has",
        )
