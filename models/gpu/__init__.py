"""GPU kernels: times from a chip's description, with published or fitted constants."""
