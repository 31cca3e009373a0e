"""What the code of a scheduler consists of, as runs and studies record it."""

from __future__ import annotations

import msgspec


class CodeRecord(msgspec.Struct, frozen=True, kw_only=True):
    """The code that a scheduler consists of, beside this package and Python itself.

    Attributes
    ----------
    modules
        SHA-256 of each module's file, by the module's name; of the scheduler's own file by the name
        of the file.
    packages
        Version of each installed distribution that these import, and of those that it requires.
    not_covered
        Imports inside functions, whose modules are not among these: module, line and what is
        imported.
    """

    modules: dict[str, str] = {}
    packages: dict[str, str] = {}
    not_covered: tuple[str, ...] = ()

    @property
    def digest(self) -> str:
        """SHA-256 of modules and packages, equal in every process; "" if there are none."""
        from hashlib import sha256

        if not (self.modules or self.packages):
            return ""

        content = msgspec.json.encode([self.modules, self.packages], order="deterministic")
        return sha256(content).hexdigest()

    def changed_modules(self, now: CodeRecord) -> list[str]:
        """Return the names of the modules that are not those of now."""
        return _changed(self.modules, now.modules)

    def changed_packages(self, now: CodeRecord) -> list[str]:
        """Return the names of the distributions whose versions are not those of now."""
        return _changed(self.packages, now.packages)


def _changed(before: dict[str, str], now: dict[str, str]) -> list[str]:
    return [name for name in sorted({*before, *now}) if before.get(name) != now.get(name)]


def not_covered_text(place: str) -> str:
    """Return a sentence about an import that a record does not cover."""
    return (
        f"{place}: this import inside a function is not covered by the digest of the scheduler's "
        "code, so changes to what it loads go unnoticed; import it at the top of the file"
    )
