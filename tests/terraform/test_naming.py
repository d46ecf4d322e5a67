"""Names in every Region that AWS has."""

from __future__ import annotations

import json
from pathlib import Path

import boto3
import pytest

from tests.terraform.tool import Terraform

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def names(
    terraform: Terraform, checkout: Path, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, list[str]]:
    """Region codes and an example's base, by Region, from the naming module itself."""
    session = boto3.session.Session()
    regions = sorted(
        region
        for partition in session.get_available_partitions()
        for region in session.get_available_regions("dynamodb", partition_name=partition)
    )
    root = tmp_path_factory.mktemp("naming")
    (root / "main.tf").write_text(
        f"""
        module "names" {{
          source       = "{checkout}/modules/naming"
          for_each     = toset({json.dumps(regions)})
          name_prefix  = "awsmp"
          environment  = "sandbox"
          product_code = "1example2product3code4567"
          region       = each.key
        }}

        output "names" {{
          value = {{ for region, name in module.names : region => [name.region_code, name.base] }}
        }}
        """
    )
    terraform.init(root)
    terraform.apply(root)
    found: dict[str, list[str]] = json.loads(terraform.run("output", "-json", "names", cwd=root).stdout)
    assert sorted(found) == regions
    return found


def test_every_region_has_a_code_of_its_own(names: dict[str, list[str]]) -> None:
    codes = [code for code, _ in names.values()]

    assert len(codes) > 30
    assert len(set(codes)) == len(codes)
    assert all(code.isalnum() and len(code) <= 8 for code in codes)


@pytest.mark.parametrize(
    ("region", "code"),
    [
        ("us-east-1", "use1"),
        ("eu-west-1", "euw1"),
        ("ap-southeast-1", "apse1"),
        ("ap-northeast-3", "apne3"),
        ("us-gov-west-1", "usgw1"),
        ("cn-northwest-1", "cnnw1"),
    ],
)
def test_a_code_can_be_read(region: str, code: str, names: dict[str, list[str]]) -> None:
    assert names[region][0] == code


def test_names_are_prefix_environment_product(names: dict[str, list[str]]) -> None:
    assert {base for _, base in names.values()} == {"awsmp-sandbox-1example2product3code4567"}


def test_a_sandboxs_role_names_fit_in_every_region(names: dict[str, list[str]]) -> None:
    longest = [f"{base}-discoverer-{code}" for code, base in names.values()]

    assert max(map(len, longest)) <= 64
