"""The decoder beside Go: every kind, byte for byte what encoding/json writes.

`corpus.tsv.gz` is made by `oracle/main.go` from Kubernetes' own types. The pairs that upstream
keeps in the module k8s.io/api are tried as well where the module is at hand.
"""

from __future__ import annotations

import base64
import gzip
import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from fleet.kube.protobuf import decode
from fleet.kube.protobuf.schema import load

HERE = Path(__file__).parent
MODULE = "k8s.io/api@v0.36.3"


def test_the_corpus_is_written_as_go_writes_it() -> None:
    written_kinds = set()
    lines = gzip.decompress((HERE / "corpus.tsv.gz").read_bytes()).decode().splitlines()
    for line in lines:
        body, text = line.split("\t")
        wanted = json.loads(text)
        written = decode(base64.b64decode(body))
        # As text, so that 1, 1.0 and true differ, and the order of the fields counts.
        assert json.dumps(written) == json.dumps(wanted)
        written_kinds.add((wanted["apiVersion"], wanted["kind"]))
    assert len(lines) > 2000
    # Go registers the kinds of meta.k8s.io under each other group version instead.
    missing = load().kinds().keys() - written_kinds
    assert {api_version for api_version, _ in missing} == {"meta.k8s.io/v1"}


def api_module() -> Path | None:
    """Folder of the module in Go's cache; in CI it is downloaded, elsewhere only looked up."""
    if shutil.which("go") is None:
        return None
    if os.environ.get("CI"):
        run = subprocess.run(
            ["go", "mod", "download", "-json", MODULE],
            check=True, capture_output=True, text=True, cwd="/",
        )  # fmt: skip
        return Path(json.loads(run.stdout)["Dir"])
    run = subprocess.run(
        ["go", "env", "GOMODCACHE"], check=True, capture_output=True, text=True, cwd="/"
    )
    folder = Path(run.stdout.strip(), MODULE)
    return folder if folder.is_dir() else None


@pytest.mark.timeout(300)
def test_upstreams_own_pairs() -> None:
    folder = api_module()
    if folder is None:
        pytest.skip(f"no {MODULE} in Go's module cache: run `go mod download {MODULE}`")
    schema = load()
    compared = 0
    for body in sorted(Path(folder, "testdata").glob("*/*.pb")):
        if body.name.endswith(".after_roundtrip.pb") or ".WatchEvent." in body.name:
            continue
        after = body.with_name(body.name.replace(".pb", ".after_roundtrip.json"))
        wanted = json.loads((after if after.exists() else body.with_suffix(".json")).read_text())
        if schema.message_of(wanted["apiVersion"], wanted["kind"]) is None:
            # An alpha or beta of an older release.
            assert body.parent.name != "HEAD"
            continue
        assert decode(body.read_bytes()) == wanted, body.name
        compared += 1
    assert compared > 700
