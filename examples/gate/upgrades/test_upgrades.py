"""What release 1.0 wrote is read by the code as it is."""

from stateshift.compat.testing import UpgradeCase


class TestOrder(UpgradeCase):
    setup = "orders_v1.py"
    verifier = "orders_v3.py"
    releases = ("1.0",)
