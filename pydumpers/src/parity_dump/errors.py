"""The errors and the warning of this package.

Each message has the form "gerund, object: cause", and says what to do about it.
"""

from __future__ import annotations


class DumpError(Exception):
    """Something that stops a dump; the base of every error this package raises on purpose."""


class DumpExistsError(DumpError):
    """The output folder already holds a dump, and overwriting was not asked for."""


class DumpTooLargeError(DumpError):
    """The dump would grow past ``max_bytes``."""


class DiskFullError(DumpError):
    """The file system has no space (or quota) left; the dump stays marked as incomplete."""


class DumpWarning(UserWarning):
    """A doubt about a dump that goes on: also kept in the manifest under ``warnings``."""
