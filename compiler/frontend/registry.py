"""Which function lowers which operator: the one table that a new operator is added to."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from .attention import ATTENTION
from .convolutions import CONVOLUTIONS
from .elementwise import ELEMENTWISE
from .lowering import Lowering
from .movement import MOVEMENT
from .products import PRODUCTS
from .recurrent import RECURRENT
from .sampling import SAMPLING

LOWERINGS: Mapping[str, Lowering] = MappingProxyType(
    {**PRODUCTS, **CONVOLUTIONS, **ATTENTION, **RECURRENT, **ELEMENTWISE, **MOVEMENT, **SAMPLING}
)
# Nodes that neither compute nor move anything at run time.
FREE_OPS = frozenset(
    ["BitCast", "Constant", "ConstantOfShape", "Dropout", "Flatten", "Identity"]
    + ["Reshape", "Shape", "Size", "Squeeze", "Unsqueeze"]
)
_DATA_SIZED = "the size of its output depends on data"
_SEQUENCE = "sequences and optional values are not tensors"
_TEXT = "text and compressed images are not numbers"
_TRANSFORM = "the work of a Fourier transform depends on the algorithm, which ONNX leaves open"
_CONTROL = "its path depends on data"
NOT_MODELLED: Mapping[str, str] = MappingProxyType(
    {
        **dict.fromkeys(("Compress", "NonMaxSuppression", "NonZero", "Unique"), _DATA_SIZED),
        **dict.fromkeys(("ConcatFromSequence", "SplitToSequence", "SequenceAt", "SequenceConstruct"), _SEQUENCE),
        **dict.fromkeys(("SequenceEmpty", "SequenceErase", "SequenceInsert", "SequenceLength"), _SEQUENCE),
        **dict.fromkeys(("SequenceMap", "Optional", "OptionalGetElement", "OptionalHasElement"), _SEQUENCE),
        **dict.fromkeys(("ImageDecoder", "RegexFullMatch", "StringConcat", "StringNormalizer"), _TEXT),
        **dict.fromkeys(("StringSplit", "TfIdfVectorizer"), _TEXT),
        **dict.fromkeys(("DFT", "MelWeightMatrix", "STFT"), _TRANSFORM),
        **dict.fromkeys(("If", "Loop", "Scan"), _CONTROL),
    }
)
# Inputs that are biases, by operator.
BIAS_INPUTS: Mapping[str, int] = MappingProxyType(
    {"Conv": 2, "ConvTranspose": 2, "CausalConvWithState": 2, "Gemm": 2, "QLinearConv": 8}
    | {"LSTM": 3, "GRU": 3, "RNN": 3}
)
