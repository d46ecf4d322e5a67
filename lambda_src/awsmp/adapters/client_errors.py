"""What an AWS client raises, as the project's own errors."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
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


@contextmanager
def translated(operation: str) -> Iterator[None]:
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
    try:
        yield
    except ClientError as error:
        code = error.response.get("Error", {}).get("Code", "unknown")
        if code == _CONDITION_FAILED:
            raise ConditionFailed(f"{operation}: the condition did not hold") from error
        if code in _PERMANENT:
            raise Misconfigured(f"{operation} was refused: {code}") from error
        raise StoreUnavailable(f"{operation} failed: {code}") from error
    except BotoCoreError as error:
        raise StoreUnavailable(f"{operation} got no answer: {type(error).__name__}") from error
