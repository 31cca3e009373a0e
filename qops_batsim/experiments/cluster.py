"""Running cases on a Dask cluster that is there already (extra ``dask``)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from qops_batsim.errors import InputError
from qops_batsim.version import __version__

SECONDS = 30
"""Longest wait for the scheduler of the cluster."""


def results_on_cluster(
    address: str,
    make: Callable[[Any, Sequence[Any]], list[tuple[Any, Any]]],
    maker: Any,
    groups: Sequence[Sequence[Any]],
) -> Iterator[tuple[Any, Any]]:
    """Yield what ``make(maker, group)`` returns for each group, as they come.

    ``address`` is that of the cluster's scheduler; its workers have this version of the package.
    """
    try:
        from distributed import Client, as_completed
    except ImportError:
        raise InputError(
            "a Dask cluster needs the package distributed, which is not installed "
            "(pip install 'qops-batsim[dask]')"
        ) from None
    try:
        client = Client(address, timeout=SECONDS, set_as_default=False)
    except (OSError, ValueError, TimeoutError) as error:
        raise InputError(
            f"Dask cluster {address!r}: cannot be reached ({error}); the address of a running "
            "scheduler, as tcp://HOST:8786, is expected"
        ) from None
    with client:
        _check_versions(client, address)
        # Sent once, not with every group.
        shared = client.scatter(maker, broadcast=True, hash=False)
        futures = [client.submit(make, shared, group, pure=False) for group in groups]
        try:
            for future in as_completed(futures, loop=client.loop):
                yield from future.result()
        finally:
            client.cancel(futures)


def _check_versions(client: Any, address: str) -> None:
    versions = client.run(package_version)
    if not versions:
        raise InputError(f"Dask cluster {address!r}: has no workers; at least one is expected")
    for worker, version in versions.items():
        if version != __version__:
            raise InputError(
                f"Dask cluster {address!r}: worker {worker} has qops-batsim {version}; "
                f"{__version__}, as here, is expected"
            )


def package_version() -> str:
    """Return the version of the package where this is called."""
    return __version__
