"""Values that every room shares: offsets, terms, ids, record batches, errors."""
