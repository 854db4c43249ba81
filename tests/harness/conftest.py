"""What tests of harness cases may ask for: bytes and back, stored snapshots, and questions to the rules."""

from serializer_fixtures import ask, copied, migrate, module, read, rules, stored, write  # noqa: F401 - the fixtures of this folder
