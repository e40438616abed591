"""The ONNX front end and the mapper."""

__all__: list[str] = []
