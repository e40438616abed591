"""Language models from the `config.json` that comes with published weights."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path, PurePosixPath
from typing import TypeVar, cast

from pydantic import ValidationError

from .errors import Diagnostic, WorkloadError
from .language_model import Experts, GroupedAttention, LanguageModel, LatentAttention
from .spec import nearest_hint

WITHOUT_EFFECT = frozenset(
    [
        "_name_or_path",
        "architectures",
        "attention_dropout",
        "aux_loss_alpha",
        "auto_map",
        "bos_token_id",
        "eos_token_id",
        "ep_size",
        "experts_per_token",
        "hidden_act",
        "initial_context_length",
        "initializer_range",
        "mlp_dropout",
        "max_window_layers",
        "moe_layer_freq",
        "n_group",
        "norm_topk_prob",
        "num_nextn_predict_layers",
        "output_router_logits",
        "pad_token_id",
        "pretraining_tp",
        "rms_norm_eps",
        "rope_interleave",
        "rope_parameters",
        "rope_scaling",
        "rope_theta",
        "routed_scaling_factor",
        "router_aux_loss_coef",
        "router_jitter_noise",
        "scoring_func",
        "seq_aux",
        "swiglu_limit",
        "topk_group",
        "topk_method",
        "torch_dtype",
        "dtype",
        "transformers_version",
        "use_cache",
        "quantization_config",
        "output_router_logits",
        "layer_types",
    ]
)
"""Keys that change neither sizes nor work as far as the models go, or are read as maps (`quantization_config`, `rope_scaling`)."""

EXPERT_METHODS = {"mxfp4": 4.25}
"""Methods that quantise routed experts alone, with their bits a weight, scales included. Source: OpenAI, gpt-oss model card, 2025."""
MATRIX_METHODS = {"fp8": "fp8", "awq": "int4", "gptq": "int4"}
"""Methods that quantise every matrix of the layers, with the datatype of its weights (AWQ and GPTQ multiply in bf16)."""

KEYS = {
    "num_layers": "num_hidden_layers",
    "vocabulary_size": "vocab_size",
    "num_heads": "num_attention_heads",
    "num_kv_heads": "num_key_value_heads",
    "window_tokens": "sliding_window",
    "top_k": "num_experts_per_tok",
    "num_shared": "n_shared_experts",
    "num_dense_layers": "first_k_dense_replace",
    "query_rank": "q_lora_rank",
    "kv_rank": "kv_lora_rank",
    "nope_dim": "qk_nope_head_dim",
    "rope_dim": "qk_rope_head_dim",
    "value_dim": "v_head_dim",
    "max_tokens": "max_position_embeddings",
}
"""Keys of a `config.json` that are called otherwise here, for messages."""

STRUCTURAL = ("kv_lora_rank", "q_lora_rank", "n_routed_experts", "num_local_experts", "num_experts")
"""Keys of latent attention and experts: a model whose type has none of them is not what its file says."""

DATATYPES = {"bfloat16": "bf16", "float16": "fp16", "float32": "fp32"}
ValueT = TypeVar("ValueT", bool, int, str)


class _Config:
    """A `config.json` that remembers which of its keys were read."""

    def __init__(self, values: Mapping[str, object], file: str) -> None:
        self.values = values
        self.file = file
        self.read: set[str] = set()

    def whole(self, key: str, default: int | None = None) -> int:
        """A whole number."""
        value = self._value(key, default)
        if isinstance(value, bool) or not isinstance(value, int):
            raise self.fault(key, f"{value!r} is not a whole number")
        return value

    def flag(self, key: str, default: bool = False) -> bool:
        """True or false."""
        value = self._value(key, default)
        if not isinstance(value, bool):
            raise self.fault(key, f"{value!r} is neither true nor false")
        return value

    def text(self, key: str, default: str) -> str:
        """Text."""
        value = self._value(key, default)
        if not isinstance(value, str):
            raise self.fault(key, f"{value!r} is not text")
        return value

    def is_given(self, key: str) -> bool:
        """Whether the key is there and not null."""
        self.read.add(key)
        return self.values.get(key) is not None

    def _value(self, key: str, default: object) -> object:
        self.read.add(key)
        value = self.values.get(key)
        if value is None:
            value = default
        if value is None:
            raise self.fault(key, "missing key; every published config.json of this model_type has it")
        return value

    def fault(self, key: str, message: str) -> WorkloadError:
        """The error that a key is wrong."""
        return WorkloadError("", [Diagnostic(file=self.file, line=0, column=0, path=key, message=message)])


def read_language_config(path: str | Path, name: str | None = None) -> LanguageModel:
    """Read a `config.json` of the Hugging Face hub.

    Args:
        path: The file.
        name: Name of the model; when left out, the last part of `_name_or_path`, or else the file's folder.

    Raises:
        WorkloadError: No JSON, an unknown `model_type`, or a key that is missing or wrong; it names them.
        OSError: The file cannot be read.
    """
    file = str(path)
    try:
        parsed: object = json.loads(Path(path).read_text(encoding="utf-8-sig"))
    except (UnicodeDecodeError, json.JSONDecodeError) as error:
        raise WorkloadError("", [_whole_file(file, f"not JSON: {error}")]) from error
    if not isinstance(parsed, dict):
        raise WorkloadError("", [_whole_file(file, "a config.json is a map of keys")])
    values = cast("dict[str, object]", parsed)
    return language_model_of(values, file, name or _published_name(values) or Path(path).resolve().parent.name)


def _published_name(values: Mapping[str, object]) -> str:
    """The name under which weights were published, or the folder that they were saved from; empty where neither is told."""
    found = values.get("_name_or_path")
    return PurePosixPath(found.replace("\\", "/")).name if isinstance(found, str) else ""


def language_model_of(values: Mapping[str, object], file: str, name: str) -> LanguageModel:
    """A model from the keys of a `config.json`; keys that nothing here knows are named in its notes.

    Raises:
        WorkloadError: As `read_language_config`.
    """
    config = _Config(values, file)
    model_type = config.text("model_type", "")
    if model_type not in READERS:
        raise config.fault("model_type", f"unknown model_type '{model_type}'{nearest_hint(model_type, READERS)}")
    try:
        model = READERS[model_type](config, name)
    except ValidationError as error:
        faults = [_key_fault(file, one["loc"], one["msg"], one["input"]) for one in error.errors()]
        raise WorkloadError("", faults) from error
    unknown = sorted(set(values) - config.read - WITHOUT_EFFECT)
    for key in STRUCTURAL:
        if key in unknown and values[key] is not None:
            raise config.fault(
                key, f"models of type '{model_type}' have none; is model_type right, or the key left over?"
            )
    notes = (f"{file}: keys that are not known and were passed over: {', '.join(unknown)}",) if unknown else ()
    return model.model_copy(update={"notes": (*model.notes, *notes)})


def _model(
    config: _Config,
    name: str,
    attention: GroupedAttention | LatentAttention,
    experts: Experts | None = None,
    *,
    has_dense: bool = True,
) -> LanguageModel:
    dtype = config.text("torch_dtype", config.text("dtype", "bfloat16"))
    notes: list[str] = []
    if dtype not in DATATYPES:
        notes.append(f"torch_dtype '{dtype}' is not known; bfloat16 is taken")
    if config.text("hidden_act", "silu") not in ("silu", "swish", "gelu"):
        notes.append(f"activation '{config.text('hidden_act', 'silu')}' is taken for one of the cost of silu")
    if dtype == "float32":
        notes.append("weights are published in float32; they are served in bf16")
    quantised = _matrix_datatype(config)
    if quantised is not None:
        notes.append(f"scales of the {quantised} weights are left out")
    return LanguageModel(
        schema_version=1,
        kind="language_model",
        name="".join(mark if mark.isalnum() or mark in "_.-" else "_" for mark in name) or "model",
        num_layers=config.whole("num_hidden_layers"),
        hidden_size=config.whole("hidden_size"),
        intermediate_size=config.whole("intermediate_size") if has_dense else 0,
        vocabulary_size=config.whole("vocab_size"),
        has_tied_embeddings=config.flag("tie_word_embeddings"),
        has_feed_forward_bias=config.flag("mlp_bias"),
        max_tokens=_max_tokens(config),
        attention=attention,
        experts=experts,
        datatype=quantised or DATATYPES.get(dtype, "bf16"),
        source=config.file,
        notes=tuple(notes),
    )


def _max_tokens(config: _Config) -> int | None:
    """Longest context: what positions are scaled to counts, where the file has the length before.

    Source: recalled: vLLM, `_get_and_verify_max_len`: the factor multiplies the original length (yarn) or the one that the file
    states (linear, dynamic); other kinds state the scaled one.
    """
    stated = config.whole("max_position_embeddings", 0)
    scaling = config.values.get("rope_scaling") or config.values.get("rope_parameters")
    if not stated or not isinstance(scaling, dict):
        return stated or None
    scaling = cast("dict[str, object]", scaling)
    kind, factor = scaling.get("rope_type", scaling.get("type")), scaling.get("factor", 1.0)
    if kind not in ("yarn", "linear", "dynamic"):
        return stated
    original = scaling.get("original_max_position_embeddings", stated) if kind == "yarn" else stated
    if (
        not isinstance(factor, int | float)
        or not isinstance(original, int | float)
        or not 1 <= factor <= 1e6
        or not 1 <= original <= 1e9
    ):
        raise config.fault("rope_scaling", f"factor {factor!r} of {original!r} tokens: numbers from 1 are needed here")
    return max(stated, int(original * factor))


def _quantisation(config: _Config) -> tuple[str, Mapping[str, object]] | None:
    """How the weights are quantised, and what the file says of it; None where they are not."""
    found = config.values.get("quantization_config")
    if found is None:
        return None
    if not isinstance(found, dict):
        raise config.fault("quantization_config", f"{found!r} is not a map of keys")
    values = cast("dict[str, object]", found)
    method = str(values.get("quant_method", ""))
    if method not in (*EXPERT_METHODS, *MATRIX_METHODS):
        known = (*EXPERT_METHODS, *MATRIX_METHODS)
        raise config.fault(
            "quantization_config.quant_method",
            f"unknown method '{method}'{nearest_hint(method, known)}; else leave quantization_config out and name the datatypes "
            "with --quantisation",
        )
    return method, values


def _expert_bits(config: _Config) -> float | None:
    """Bits of a routed expert's weight, where they are not those of all matrices."""
    found = _quantisation(config)
    return None if found is None else EXPERT_METHODS.get(found[0])


