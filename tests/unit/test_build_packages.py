"""The zips that the functions are made of: reproducible, complete, and what the sources make."""

from __future__ import annotations

import ast
import base64
import gzip
import hashlib
import importlib.metadata
import json
import os
import shutil
import stat
import subprocess
import sys
import zipfile
from collections.abc import Callable
from io import BytesIO
from pathlib import Path

import botocore.session
import pytest

from sandbox import build_packages
from sandbox.build_packages import (
    CODE_ZIP,
    DEPENDENCIES_ZIP,
    MANIFEST,
    MAX_UNZIPPED_BYTES,
    SERVICES,
    BuildError,
    Sources,
    build,
    check_manifest,
    code_entries,
    dependency_entries,
    differences,
    install,
    locked_packages,
    manifest_text,
    verify,
    zip_bytes,
)

REPOSITORY = Path(__file__).resolve().parents[2]
COMMITTED = REPOSITORY / "lambda_dist"
HANDLERS = sorted(path.stem for path in (REPOSITORY / "lambda_src/awsmp/handlers").glob("[!_]*.py"))


# --- The zip format -----------------------------------------------------------------------------------------


def test_a_zip_depends_on_names_and_contents_only() -> None:
    entries = {"b.py": b"b", "a/c.py": b"c", "a.py": b"a"}
    assert zip_bytes(entries) == zip_bytes(dict(sorted(entries.items())))


def test_zip_entries_are_sorted_stored_dated_1980_and_readable_by_all() -> None:
    with zipfile.ZipFile(BytesIO(zip_bytes({"b.py": b"b" * 500, "a.py": b"a"}))) as archive:
        infos = archive.infolist()
    assert [info.filename for info in infos] == ["a.py", "b.py"]
    for info in infos:
        assert info.date_time == (1980, 1, 1, 0, 0, 0)
        assert info.compress_type == zipfile.ZIP_STORED
        assert info.create_system == 3
        assert stat.filemode(info.external_attr >> 16) == "-rw-r--r--"
        assert info.extra == b""
        assert info.comment == b""


# --- Our package --------------------------------------------------------------------------------------------


def test_the_code_zip_leaves_out_compiled_and_hidden_files_and_makes_line_ends_lf(tmp_path: Path) -> None:
    package = tmp_path / "awsmp"
    for name, content in {
        "__init__.py": b"",
        "a.py": b"x = 1\r\ny = 2\r\n",
        "__pycache__/a.cpython-311.pyc": b"\0",
        "b.pyc": b"\0",
        ".DS_Store": b"\0",
        "sub/page.html": b"<p>\n",
        "py.typed": b"",
    }.items():
        _write(package / name, content)
    assert code_entries(package) == {
        "awsmp/__init__.py": b"",
        "awsmp/a.py": b"x = 1\ny = 2\n",
        "awsmp/py.typed": b"",
        "awsmp/sub/page.html": b"<p>\n",
    }


def test_a_file_of_an_unknown_kind_fails_the_build_and_is_not_dropped(tmp_path: Path) -> None:
    _write(tmp_path / "awsmp" / "model.bin", b"\0")
    with pytest.raises(BuildError, match=r"awsmp/model\.bin"):
        code_entries(tmp_path / "awsmp")


def test_a_symbolic_link_fails_the_build(tmp_path: Path) -> None:
    _write(tmp_path / "elsewhere.py", b"")
    (tmp_path / "awsmp").mkdir()
    (tmp_path / "awsmp" / "a.py").symlink_to(tmp_path / "elsewhere.py")
    with pytest.raises(BuildError, match="symbolic link"):
        code_entries(tmp_path / "awsmp")


# --- The layer ----------------------------------------------------------------------------------------------


def _write(path: Path, content: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)


def _small_botocore() -> dict[str, bytes]:
    """A stand-in for botocore: as much as the build reads of it."""
    services = {service: {"defaults": {"of": service}} for service in (*SERVICES, "ec2")}
    files = {
        "botocore/__init__.py": b"",
        "botocore/data/endpoints.json": json.dumps(
            {"partitions": [{"partition": "aws", "services": services}], "version": 3}
        ).encode(),
        "botocore/data/partitions.json": b"{}",
        "botocore-1.0.dist-info/METADATA": b"Metadata-Version: 2.1\nName: botocore\nVersion: 1.0\n",
        "botocore-1.0.dist-info/WHEEL": b"Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        "botocore-1.0.dist-info/licenses/LICENSE.txt": b"Do as you like.\n",
    }
    for service in (*SERVICES, "ec2"):
        model = gzip.compress(json.dumps({"metadata": {"endpointPrefix": service}}).encode(), mtime=0)
        files[f"botocore/data/{service}/2012-01-01/service-2.json.gz"] = b"old"
        files[f"botocore/data/{service}/2020-01-01/service-2.json.gz"] = model
        files[f"botocore/data/{service}/2020-01-01/examples-1.json"] = b"{}"
    return files


