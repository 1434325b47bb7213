"""The demo: a fleet of embedded members, and a story told on it.

`story` is what happens and what must be so after each step; `telling` prints it, one line a step;
`gateway_client` is how the story speaks to the gateway – over HTTPS, as any client would. The
command `fleet demo` puts members and gateway up and has the story told.

Invariant: a line ends with ✓ only when what it says was read back from the gateway.
"""
