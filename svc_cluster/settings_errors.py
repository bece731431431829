"""Why a process is refused its start: one sentence each, and the exit status that goes with it."""

from __future__ import annotations

from typing import ClassVar, Final

EXIT_CREDENTIAL: Final = 65
EXIT_MISSING_FILE: Final = 66
EXIT_ADDRESS: Final = 69
EXIT_LIMIT: Final = 71
EXIT_DIRECTORY: Final = 73
EXIT_CONFIGURATION: Final = 78
"""Exit statuses of processes that are refused their start, of sysexits.h as far as it has one."""
REFUSED_START: Final = frozenset(
    {
        EXIT_CREDENTIAL,
        EXIT_MISSING_FILE,
        EXIT_ADDRESS,
        EXIT_LIMIT,
        EXIT_DIRECTORY,
        EXIT_CONFIGURATION,
    }
)


class SettingsError(Exception):
    """One sentence that names key, value and remedy."""

    exit_status: ClassVar[int] = EXIT_CONFIGURATION
    """The exit status of the process that is refused its start; every kind of refusal has its
    own."""


class CredentialError(SettingsError):
    """A certificate, key, secret or token is there and cannot be used."""

    exit_status = EXIT_CREDENTIAL


class MissingFileError(SettingsError):
    """A file that the settings name is not there, or must not be read."""

    exit_status = EXIT_MISSING_FILE


class AddressError(SettingsError):
    """An address cannot be listened on."""

    exit_status = EXIT_ADDRESS


class LimitError(SettingsError):
    """The system allows the process too little."""

    exit_status = EXIT_LIMIT


class DirectoryError(SettingsError):
    """A directory cannot be used by this process."""

    exit_status = EXIT_DIRECTORY