@pytest.fixture
def site(tmp_path: Path) -> Path:
    """A directory as pip leaves it."""
    folder = tmp_path / "site"
    for name, content in _small_botocore().items():
        _write(folder / name, content)
    for name in ("INSTALLER", "RECORD", "REQUESTED", "direct_url.json", "top_level.txt"):
        _write(folder / "botocore-1.0.dist-info" / name, b"differs by machine")
    for name in ("bin/jp.py", "boto3/examples/cloudfront.rst", "botocore/__pycache__/a.cpython-313.pyc"):
        _write(folder / name, b"unused")
    return folder


def test_the_layer_keeps_code_licence_and_the_newest_data_of_our_services(site: Path) -> None:
    entries = dependency_entries(site)
    assert entries.keys() == {
        "python/botocore/__init__.py",
        "python/botocore/data/endpoints.json",
        "python/botocore/data/partitions.json",
        "python/botocore-1.0.dist-info/METADATA",
        "python/botocore-1.0.dist-info/licenses/LICENSE.txt",
        *(f"python/botocore/data/{service}/2020-01-01/service-2.json.gz" for service in SERVICES),
    }
    (partition,) = json.loads(entries["python/botocore/data/endpoints.json"])["partitions"]
    assert set(partition["services"]) == set(SERVICES)


def _native_file(site: Path) -> None:
    _write(site / "botocore" / "fast.so", b"\x7fELF")


def _native_wheel(site: Path) -> None:
    wheel = site / "botocore-1.0.dist-info" / "WHEEL"
    wheel.write_bytes(wheel.read_bytes().replace(b"py3-none-any", b"cp313-cp313-manylinux2014_aarch64"))


def _no_license(site: Path) -> None:
    shutil.rmtree(site / "botocore-1.0.dist-info" / "licenses")


def _no_service(site: Path) -> None:
    shutil.rmtree(site / "botocore" / "data" / SERVICES[0])


def _nothing_installed(site: Path) -> None:
    shutil.rmtree(site / "botocore-1.0.dist-info")


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (_native_file, "native code"),
        (_native_wheel, "not pure Python"),
        (_no_license, "licence"),
        (_no_service, "knows no service"),
        (_nothing_installed, "no package is installed"),
    ],
)
def test_a_layer_that_would_not_serve_every_runtime_is_refused(
    site: Path, spoil: Callable[[Path], None], message: str
) -> None:
    spoil(site)
    with pytest.raises(BuildError, match=message):
        dependency_entries(site)


def test_botocore_data_is_bundled_for_exactly_the_services_that_the_code_calls() -> None:
    called = set()
    for path in (REPOSITORY / "lambda_src").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
                if node.func.attr not in ("client", "resource") or not node.args:
                    continue
                service = node.args[0]
                assert isinstance(service, ast.Constant), f"{path.name}:{node.lineno}: service is no literal"
                called.add(service.value)
    assert called == set(SERVICES)


# --- Manifest, build and verification -----------------------------------------------------------------------


def _packages(folder: Path) -> None:
    packages = {CODE_ZIP: zip_bytes({"a.py": b"1"}), DEPENDENCIES_ZIP: zip_bytes({"python/b.py": b"2"})}
    for name, content in packages.items():
        (folder / name).write_bytes(content)
    (folder / MANIFEST).write_text(manifest_text("1.2.3", packages), encoding="utf-8")


def test_the_manifest_holds_size_and_both_spellings_of_the_digest(tmp_path: Path) -> None:
    _packages(tmp_path)
    manifest = json.loads((tmp_path / MANIFEST).read_text(encoding="utf-8"))
    content = (tmp_path / CODE_ZIP).read_bytes()
    assert manifest["version"] == "1.2.3"
    assert manifest["packages"][CODE_ZIP] == {
        "bytes": len(content),
        "sha256": hashlib.sha256(content).hexdigest(),
        "sha256_base64": base64.b64encode(hashlib.sha256(content).digest()).decode(),
    }
    check_manifest(tmp_path)


