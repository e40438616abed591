"""From the `tile` level to instructions: loops unrolled, places found, loads moved ahead, units ordered by tokens."""
