"""The demonstration's buyers register: through the deployed page and API, as their browsers would.

Half of them register before their licence's events are sent, the others while those are worked on: the order
makes no difference, and so nothing else of the demonstration tells them apart.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, Final

from sandbox.buyer import RegistrationRefusal, SetUpFailed
from sandbox.cloud_stage import CloudStage
from sandbox.simulation.reconciliation import Account
from sandbox.simulation.seller import Buyer
from sandbox.simulation.stage import Item
from sandbox.simulation.troubles import Plan

REGISTERED: Final = "registered"
ALREADY_REGISTERED: Final = "already-registered"
EXPIRED: Final = "ExpiredToken"

#: Buyers at a time: below the stage's burst, so that no buyer is throttled.
_AT_A_TIME: Final = 4

Accounts = Mapping[tuple[str, str, str, str], Account]


@dataclass(slots=True)
class Registrations:
    """Registers buyers through the fulfilment URL and keeps how each attempt ended."""

    stage: CloudStage
    #: Who has to be registered at the end.
    buyers: list[Buyer] = field(default_factory=list)
    #: By licence, how each of its attempts ended: the API's outcome or error code, or what a browser met.
    attempts: dict[str, list[str]] = field(default_factory=dict)

    def register(self, buyers: Iterable[Buyer]) -> None:
        """Let every buyer set up the account, some at a time."""
        wanted = list(buyers)
        self.buyers += wanted
        with ThreadPoolExecutor(_AT_A_TIME) as browsers:
            list(browsers.map(self._register, wanted))

    def post_twice(self, plan: Plan, buyer: Buyer) -> None:
        """Plant a form that the buyer's browser sends twice, with the same token."""
        self.buyers.append(buyer)
        token = self.stage.mint_token(buyer.license_arn)
        for _ in range(2):
            self._set_up(buyer, token)
        self._expect(plan, "registration: a token posted twice", buyer, [REGISTERED, ALREADY_REGISTERED])

    def expire(self, plan: Plan, buyer: Buyer) -> None:
        """Plant a buyer whose token expires over the form, and who then comes back with a new one."""
        self.buyers.append(buyer)
        expired = self.stage.mint_token(buyer.license_arn)
        self.stage.expire_token(expired)
        self._set_up(buyer, expired)
        self._register(buyer)
        self._expect(plan, "registration: an expired token, then a new one", buyer, [EXPIRED, REGISTERED])

    def _register(self, buyer: Buyer) -> None:
        self._set_up(buyer, self.stage.mint_token(buyer.license_arn))

    def _set_up(self, buyer: Buyer, token: str) -> None:
        try:
            ended = self.stage.browser().set_up_account(token, form_of(buyer))
        except RegistrationRefusal as refusal:
            ended = refusal.code
        except SetUpFailed as failure:
            ended = str(failure)
        self.attempts.setdefault(buyer.license_arn, []).append(ended)

    def _expect(self, plan: Plan, name: str, buyer: Buyer, expected: list[str]) -> None:
        def judge(_: Accounts) -> tuple[bool, str]:
            ended = self.attempts[buyer.license_arn]
            profiles = len(self._profiles_by_license().get(buyer.license_arn, []))
            rows = "1 profile" if profiles == 1 else f"{profiles} profiles"
            return ended == expected and profiles == 1, f"{', then '.join(ended)}: {rows}"

        plan.expect(name, judge)

    def _profiles_by_license(self) -> dict[str, list[Item]]:
        found: dict[str, list[Item]] = {}
        for row in self.stage.profiles():
            found.setdefault(str(row["licenseArn"]), []).append(row)
        return found

    def to_json(self) -> dict[str, Any]:
        """Return the attempts by how they ended, and how many profiles there are."""
        counts = Counter(ended for attempts in self.attempts.values() for ended in attempts)
        registered, again = counts.pop(REGISTERED, 0), counts.pop(ALREADY_REGISTERED, 0)
        return {
            "registered": registered,
            "alreadyRegistered": again,
            "refused": dict(sorted(counts.items())),
            "profiles": len(self.stage.profiles()),
        }

    def problems(self) -> list[str]:
        """Return who is not known as the registration makes them known; empty after a good run."""
        profiles = self._profiles_by_license()
        subscribers = {str(row["licenseArn"]): row for row in self.stage.subscribers()}
        region = self.stage.deployment.registration_region
        checks: list[tuple[str, Callable[[Buyer], bool]]] = [
            ("is not registered", lambda buyer: self.attempts[buyer.license_arn].count(REGISTERED) == 1),
            (
                "has no profile with what was entered",
                lambda buyer: (
                    [
                        (row["customerAWSAccountId"], row["registrationData"])
                        for row in profiles.get(buyer.license_arn, [])
                    ]
                    == [(buyer.account, form_of(buyer))]
                ),
            ),
            (
                f"is no subscriber registered in {region}",
                lambda buyer: (
                    region in subscribers.get(buyer.license_arn, {}).get("registeredRegions", frozenset())
                ),
            ),
        ]
        found = [
            f"{buyer.customer} {what}" for buyer in self.buyers for what, good in checks if not good(buyer)
        ]
        strangers = profiles.keys() - {buyer.license_arn for buyer in self.buyers}
        return found + [f"{len(strangers)} profiles of nobody who registered"] * bool(strangers)


def form_of(buyer: Buyer) -> dict[str, str]:
    """Return what the buyer enters: invented, and different for each."""
    return {
        "email": f"{buyer.customer}@example.com",
        "name": f"Buyer {buyer.customer}",
        "company": f"Example {buyer.customer}",
    }


def line_of(registrations: Mapping[str, Any]) -> str:
    """Return a report's registrations as one line."""
    refused = ", ".join(f"{count} {code}" for code, count in registrations["refused"].items()) or "none"
    return (
        f"{registrations['registered']} registered, {registrations['alreadyRegistered']} already registered, "
        f"refused: {refused}; {registrations['profiles']} profiles"
    )
