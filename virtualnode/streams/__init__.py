"""What a kubelet serves beside the API: logs, exec, attach, port-forward.

`endpoints` answers the requests; a connection is a `pipe` with a session at its inner end, which
speaks WebSocket (`websocket`) in the channels that kubectl and the other clients expect
(`channels`). SPDY, which clients used before 1.31, is declined with a reason.

Invariant: a session ends with its connection, and what it started ends with it.
"""
