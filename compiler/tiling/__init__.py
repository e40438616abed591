"""From the `qnn` level to the `tile` level: where tensors stand, how ops are cut, and the loops over their tiles."""
