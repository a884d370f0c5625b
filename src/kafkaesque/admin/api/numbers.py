"""Whole numbers of requests: none is beyond what brokers can write to each other.

What a handler refuses itself, with a sentence that says more, is within these bounds.
"""

from typing import Annotated

import msgspec

_INT32_MAX = 2**31 - 1
_INT64_MAX = 2**63 - 1

#: Of brokers and partitions.
Int32 = Annotated[int, msgspec.Meta(ge=-_INT32_MAX - 1, le=_INT32_MAX)]
Number = Annotated[int, msgspec.Meta(ge=0, le=_INT32_MAX)]
#: Of offsets and times.
Int64 = Annotated[int, msgspec.Meta(ge=-_INT64_MAX - 1, le=_INT64_MAX)]
Unsigned = Annotated[int, msgspec.Meta(ge=0, le=_INT64_MAX)]
