"""Puts the page function together. It calls no AWS service and imports no SDK: a buyer waits for its start.

A missing or malformed setting is found by the request that needs it.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache

from awsmp.adapters.page_files import packaged_page
from awsmp.adapters.telemetry import LambdaTelemetry
from awsmp.domain.page import Page
from awsmp.domain.ports import Telemetry
from awsmp.usecases.deliver_page import PageDelivery


@dataclass(frozen=True, slots=True)
class PageSettings:
    """The environment of the page function. ``values`` is a JSON map of texts."""

    product_code: str = "unknown"
    environment: str = "default"
    values: str = "{}"
    content_security_policy: str = "default-src 'none'; frame-ancestors 'none'"
    own_page_url: str | None = None

    @classmethod
    def from_environment(cls, environ: Mapping[str, str]) -> PageSettings:
        """Read the settings; an empty value counts as absent. Without a policy the strictest is sent."""
        return cls(
            product_code=environ.get("PRODUCT_CODE") or cls().product_code,
            environment=environ.get("ENVIRONMENT") or cls().environment,
            values=environ.get("PAGE_VALUES") or cls().values,
            content_security_policy=environ.get("CONTENT_SECURITY_POLICY") or cls().content_security_policy,
            own_page_url=environ.get("OWN_PAGE_URL") or None,
        )


@dataclass(frozen=True, slots=True)
class PageRuntime:
    """Everything that the page handler reaches the world through."""

    settings: PageSettings
    telemetry: Telemetry
    files: Mapping[str, str] = field(default_factory=packaged_page)

    def delivery(self) -> PageDelivery:
        """Return the use case of the page function."""
        return PageDelivery(
            page=Page(self.files, self.settings.values),
            content_security_policy=self.settings.content_security_policy,
            own_page_url=self.settings.own_page_url,
            telemetry=self.telemetry,
        )


@cache
def production_runtime(service: str) -> PageRuntime:
    """Return the page function's runtime of this process; ``service`` names the function in its logs."""
    settings = PageSettings.from_environment(os.environ)
    telemetry = LambdaTelemetry(service, product_code=settings.product_code, environment=settings.environment)
    return PageRuntime(settings, telemetry)
