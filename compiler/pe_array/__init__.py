"""Programs for the tensor PE array: the builder and the kernels."""