@pytest.mark.parametrize("name", [CODE_ZIP, DEPENDENCIES_ZIP])
def test_a_zip_that_the_manifest_does_not_describe_is_noticed(tmp_path: Path, name: str) -> None:
    _packages(tmp_path)
    (tmp_path / name).write_bytes(zip_bytes({"a.py": b"changed"}))
    with pytest.raises(BuildError, match="does not describe"):
        check_manifest(tmp_path)


@pytest.mark.parametrize("name", [CODE_ZIP, DEPENDENCIES_ZIP, MANIFEST])
def test_a_missing_file_is_noticed(tmp_path: Path, name: str) -> None:
    _packages(tmp_path)
    (tmp_path / name).unlink()
    with pytest.raises(BuildError, match="incomplete"):
        check_manifest(tmp_path)


def test_differences_name_the_entries(tmp_path: Path) -> None:
    left, right = tmp_path / "left", tmp_path / "right"
    for folder in (left, right):
        folder.mkdir()
        _packages(folder)
    assert differences(left, right) == []
    (right / CODE_ZIP).write_bytes(zip_bytes({"a.py": b"3", "c.py": b""}))
    found = "\n".join(differences(left, right))
    assert "a.py has other content" in found
    assert "c.py is only in the second" in found


@pytest.fixture
def small_repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A checkout whose only requirement is a wheel in a folder; no index is asked."""
    wheels = tmp_path / "wheels"
    wheel = wheels / "botocore-1.0-py3-none-any.whl"
    files = _small_botocore()
    files["botocore-1.0.dist-info/RECORD"] = "".join(f"{name},,\n" for name in files).encode()
    _write(wheel, zip_bytes(files))
    digest = hashlib.sha256(wheel.read_bytes()).hexdigest()
    repository = tmp_path / "repository"
    for name, content in {
        "lambda_src/awsmp/__init__.py": "",
        "requirements/runtime.txt": f"botocore==1.0 \\\n    --hash=sha256:{digest}\n",
        "pyproject.toml": '[project]\nname = "small"\nversion = "9.8.7"\n',
    }.items():
        _write(repository / name, content.encode())
    for name in [name for name in os.environ if name.startswith("PIP_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(wheels))
    return repository


@pytest.mark.slow
def test_verify_passes_in_other_surroundings_and_fails_on_any_change(small_repository: Path) -> None:
    output = small_repository / "lambda_dist"
    build(Sources.of(small_repository), output)
    assert json.loads((output / MANIFEST).read_text(encoding="utf-8"))["version"] == "9.8.7"
    verify(small_repository, output, [sys.executable])

    _write(small_repository / "lambda_src/awsmp/__init__.py", b"changed = True\n")
    with pytest.raises(BuildError, match=r"awsmp/__init__\.py has other content"):
        verify(small_repository, output, [sys.executable])


@pytest.mark.slow
def test_a_package_with_another_hash_than_the_locked_one_is_refused(
    small_repository: Path, tmp_path: Path
) -> None:
    requirements = small_repository / "requirements/runtime.txt"
    requirements.write_text(f"botocore==1.0 \\\n    --hash=sha256:{'0' * 64}\n", encoding="utf-8")
    with pytest.raises(BuildError, match=r"(?is)pip could not install.*do not match the hashes"):
        install(requirements, tmp_path / "target")


def test_the_command_line_reports_a_failure_with_its_exit_status(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert build_packages.main(["verify", "--repository", str(tmp_path)]) == 1
    assert "incomplete" in capsys.readouterr().err


# --- What is committed --------------------------------------------------------------------------------------


def test_the_committed_manifest_describes_the_committed_zips() -> None:
    check_manifest(COMMITTED)
    manifest = json.loads((COMMITTED / MANIFEST).read_text(encoding="utf-8"))
    assert manifest["version"] == Sources.of(REPOSITORY).version()


def test_the_committed_code_is_what_the_sources_make() -> None:
    made = zip_bytes(code_entries(REPOSITORY / "lambda_src" / "awsmp"))
    assert made == (COMMITTED / CODE_ZIP).read_bytes(), "run `make build` and commit lambda_dist"


def test_the_committed_layer_is_what_the_locked_requirements_install(tmp_path: Path) -> None:
    for name, version in locked_packages(REPOSITORY / "requirements" / "runtime.txt").items():
        distribution = importlib.metadata.distribution(name)
        assert distribution.version == version
        for file in distribution.files or ():
            if ".." not in file.parts and "__pycache__" not in file.parts:
                _write(tmp_path / Path(*file.parts), Path(str(file.locate())).read_bytes())
    made = zip_bytes(dependency_entries(tmp_path))
    assert made == (COMMITTED / DEPENDENCIES_ZIP).read_bytes(), "run `make build` and commit lambda_dist"


def test_the_committed_packages_are_far_below_the_limit_of_lambda() -> None:
    total = sum((COMMITTED / name).stat().st_size for name in (CODE_ZIP, DEPENDENCIES_ZIP))
    assert total < MAX_UNZIPPED_BYTES / 25


# --- The packages alone, in an interpreter that sees nothing else -------------------------------------------

_PROBE = """
import sys
standard_library = list(sys.path)
code, layer = sys.argv[1:3]
sys.path[:0] = [code, layer]
import importlib, json
answers = {}
for module in json.loads(sys.argv[3]):
    found = importlib.import_module("awsmp.handlers." + module)
    answers[module] = callable(getattr(found, "handler", None))
