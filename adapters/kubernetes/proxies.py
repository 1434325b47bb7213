"""Through which proxy a server is reached: the kubeconfig's, else the environment's.

As in client-go, `proxy-url` wins, else HTTPS_PROXY, HTTP_PROXY and NO_PROXY count, and loopback
is never proxied by the environment.
"""

from __future__ import annotations

import ipaddress
from urllib.parse import urlsplit
from urllib.request import getproxies_environment, proxy_bypass


def proxy_for(server: str, proxy_url: str) -> str:
    """The proxy's URL, or "" for a direct connection."""
    if proxy_url:
        return proxy_url
    parts = urlsplit(server)
    host = parts.hostname or ""
    if _is_loopback(host):
        return ""
    if proxy_bypass(parts.netloc.rpartition("@")[2]):
        return ""
    proxy = getproxies_environment().get(parts.scheme, "")
    if proxy and "://" not in proxy:
        proxy = f"http://{proxy}"
    return proxy if urlsplit(proxy).scheme in ("http", "https") else ""


def _is_loopback(host: str) -> bool:
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
