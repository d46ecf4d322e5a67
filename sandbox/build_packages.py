"""Build the two zips that every Lambda function is made of, byte-identical wherever they are built.

``awsmp.zip`` holds this project's package, ``dependencies.zip`` is a layer with the locked third-party
packages below ``python/``. They are apart, so that a change of code commits kilobytes. ``manifest.json``
beside them carries their digests, which the Terraform modules read.

The bytes depend on the sources and on ``requirements/runtime.txt`` alone: names are sorted, dates and modes
are fixed, and nothing is compressed, because deflate's output differs between zlib builds. Only pure-Python
packages are taken, so that one layer serves every architecture and runtime.

``python -m sandbox.build_packages build`` writes the files, ``verify`` builds them again in other
surroundings and compares. Building needs the standard library and pip, nothing else.
"""

from __future__ import annotations

import argparse
import base64
import gzip
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
import zipfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path, PurePosixPath
from typing import Any, Final

CODE_ZIP: Final = "awsmp.zip"
DEPENDENCIES_ZIP: Final = "dependencies.zip"
MANIFEST: Final = "manifest.json"

#: The AWS services that the functions call; botocore's data of every other service is left out.
SERVICES: Final = ("dynamodb", "events", "meteringmarketplace", "secretsmanager", "sesv2", "sqs")

#: A function's code and layers together may not exceed this, unzipped ("Lambda quotas").
MAX_UNZIPPED_BYTES: Final = 250 * 1024 * 1024
#: What Lambda takes in a direct upload of a zip ("Lambda quotas").
MAX_UPLOAD_BYTES: Final = 50 * 1024 * 1024

_REPOSITORY: Final = Path(__file__).resolve().parent.parent
#: The earliest date that a zip can hold.
_DATE: Final = (1980, 1, 1, 0, 0, 0)
_UNIX: Final = 3
_FILE_MODE: Final = 0o100644
_ZIP_VERSION: Final = 20

_CODE_SUFFIXES: Final = frozenset({".css", ".html", ".js", ".json", ".py", ".svg", ".txt", ".typed"})
_NATIVE_SUFFIXES: Final = frozenset({".a", ".dll", ".dylib", ".pyd", ".so"})
_LICENSE_FILE: Final = re.compile(r"(licenses/.*|(LICEN[CS]E|NOTICE|COPYING|AUTHORS)[^/]*)")
_REQUIREMENT: Final = re.compile(r"^([A-Za-z0-9][A-Za-z0-9._-]*)==(\S+)", re.MULTILINE)
_TAG: Final = re.compile(r"^Tag: (\S+)$", re.MULTILINE)

#: Documentation and development files, and the browser's half of a Swagger page that nothing here serves.
_UNUSED: Final = (
    "aws_lambda_powertools/event_handler/openapi/swagger_ui/swagger-ui-bundle.min.js",
    "aws_lambda_powertools/event_handler/openapi/swagger_ui/swagger-ui.min.css",
    "bin/",
    "boto3/examples/",
)


class BuildError(Exception):
    """The packages cannot be built, or are not what the sources make; the message says why."""


@dataclass(frozen=True, slots=True)
class Sources:
    """Where the packages are built from."""

    package: Path
    requirements: Path
    project: Path

    @classmethod
    def of(cls, repository: Path) -> Sources:
        """Return the sources in a checkout."""
        return cls(
            package=repository / "lambda_src" / "awsmp",
            requirements=repository / "requirements" / "runtime.txt",
            project=repository / "pyproject.toml",
        )

    def version(self) -> str:
        """Return the release that the project file names."""
        project: dict[str, Any] = tomllib.loads(self.project.read_text(encoding="utf-8"))
        return str(project["project"]["version"])


def code_entries(package: Path) -> dict[str, bytes]:
    """Return the files of the package by their names in the zip; line ends are made LF.

    Raises
    ------
    BuildError
        A file is of a kind that is not known to belong into the package, or is a symbolic link.
    """
    entries = {}
    for path in _files(package):
        name = path.relative_to(package.parent).as_posix()
        if path.suffix not in _CODE_SUFFIXES:
            raise BuildError(
                f"{name} is of no kind that belongs into the package; remove it or allow its suffix"
            )
        entries[name] = path.read_bytes().replace(b"\r\n", b"\n")
    return entries


