"""A QR code in a terminal."""

import sys
from collections.abc import Sequence


def show_qr_code(text: str) -> None:
    """Draw a text that a camera reads, two rows of the code to a line."""
    import segno

    segno.make(text, error="m", micro=False).terminal(out=sys.stdout, compact=True)


def show_second_factor(uri: str, recovery_codes: Sequence[str]) -> None:
    """Show what somebody scans, and the codes to write down, if there are any."""
    show_qr_code(uri)
    print(uri)
    if recovery_codes:
        print("\nRecovery codes, each good once where the authenticator is lost:")
        print("\n".join(f"  {each}" for each in recovery_codes), flush=True)
