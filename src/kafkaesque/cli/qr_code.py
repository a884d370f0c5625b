"""A QR code in a terminal."""

import sys


def show_qr_code(text: str) -> None:
    """Draw a text that a camera reads, two rows of the code to a line."""
    import segno

    segno.make(text, error="m", micro=False).terminal(out=sys.stdout, compact=True)