def dependency_entries(site: Path) -> dict[str, bytes]:
    """Return the files of the layer out of a directory that pip has installed into.

    Raises
    ------
    BuildError
        A package is not pure Python, a licence text is missing, or botocore does not know a service.
    """
    _require_pure_python(site)
    data_files = _service_data(site)
    entries = {}
    for path in _files(site):
        name = path.relative_to(site).as_posix()
        if name.startswith(_UNUSED):
            continue
        if _is_service_data(name):
            if name not in data_files:
                continue
        elif ".dist-info/" in name and not _is_kept_metadata(name):
            continue
        entries[f"python/{name}"] = path.read_bytes()
    endpoints = "botocore/data/endpoints.json"
    entries[f"python/{endpoints}"] = _trimmed_endpoints(site / endpoints, site, data_files)
    _require_licenses(entries)
    return entries


def zip_bytes(entries: Mapping[str, bytes]) -> bytes:
    """Return a zip that is a function of ``entries`` alone."""
    buffer = BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_STORED) as archive:
        for name in sorted(entries):
            info = zipfile.ZipInfo(name, _DATE)
            info.create_system = _UNIX
            info.create_version = info.extract_version = _ZIP_VERSION
            info.external_attr = _FILE_MODE << 16
            archive.writestr(info, entries[name], zipfile.ZIP_STORED)
    return buffer.getvalue()


def manifest_text(version: str, packages: Mapping[str, bytes]) -> str:
    """Return the manifest of the zips: size and SHA-256, in hexadecimal and, for Lambda, in base64."""
    described = {}
    for name, content in packages.items():
        digest = hashlib.sha256(content)
        described[name] = {
            "bytes": len(content),
            "sha256": digest.hexdigest(),
            "sha256_base64": base64.b64encode(digest.digest()).decode("ascii"),
        }
    return json.dumps({"packages": described, "version": version}, indent=2, sort_keys=True) + "\n"


