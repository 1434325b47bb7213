"""A ring all-reduce over sockets: what a training job does between its steps, without a framework.

Every rank contributes its own number; afterwards every rank holds the sum, checks it and says so.
Ranks find each other through rank 0. All it reads is what any launcher gives: RANK, WORLD_SIZE,
MASTER_ADDR, MASTER_PORT, and POD_IP for the address to be reached at; where the name of rank 0 is
nobody's, FLEET_PEERS_FILE has its address. Standard library only.

    python allreduce.py [--elements N] [--steps N] [--sleep SECONDS]
"""

from __future__ import annotations

import argparse
import array
import json
import os
import socket
import sys
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

CONNECT_S = 60.0


def listen(address: str, port: int = 0) -> socket.socket:
    server = socket.create_server((address, port), reuse_port=False)
    server.settimeout(CONNECT_S)
    return server


def connect(where: Callable[[], tuple[str, int]]) -> socket.socket:
    """Connect, trying again until the other side listens: ranks start in any order."""
    deadline_s = time.monotonic() + CONNECT_S
    while True:
        try:
            return socket.create_connection(where(), timeout=CONNECT_S)
        except OSError:
            if time.monotonic() > deadline_s:
                raise
            time.sleep(0.05)


def receive(sock: socket.socket, size: int) -> bytes:
    parts = []
    while size:
        part = sock.recv(min(size, 1 << 20))
        if not part:
            raise ConnectionError("a neighbour went away")
        parts.append(part)
        size -= len(part)
    return b"".join(parts)


def master() -> tuple[str, int]:
    """Where rank 0 is, by its name or, where that does not resolve, by the file of all ranks."""
    name, port = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])
    try:
        socket.getaddrinfo(name, port)
    except socket.gaierror:
        path = os.environ.get("FLEET_PEERS_FILE")
        if path is None:
            raise
        with open(path, encoding="utf-8") as file:
            ranks = json.load(file)["ranks"]
        return next(each["address"] for each in ranks if each["rank"] == 0) or name, port
    return name, port


def rendezvous(rank: int, world: int, own: tuple[str, int]) -> list[tuple[str, int]]:
    """Everybody's address, by rank: rank 0 collects them and tells all."""
    if rank:
        with connect(master) as sock:
            lines = sock.makefile("rw")
            lines.write(json.dumps([rank, *own]) + "\n")
            lines.flush()
            return [tuple(peer) for peer in json.loads(lines.readline())]
    peers: list[tuple[str, int]] = [("", 0)] * world
    peers[0] = own
    with listen(own[0], int(os.environ["MASTER_PORT"])) as server:
        files = []
        while len(files) < world - 1:
            sock, _ = server.accept()
            lines = sock.makefile("rw")
            other, address, port = json.loads(lines.readline())
            peers[other] = (address, port)
            files.append(lines)
        for lines in files:
            lines.write(json.dumps(peers) + "\n")
            lines.flush()
            lines.close()
    return peers


def all_reduce(
    values: array.array[float], rank: int, world: int, right: socket.socket, left: socket.socket
) -> None:
    """Sum `values` over all ranks, in place: scatter-reduce, then gather, around the ring."""
    bounds = [len(values) * part // world for part in range(world + 1)]

    def exchange(send: int, get: int) -> array.array[float]:
        right.sendall(values[bounds[send] : bounds[send + 1]].tobytes())
        got = array.array("d")
        got.frombytes(receive(left, (bounds[get + 1] - bounds[get]) * 8))
        return got

    for step in range(world - 1):
        send, get = (rank - step) % world, (rank - step - 1) % world
        for at, value in enumerate(exchange(send, get), bounds[get]):
            values[at] += value
    for step in range(world - 1):
        send, get = (rank + 1 - step) % world, (rank - step) % world
        got = exchange(send, get)
        values[bounds[get] : bounds[get + 1]] = got


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--elements", type=int, default=1024)
    parser.add_argument("--steps", type=int, default=1)
    parser.add_argument("--sleep", type=float, default=0.0, help="seconds between steps")
    options = parser.parse_args()
    rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    address = os.environ.get("POD_IP", "127.0.0.1")
    cluster = os.environ.get("FLEET_CLUSTER", "?")
    print(f"rank {rank} of {world} in {cluster} at {address}", flush=True)
    with listen(address) as server:
        peers = rendezvous(rank, world, (address, server.getsockname()[1]))
        right = connect(lambda: peers[(rank + 1) % world])
        left, _ = server.accept()
    expected = world * (world - 1) / 2
    for step in range(options.steps):
        values = array.array("d", [float(rank)] * options.elements)
        if world > 1:
            all_reduce(values, rank, world, right, left)
        if any(value != expected for value in values):
            sys.exit(f"rank {rank}: the sum is {values[0]}, not {expected}")
        print(f"step {step}: sum of ranks over {world} processes: {values[0]:.0f}", flush=True)
        time.sleep(options.sleep)
    right.close()
    left.close()


if __name__ == "__main__":
    main()
