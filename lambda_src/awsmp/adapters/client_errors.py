"""What an AWS client raises, as the project's own errors."""

from __future__ import annotations

from types import TracebackType
from typing import Final

from botocore.exceptions import BotoCoreError, ClientError

from awsmp.domain.errors import ConditionFailed, Misconfigured, StoreUnavailable

_CONDITION_FAILED: Final = "ConditionalCheckFailedException"

# Answers that stay the same until somebody changes a policy, a setting or the code.
_PERMANENT: Final = frozenset(
    {
        "AccessDenied",
        "AccessDeniedException",
        "InvalidClientTokenId",
        "NotAuthorized",
        "ResourceNotFoundException",
        "UnrecognizedClientException",
        "ValidationException",
    }
)


class _Translation:
    """The body of :func:`translated`; a plain class, because every AWS call enters one."""

    __slots__ = ("_operation",)

    def __init__(self, operation: str) -> None:
        self._operation = operation

    def __enter__(self) -> None:
        return None

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if error is None:
            return
        if isinstance(error, ClientError):
            code = error.response.get("Error", {}).get("Code", "unknown")
            if code == _CONDITION_FAILED:
                raise ConditionFailed(f"{self._operation}: the condition did not hold") from error
            if code in _PERMANENT:
                raise Misconfigured(f"{self._operation} was refused: {code}") from error
            raise StoreUnavailable(f"{self._operation} failed: {code}") from error
        if isinstance(error, BotoCoreError):
            told = type(error).__name__
            raise StoreUnavailable(f"{self._operation} got no answer: {told}") from error


def translated(operation: str) -> _Translation:
    """Run one AWS call and name what it raises.

    Messages hold the operation and AWS's error code, never a key or a value.

    Raises
    ------
    ConditionFailed
        DynamoDB's condition did not hold.
    Misconfigured
        The call is not allowed, its resource does not exist, or the request is invalid.
    StoreUnavailable
        Anything else, lost connections and time-outs included; the call may have had its effect.
    """
    return _Translation(operation)