def _matrix_datatype(config: _Config) -> str | None:
    """Datatype of the weights of all matrices of the layers, where it is not that of the others."""
    found = _quantisation(config)
    if found is None or found[0] not in MATRIX_METHODS:
        return None
    method, values = found
    bits = values.get("bits", values.get("w_bit", 4))
    if method != "fp8" and bits != 4:
        raise config.fault(
            "quantization_config.bits",
            f"{method} with {bits!r} bits; 4 are known: leave quantization_config out and choose --quantisation int8_weights",
        )
    return MATRIX_METHODS[method]


def _grouped(
    config: _Config,
    *,
    input_bias: bool = False,
    output_bias: bool = False,
    head_norms: bool = False,
    sinks: bool = False,
) -> GroupedAttention:
    heads = config.whole("num_attention_heads")
    if heads < 1:
        raise config.fault("num_attention_heads", f"{heads} is below 1")
    hidden = config.whole("hidden_size")
    if hidden % heads and not config.is_given("head_dim"):
        raise config.fault("hidden_size", f"{hidden} is no multiple of {heads} heads; give head_dim")
    window, windowed = _windows(config)
    return GroupedAttention(
        kind="grouped",
        num_heads=heads,
        num_kv_heads=config.whole("num_key_value_heads", heads),
        head_dim=config.whole("head_dim", hidden // heads),
        has_input_bias=input_bias,
        has_output_bias=output_bias,
        has_head_norms=head_norms,
        has_sinks=sinks,
        window_tokens=window,
        num_windowed_layers=windowed,
    )


def _windows(config: _Config) -> tuple[int | None, int]:
    """Window, and how many layers keep one."""
    # Qwen's files have a window even where it is not used, and it is not unless they say so.
    is_used = config.flag("use_sliding_window", not config.text("model_type", "").startswith("qwen"))
    if not config.is_given("sliding_window") or not is_used:
        return None, 0
    layers = config.whole("num_hidden_layers")
    kinds = config.values.get("layer_types")
    if not isinstance(kinds, list):
        # Qwen's first layers see everything.
        windowed = layers - min(layers, config.whole("max_window_layers", 0))
        return (config.whole("sliding_window"), windowed) if windowed else (None, 0)
    names = [str(kind) for kind in cast("list[object]", kinds)]
    if len(names) != layers:
        raise config.fault("layer_types", f"{len(names)} kinds of layers; num_hidden_layers is {layers}")
    unknown = sorted(set(names) - {"sliding_attention", "full_attention"})
    if unknown:
        raise config.fault(
            "layer_types", f"unknown kind of layer '{unknown[0]}'; known are sliding_attention, full_attention"
        )
    windowed = names.count("sliding_attention")
    return (config.whole("sliding_window"), windowed) if windowed else (None, 0)


def _read_llama(config: _Config, name: str) -> LanguageModel:
    bias = config.flag("attention_bias")
    return _model(config, name, _grouped(config, input_bias=bias, output_bias=bias))


def _read_qwen2(config: _Config, name: str) -> LanguageModel:
    return _model(config, name, _grouped(config, input_bias=True))


def _read_qwen3(config: _Config, name: str) -> LanguageModel:
    bias = config.flag("attention_bias")
    return _model(config, name, _grouped(config, input_bias=bias, output_bias=bias, head_norms=True))


def _read_mixtral(config: _Config, name: str) -> LanguageModel:
    experts = Experts(
        num_experts=config.whole("num_local_experts"),
        top_k=config.whole("num_experts_per_tok"),
        intermediate_size=config.whole("intermediate_size"),
        weight_bits=_expert_bits(config),
    )
    return _model(config, name, _grouped(config), experts, has_dense=False)


def _read_qwen3_moe(config: _Config, name: str) -> LanguageModel:
    if config.whole("decoder_sparse_step", 1) != 1 or config.values.get("mlp_only_layers") not in (None, []):
        raise config.fault("decoder_sparse_step", "models in which only some layers have experts are not supported")
    config.read |= {"mlp_only_layers", "intermediate_size"}
    experts = Experts(
        num_experts=config.whole("num_experts"),
        top_k=config.whole("num_experts_per_tok"),
        intermediate_size=config.whole("moe_intermediate_size"),
        weight_bits=_expert_bits(config),
    )
    bias = config.flag("attention_bias")
    attention = _grouped(config, input_bias=bias, output_bias=bias, head_norms=True)
    return _model(config, name, attention, experts, has_dense=False)


def _read_gpt_oss(config: _Config, name: str) -> LanguageModel:
    experts = Experts(
        num_experts=config.whole("num_local_experts"),
        top_k=config.whole("num_experts_per_tok"),
        intermediate_size=config.whole("intermediate_size"),
        has_bias=True,
        weight_bits=_expert_bits(config),
    )
    bias = config.flag("attention_bias", True)
    attention = _grouped(config, input_bias=bias, output_bias=bias, sinks=True)
    return _model(config, name, attention, experts, has_dense=False)


def _read_deepseek(config: _Config, name: str) -> LanguageModel:
    config.read |= {"num_key_value_heads", "attention_bias", "head_dim", "qk_head_dim"}
    attention = LatentAttention(
        kind="latent",
        num_heads=config.whole("num_attention_heads"),
        query_rank=config.whole("q_lora_rank") if config.is_given("q_lora_rank") else None,
        kv_rank=config.whole("kv_lora_rank"),
        nope_dim=config.whole("qk_nope_head_dim"),
        rope_dim=config.whole("qk_rope_head_dim"),
        value_dim=config.whole("v_head_dim"),
    )
    experts = Experts(
        num_experts=config.whole("n_routed_experts"),
        top_k=config.whole("num_experts_per_tok"),
        intermediate_size=config.whole("moe_intermediate_size"),
        num_shared=config.whole("n_shared_experts", 0),
        num_dense_layers=config.whole("first_k_dense_replace", 0),
        has_router_correction=config.text("topk_method", "") == "noaux_tc",
        weight_bits=_expert_bits(config),
    )
    model = _model(config, name, attention, experts)
    if config.values.get("num_nextn_predict_layers"):
        note = "the multi-token-prediction module (num_nextn_predict_layers) is left out"
        model = model.model_copy(update={"notes": (*model.notes, note)})
    return model


READERS: dict[str, Callable[[_Config, str], LanguageModel]] = {
    "llama": _read_llama,
    "mistral": _read_llama,
    "qwen2": _read_qwen2,
    "qwen3": _read_qwen3,
    "qwen3_moe": _read_qwen3_moe,
    "mixtral": _read_mixtral,
    "gpt_oss": _read_gpt_oss,
    "deepseek_v2": _read_deepseek,
    "deepseek_v3": _read_deepseek,
}
"""What reads each `model_type`; a further one is a function and a line here."""


def _key_fault(file: str, loc: tuple[int | str, ...], message: str, value: object) -> Diagnostic:
    """A fault where the file has it: its key, and the value seen."""
    key = KEYS.get(str(loc[-1]), str(loc[-1])) if loc else ""
    seen = f", not {value!r}" if isinstance(value, int | float | str) else ""
    return Diagnostic(file=file, line=0, column=0, path=key, message=f"{message[:1].lower()}{message[1:]}{seen}")


def _whole_file(file: str, message: str) -> Diagnostic:
    return Diagnostic(file=file, line=0, column=0, path="", message=message)