import boto3
from awsmp.composition_metering import production_runtime
clients = production_runtime("probe").clients
shape = clients.marketplace.meta.service_model.operation_model("BatchMeterUsage").input_shape
record = shape.members["UsageRecords"].member.members
endpoints = {}
regions = json.loads(sys.argv[4])
for service in json.loads(sys.argv[5]):
    for region in regions:
        endpoints[service + "@" + region] = boto3.client(service, region_name=region).meta.endpoint_url
roots = (code, layer, *standard_library)
outside = [
    name
    for name, module in sorted(sys.modules.items())
    if getattr(module, "__file__", None) and not module.__file__.startswith(roots)
]
print(json.dumps({
    "handlers": answers,
    "record": sorted(record),
    "endpoints": endpoints,
    "outside": outside,
    "path": sys.path,
    "boto3": boto3.__file__,
}))
"""


def _interpreters() -> list[str]:
    return build_packages.interpreters_on_path()


@pytest.fixture(scope="module")
def unzipped(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """The committed zips, extracted as Lambda extracts them: task root and layer."""
    folder = tmp_path_factory.mktemp("lambda")
    for name in (CODE_ZIP, DEPENDENCIES_ZIP):
        with zipfile.ZipFile(COMMITTED / name) as archive:
            archive.extractall(folder / name.removesuffix(".zip"))
    return folder / "awsmp", folder / "dependencies" / "python"


@pytest.mark.slow
@pytest.mark.parametrize("python", _interpreters(), ids=lambda path: Path(path).name)
def test_every_handler_runs_on_the_packages_alone(unzipped: tuple[Path, Path], python: str) -> None:
    code, layer = unzipped
    regions = ["us-east-1", "eu-central-1", "ap-southeast-2", "us-gov-west-1", "cn-north-1"]
    arguments = [str(code), str(layer), json.dumps(HANDLERS), json.dumps(regions), json.dumps(SERVICES)]
    done = subprocess.run(
        [python, "-I", "-S", "-B", "-c", _PROBE, *arguments],
        env={
            "AWS_ACCESS_KEY_ID": "123456789012",
            "AWS_SECRET_ACCESS_KEY": "local",
            "AWS_REGION": "eu-central-1",
            "AWS_DEFAULT_REGION": "eu-central-1",
            "PRODUCT_CODE": "product",
        },
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    seen = json.loads(done.stdout.splitlines()[-1])
    assert not [entry for entry in seen["path"] if "site-packages" in entry or "dist-packages" in entry]
    assert seen["outside"] == []
    assert seen["boto3"].startswith(str(layer))
    assert {"LicenseArn", "CustomerAWSAccountId", "QuantityAsDecimal"} <= set(seen["record"])
    shared = {"rest_proxy", "sqs_batch", "stream_batch"}
    assert {name for name, has_entry_point in seen["handlers"].items() if not has_entry_point} == shared

    session = botocore.session.Session()
    session.set_credentials("123456789012", "local")
    for service in SERVICES:
        for region in regions:
            whole = session.create_client(service, region_name=region).meta.endpoint_url
            assert seen["endpoints"][f"{service}@{region}"] == whole
