"""The package's version, which goes into each manifest; pyproject.toml has the same."""

VERSION = "0.1.0"
