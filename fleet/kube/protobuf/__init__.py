"""Kubernetes' protobuf bodies as the JSON-shaped dicts that everything else works on.

kubectl and every Go client with typed clients send `application/vnd.kubernetes.protobuf`, and do
not try again in JSON when refused. `decode` turns such a body into what Go's encoding/json would
have written for the same object: a body means the same whichever way it came in. Nothing here
encodes, since each of these clients also accepts JSON answers.

- `envelope` opens the frame (`k8s\\0` + runtime.Unknown) and finds the kind;
- `rendering` writes a message as its Go struct would be written;
- `scalars` writes the Go types that have a MarshalJSON of their own;
- `schema` reads the two generated files below.

`descriptors.binpb.gz` and `presence.json.gz` are made by `scripts/generate-protobuf` from the
.proto and Go files of k8s.io/{api, apimachinery, apiextensions-apiserver, kube-aggregator,
metrics} v0.36.3 (Apache-2.0, The Kubernetes Authors). They are read at the first `decode`, not at
import; a message type is compiled when it is first met.

The request decoder of `fleet.apiserver` and of the gateway calls `decode`; whether the result
is a valid object is theirs to find out, as with a JSON body.
"""

from __future__ import annotations

from fleet.kube.protobuf.envelope import MAGIC, MEDIA_TYPE, decode

__all__ = ["MAGIC", "MEDIA_TYPE", "decode"]
