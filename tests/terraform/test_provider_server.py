"""Providers that go on running: one for each connection at a time, and none afterwards."""

from __future__ import annotations

import json
import os
import socket
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.terraform.provider_server import ProviderServers
from tests.terraform.tool import TerraformError

#: Announces itself as the AWS provider does, and answers everything with its process id.
PROVIDER = """#!{python}
import json, os, socket, tempfile, threading

path = os.path.join(tempfile.mkdtemp(), "socket")
listener = socket.socket(socket.AF_UNIX)
listener.bind(path)
listener.listen()
address = {{"Network": "unix", "String": path}}
described = {{"Protocol": "grpc", "ProtocolVersion": 5, "Pid": os.getpid(), "Addr": address}}
told = {{"registry.example.com/a/b": described}}
print(f"TF_REATTACH_PROVIDERS='{{json.dumps(told)}}'", flush=True)

def answer(connection):
    while connection.recv(100):
        connection.sendall(str(os.getpid()).encode())

while True:
    threading.Thread(target=answer, args=(listener.accept()[0],)).start()
"""


@pytest.fixture
def server(tmp_path: Path) -> Iterator[ProviderServers]:
    executable = tmp_path / "provider"
    executable.write_text(PROVIDER.format(python=sys.executable))
    executable.chmod(0o755)
    running = ProviderServers(executable, tmp_path / "logs")
    yield running
    running.stop()


def connect(address: str) -> socket.socket:
    (described,) = json.loads(address).values()
    connection = socket.socket(socket.AF_UNIX)
    try:
        connection.connect(described["Addr"]["String"])
    except OSError:
        connection.close()
        raise
    return connection


def process_of(connection: socket.socket) -> int:
    connection.sendall(b"who?")
    return int(connection.recv(100))


def lives(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    return True


def test_connections_at_once_have_a_process_each_and_the_next_one_takes_one_over(
    server: ProviderServers,
) -> None:
    with connect(server.address) as first, connect(server.address) as second:
        processes = {process_of(first), process_of(second)}
        assert len(processes) == 2
        assert process_of(first) in processes
    give_up = time.monotonic() + 10
    taken_over = False
    # It takes a moment until it is seen that the others are closed.
    while not taken_over and time.monotonic() < give_up:
        time.sleep(0.1)
        with connect(server.address) as third:
            taken_over = process_of(third) in processes
    assert taken_over


def test_who_only_looks_whether_somebody_listens_costs_no_process(
    server: ProviderServers, tmp_path: Path
) -> None:
    with connect(server.address) as used:
        process_of(used)
        for _ in range(3):
            connect(server.address).close()
        time.sleep(0.5)
        assert len(list((tmp_path / "logs").iterdir())) == 1


def test_nothing_runs_after_the_end(server: ProviderServers) -> None:
    address = server.address
    with connect(address) as first, connect(address) as second:
        processes = [process_of(first), process_of(second)]
        assert all(map(lives, processes))
        server.stop()
    assert not any(map(lives, processes))
    with pytest.raises(FileNotFoundError):
        connect(address)


def test_a_provider_that_does_not_start_is_told_of_with_its_words(tmp_path: Path) -> None:
    executable = tmp_path / "provider"
    executable.write_text("#!/bin/sh\necho out of luck >&2\nexit 3\n")
    executable.chmod(0o755)
    server = ProviderServers(executable, tmp_path / "logs")
    try:
        with pytest.raises(TerraformError, match="out of luck"):
            _ = server.address
    finally:
        server.stop()