def install(requirements: Path, target: Path, python: str = sys.executable) -> None:
    """Install the locked packages into ``target`` with the pip of ``python``, each one checked by its hash.

    The platform is named, so that what pip finds does not depend on the machine that it runs on.

    Raises
    ------
    BuildError
        pip has failed; its last lines are in the message.
    """
    command = [
        *(python, "-I", "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-input"),
        *("--target", str(target), "--no-compile", "--no-deps", "--require-hashes", "--only-binary", ":all:"),
        *("--implementation", "cp", "--python-version", "3.13", "--platform", "manylinux2014_aarch64"),
        *("--requirement", str(requirements)),
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise BuildError("pip could not install the locked packages:\n" + _tail(done.stderr))


def build(sources: Sources, output: Path, *, pip_python: str = sys.executable) -> dict[str, bytes]:
    """Write zips and manifest into ``output``; return the zips' bytes by name.

    Raises
    ------
    BuildError
        As :func:`code_entries`, :func:`dependency_entries` and :func:`install`.
    """
    with tempfile.TemporaryDirectory(prefix="packages-") as temporary:
        site = Path(temporary)
        install(sources.requirements, site, pip_python)
        dependencies = dependency_entries(site)
    code = code_entries(sources.package)
    unzipped = sum(map(len, code.values())) + sum(map(len, dependencies.values()))
    packages = {CODE_ZIP: zip_bytes(code), DEPENDENCIES_ZIP: zip_bytes(dependencies)}
    if unzipped > MAX_UNZIPPED_BYTES or any(len(data) > MAX_UPLOAD_BYTES for data in packages.values()):
        raise BuildError(f"the packages are too large for Lambda: {unzipped} bytes unzipped")
    output.mkdir(parents=True, exist_ok=True)
    for name, content in packages.items():
        (output / name).write_bytes(content)
    (output / MANIFEST).write_bytes(manifest_text(sources.version(), packages).encode("utf-8"))
    return packages


def check_manifest(directory: Path) -> None:
    """Check that the manifest in ``directory`` describes the zips beside it.

    Raises
    ------
    BuildError
        A file is missing, or the manifest says something else than the zips.
    """
    try:
        manifest = json.loads((directory / MANIFEST).read_text(encoding="utf-8"))
        packages = {name: (directory / name).read_bytes() for name in (CODE_ZIP, DEPENDENCIES_ZIP)}
    except (OSError, ValueError) as error:
        raise BuildError(f"the packages are incomplete: {error}") from error
    if manifest != json.loads(manifest_text(str(manifest.get("version")), packages)):
        raise BuildError(f"{MANIFEST} does not describe the zips beside it; run `make build`")


def differences(left: Path, right: Path) -> list[str]:
    """Return what differs between two builds, in words; empty when they are identical."""
    found = []
    for name in (CODE_ZIP, DEPENDENCIES_ZIP, MANIFEST):
        ours, theirs = (left / name).read_bytes(), (right / name).read_bytes()
        if ours == theirs:
            continue
        found.append(f"{name}: {len(ours)} and {len(theirs)} bytes")
        if name != MANIFEST:
            found.extend(f"{name}: {line}" for line in _entry_differences(ours, theirs))
    return found


def _entry_differences(ours: bytes, theirs: bytes) -> Iterator[str]:
    with zipfile.ZipFile(BytesIO(ours)) as left, zipfile.ZipFile(BytesIO(theirs)) as right:
        checksums = [{info.filename: info.CRC for info in archive.infolist()} for archive in (left, right)]
    for name in sorted(checksums[0].keys() | checksums[1].keys()):
        first, second = checksums[0].get(name), checksums[1].get(name)
        if first is None or second is None:
            yield f"{name} is only in the {'second' if first is None else 'first'}"
        elif first != second:
            yield f"{name} has other content"


def verify(repository: Path, committed: Path, interpreters: Sequence[str]) -> None:
    """Build with each interpreter in other surroundings, and compare with ``committed``.

    Another folder, umask, time zone, locale and hash seed; the sources are copies with new dates and modes.

    Raises
    ------
    BuildError
        Something differs, or the manifest does not describe the zips.
    """
    check_manifest(committed)
    for number, interpreter in enumerate(interpreters):
        with tempfile.TemporaryDirectory(prefix="verify build ") as temporary:
            copy = Path(temporary) / f"other folder {number}"
            _copy_sources(repository, copy)
            _build_elsewhere(interpreter, copy, number)
            found = differences(committed, copy / "out")
        if found:
            raise BuildError(
                f"what is committed is not what the sources make with {interpreter}; run `make build` "
                "and commit the result:\n  " + "\n  ".join(found[:20])
            )


def interpreters_on_path() -> list[str]:
    """Return this interpreter and every other supported one on PATH that runs."""
    found = {sys.version_info[:2]: sys.executable}
    for minor in range(11, 16):
        path = shutil.which(f"python3.{minor}")
        if path is not None and (3, minor) not in found and _runs(path):
            found[3, minor] = path
    return list(found.values())


def _runs(python: str) -> bool:
    # A version manager's shim exists for versions that are not selected, and fails when it is called.
    return subprocess.run([python, "-c", ""], capture_output=True, check=False).returncode == 0


def _copy_sources(repository: Path, copy: Path) -> None:
    sources, copies = Sources.of(repository), Sources.of(copy)
    (copy / "sandbox").mkdir(parents=True)
    copies.requirements.parent.mkdir()
    shutil.copytree(
        sources.package,
        copies.package,
        copy_function=shutil.copyfile,
        ignore=shutil.ignore_patterns("__pycache__"),
    )
    shutil.copyfile(sources.requirements, copies.requirements)
    shutil.copyfile(sources.project, copies.project)
    shutil.copyfile(Path(__file__), copy / "sandbox" / "build_packages.py")


def _build_elsewhere(interpreter: str, folder: Path, number: int) -> None:
    environment = {
        **os.environ,
        "LC_ALL": "C",
        "PYTHONHASHSEED": str(number + 1),
        "TZ": "Pacific/Apia",
        "PYTHONDONTWRITEBYTECODE": "",
    }
    environment.pop("PYTHONPATH", None)
    command = [interpreter, str(folder / "sandbox" / "build_packages.py"), "build"]
    done = subprocess.run(
        [
            *command,
            "--repository",
            str(folder),
            "--output",
            str(folder / "out"),
            "--pip-python",
            sys.executable,
        ],
        env=environment,
        cwd=folder,
        umask=0o077,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        raise BuildError(f"building with {interpreter} failed:\n" + _tail(done.stderr))


def _files(folder: Path) -> Iterator[Path]:
    for path in sorted(folder.rglob("*")):
        parts = path.relative_to(folder).parts
        if path.is_symlink():
            raise BuildError(f"{'/'.join(parts)} is a symbolic link; a package holds files")
        hidden = any(part.startswith(".") for part in parts)
        if path.is_file() and not hidden and "__pycache__" not in parts and path.suffix != ".pyc":
            yield path


def _is_service_data(name: str) -> bool:
    """Tell whether ``name`` describes one service, unlike the files that botocore reads for every client."""
    parts = PurePosixPath(name).parts
    return parts[0] in ("boto3", "botocore") and parts[1:2] == ("data",) and len(parts) > 3


def _service_data(site: Path) -> frozenset[str]:
    """Return the data files of our services, each in its newest version, which is the one that loads."""
    kept = set()
    for library in ("boto3", "botocore"):
        for service in SERVICES:
            versions = sorted(path for path in (site / library / "data" / service).glob("*") if path.is_dir())
            if not versions and library == "botocore":
                raise BuildError(f"botocore knows no service {service!r}")
            for path in versions[-1].iterdir() if versions else ():
                if not path.name.startswith("examples-"):
                    kept.add(path.relative_to(site).as_posix())
    return frozenset(kept)


def _trimmed_endpoints(path: Path, site: Path, data_files: Iterable[str]) -> bytes:
    """Return endpoints.json with our services only: every new client parses the file."""
    prefixes = set()
    for name in data_files:
        if name.endswith("/service-2.json.gz"):
            model = json.loads(gzip.decompress((site / name).read_bytes()))
            prefixes.add(model["metadata"]["endpointPrefix"])
    endpoints = json.loads(path.read_text(encoding="utf-8"))
    for partition in endpoints["partitions"]:
        services = partition["services"]
        partition["services"] = {name: services[name] for name in services if name in prefixes}
    return json.dumps(endpoints, ensure_ascii=True, separators=(",", ":")).encode("ascii") + b"\n"


def _is_kept_metadata(name: str) -> bool:
    """Tell whether a file in a ``.dist-info`` folder is kept: the package's name, version and licence."""
    _, _, rest = name.partition(".dist-info/")
    return rest == "METADATA" or _LICENSE_FILE.fullmatch(rest) is not None


def _require_pure_python(site: Path) -> None:
    wheels = sorted(site.glob("*.dist-info/WHEEL"))
    if not wheels:
        raise BuildError(f"no package is installed in {site}")
    for wheel in wheels:
        text = wheel.read_text(encoding="utf-8")
        tags = _TAG.findall(text)
        if "Root-Is-Purelib: true" not in text or not all(tag.endswith("-none-any") for tag in tags):
            raise BuildError(f"{wheel.parent.name} is not pure Python: {', '.join(tags)}")
    for path in site.rglob("*"):
        if path.suffix in _NATIVE_SUFFIXES:
            raise BuildError(f"{path.relative_to(site).as_posix()} is native code")


def _require_licenses(entries: Mapping[str, bytes]) -> None:
    folders = {name.partition(".dist-info/")[0] for name in entries if ".dist-info/" in name}
    for folder in sorted(folders):
        prefix = f"{folder}.dist-info/"
        if all(name in (prefix + "METADATA",) for name in entries if name.startswith(prefix)):
            raise BuildError(f"{PurePosixPath(folder).name} comes without its licence text")


def locked_packages(requirements: Path) -> dict[str, str]:
    """Return the locked version of every package, by its name."""
    return dict(_REQUIREMENT.findall(requirements.read_text(encoding="utf-8").replace(" \\", "")))


def _tail(text: str, lines: int = 15) -> str:
    return "\n".join(text.strip().splitlines()[-lines:])


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line."""
    parser = argparse.ArgumentParser(
        description="Build the Lambda packages, or check those that are committed."
    )
    parser.add_argument("command", choices=("build", "verify"))
    parser.add_argument("--repository", type=Path, default=_REPOSITORY, help="checkout to build from")
    parser.add_argument("--output", type=Path, help="folder of the packages; default: its lambda_dist")
    parser.add_argument("--pip-python", default=sys.executable, help="interpreter whose pip installs")
    options = parser.parse_args(arguments)
    output: Path = options.output or options.repository / "lambda_dist"
    try:
        if options.command == "build":
            for name, content in build(
                Sources.of(options.repository), output, pip_python=options.pip_python
            ).items():
                print(f"{name}: {len(content):,} bytes, sha256 {hashlib.sha256(content).hexdigest()}")
        else:
            used = interpreters_on_path()
            verify(options.repository, output, used)
            print(f"identical, built with {', '.join(used)}")
    except BuildError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
