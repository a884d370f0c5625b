import pytest

from kafkaesque.model.kernel import use_kernel
from kafkaesque.model.murmur2 import partition_for_key
from tests.unit.model.record_helpers import both_kernels

# What `org.apache.kafka.common.utils.Utils.murmur2` returns (signed, as in Java).
JAVA_VALUES = {
    b"21": -973932308,
    b"foobar": -790332482,
    b"a-little-bit-long-string": -985981536,
    b"a-little-bit-longer-string": -1486304829,
    b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8": -58897971,
    b"abc": 479470107,
}


@both_kernels
def test_murmur2_is_what_java_computes(kernel_name: str) -> None:
    with use_kernel(kernel_name) as kernel:
        for key, signed in JAVA_VALUES.items():
            assert kernel.murmur2(key) == signed % 2**32
            assert kernel.murmur2(memoryview(bytearray(key))) == signed % 2**32


@both_kernels
def test_partition_is_the_hash_without_its_sign(kernel_name: str) -> None:
    with use_kernel(kernel_name):
        for key, signed in JAVA_VALUES.items():
            assert partition_for_key(key, 7) == (signed & 0x7FFFFFFF) % 7
        assert partition_for_key(b"", 1) == 0


def test_a_topic_without_partitions_is_refused() -> None:
    with pytest.raises(ValueError, match="at least one partition"):
        partition_for_key(b"key", 0)
