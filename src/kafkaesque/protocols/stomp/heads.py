"""Which heads of frames can be read at once, in place of line by line."""

from __future__ import annotations

import re
from typing import Final

#: What is read at once; most heads have two hundred.
PLAIN_HEAD_BYTES_MAX: Final = 4096
#: What has to be looked at: escapes, CR, NUL, and what is not ASCII.
ODD: Final = re.compile(rb"[^\x01-\x0c\x0e-\x5b\x5d-\x7f]")
