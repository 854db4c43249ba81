"""What programs read from and write to."""

from ...absent import explain_absent

explain_absent(__name__)
