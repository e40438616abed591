"""Language models: published counts of weights, cache sizes, config.json, and what a bad description is told."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tileloom.archdsl import (
    GroupedAttention,
    LanguageModel,
    WorkloadError,
    kept_tokens,
    kv_bytes,
    language_model_of,
    list_language_models,
    load_language_model,
    num_active_weights,
    num_weights,
    read_language_config,
    weight_tensors,
)

# Source: number of parameters that the Hugging Face hub shows for each repository (safetensors metadata).
PUBLISHED_WEIGHTS = {
    "llama3.1_8b": 8_030_261_248,
    "llama3.1_70b": 70_553_706_496,
    "llama3.1_405b": 405_853_388_800,
    "qwen3_32b": 32_762_123_264,
    "mixtral_8x22b": 140_630_071_296,
}
# Source: model cards and technical reports; in billions, as rounded there.
PUBLISHED_BILLIONS = {
    "deepseek_v3": (671.0, 37.0),
    "gpt_oss_120b": (116.83, 5.13),
    "mixtral_8x22b": (141.0, 39.0),
}

LLAMA_8B = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "hidden_size": 4096,
    "intermediate_size": 14336,
    "max_position_embeddings": 131072,
    "num_attention_heads": 32,
    "num_hidden_layers": 32,
    "num_key_value_heads": 8,
    "rope_theta": 500000.0,
    "torch_dtype": "bfloat16",
    "vocab_size": 128256,
}
GPT_OSS_120B = {
    "model_type": "gpt_oss",
    "attention_bias": True,
    "head_dim": 64,
    "hidden_size": 2880,
    "intermediate_size": 2880,
    "layer_types": ["sliding_attention", "full_attention"] * 18,
    "num_attention_heads": 64,
    "num_experts_per_tok": 4,
    "num_hidden_layers": 36,
    "num_key_value_heads": 8,
    "num_local_experts": 128,
    "quantization_config": {"quant_method": "mxfp4"},
    "sliding_window": 128,
    "vocab_size": 201088,
}
DEEPSEEK_V3 = {
    "model_type": "deepseek_v3",
    "first_k_dense_replace": 3,
    "hidden_size": 7168,
    "intermediate_size": 18432,
    "kv_lora_rank": 512,
    "moe_intermediate_size": 2048,
    "n_routed_experts": 256,
    "n_shared_experts": 1,
    "num_attention_heads": 128,
    "num_experts_per_tok": 8,
    "num_hidden_layers": 61,
    "num_key_value_heads": 128,
    "num_nextn_predict_layers": 1,
    "q_lora_rank": 1536,
    "qk_nope_head_dim": 128,
    "qk_rope_head_dim": 64,
    "quantization_config": {"quant_method": "fp8"},
    "topk_method": "noaux_tc",
    "v_head_dim": 128,
    "vocab_size": 129280,
}


@pytest.mark.parametrize("name", sorted(PUBLISHED_WEIGHTS))
def test_weights_add_up_to_the_published_count(name: str) -> None:
    assert num_weights(load_language_model(name)) == PUBLISHED_WEIGHTS[name]


@pytest.mark.parametrize("name", sorted(PUBLISHED_BILLIONS))
def test_weights_and_active_weights_agree_with_the_report(name: str) -> None:
    whole, active = PUBLISHED_BILLIONS[name]
    model = load_language_model(name)
    assert num_weights(model) / 1e9 == pytest.approx(whole, rel=0.003)
    assert num_active_weights(model) / 1e9 == pytest.approx(active, rel=0.015)


def test_weights_of_a_model_are_those_of_its_tensors() -> None:
    model = load_language_model("deepseek_v3")
    assert sum(tensor.num_weights for tensor in weight_tensors(model)) == num_weights(model)
    assert num_weights(model, "router") == 58 * (256 * 7168 + 256)


def test_windowed_layers_keep_their_window_only() -> None:
    model = load_language_model("gpt_oss_120b")
    assert kv_bytes(model, 65_536, 8) == 1_210_318_848
    assert kept_tokens(model, 100) == 36 * 100  # shorter than the window
    assert kept_tokens(model, 129) == 18 * 129 + 18 * 128


def test_llama_caches_128_kib_a_token_in_bf16() -> None:
    assert kv_bytes(load_language_model("llama3.1_8b"), 1, 16) == 131_072


def test_latent_attention_caches_576_elements_a_token_and_layer() -> None:
    assert kv_bytes(load_language_model("deepseek_v3"), 1, 8) == 61 * 576


@pytest.mark.parametrize(
    ("config", "preset"),
    [(LLAMA_8B, "llama3.1_8b"), (GPT_OSS_120B, "gpt_oss_120b"), (DEEPSEEK_V3, "deepseek_v3")],
)
def test_config_json_gives_the_model_of_the_preset(config: dict[str, object], preset: str) -> None:
    found, known = language_model_of(config, "config.json", preset), load_language_model(preset)
    assert weight_tensors(found) == weight_tensors(known)
    assert found.attention == known.attention
    assert found.num_windowed_layers == known.num_windowed_layers
    if preset == "gpt_oss_120b":
        assert found.experts is not None and found.experts.weight_bits == 4.25
    assert found.datatype == known.datatype


def test_unknown_keys_are_named_in_a_note() -> None:
    model = language_model_of({**LLAMA_8B, "num_memory_tokens": 8}, "config.json", "odd")
    assert model.notes == ("config.json: keys that are not known and were passed over: num_memory_tokens",)


def test_model_is_named_as_it_was_published(tmp_path: Path) -> None:
    path = tmp_path / "config.json"
    path.write_text(json.dumps({**LLAMA_8B, "_name_or_path": "meta-llama/Llama-3.1-8B"}), encoding="utf-8")
    assert load_language_model(path).name == "Llama-3.1-8B"
    path.write_text(json.dumps({**LLAMA_8B, "_name_or_path": ""}), encoding="utf-8")
    assert load_language_model(path).name == tmp_path.name


def test_model_is_named_after_the_folder_of_its_config(tmp_path: Path) -> None:
    folder = tmp_path / "my-llama"
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(LLAMA_8B), encoding="utf-8")
    assert load_language_model(folder).name == "my-llama"
    assert read_language_config(folder / "config.json").num_layers == 32


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"model_type": "mamba"}, "config.json: model_type: unknown model_type 'mamba'"),
        ({"model_type": "qwen"}, "did you mean 'qwen"),
        ({"hidden_size": None}, "config.json: hidden_size: missing key"),
        ({"num_attention_heads": 0}, "config.json: num_attention_heads: 0 is below 1"),
        (
            {"hidden_size": 4097, "head_dim": None},
            "config.json: hidden_size: 4097 is no multiple of 32 heads; give head_dim",
        ),
        (
            {"sliding_window": 128, "layer_types": ["sliding_attention"] * 5},
            "config.json: layer_types: 5 kinds of layers; num_hidden_layers is 32",
        ),
        ({"kv_lora_rank": 512}, "config.json: kv_lora_rank: models of type 'llama' have none; is model_type right"),
        ({"num_local_experts": 8}, "config.json: num_local_experts: models of type 'llama' have none"),
        ({"hidden_size": "4096"}, "config.json: hidden_size: '4096' is not a whole number"),
        ({"num_key_value_heads": 5}, "heads 32 is no multiple of kv_heads 5"),
        ({"attention_bias": 1}, "config.json: attention_bias: 1 is neither true nor false"),
        (
            {"num_hidden_layers": -3},
            "config.json: num_hidden_layers: input should be greater than or equal to 1, not -3",
        ),
        ({"sliding_window": 0, "model_type": "mistral"}, "config.json: sliding_window: input should be greater than"),
        ({"quantization_config": "fp8"}, "config.json: quantization_config: 'fp8' is not a map of keys"),
        (
            {"quantization_config": {"quant_method": "gptq", "bits": 8}},
            "leave quantization_config out and choose --quant",
        ),
        ({"rope_scaling": {"type": "yarn", "factor": "x"}}, "config.json: rope_scaling: factor 'x' of 131072 tokens"),
    ],
)
def test_faulty_config_is_told_by_its_key(change: dict[str, object], message: str) -> None:
    with pytest.raises(WorkloadError) as error:
        language_model_of({**LLAMA_8B, **change}, "config.json", "broken")
    assert message in str(error.value)


def test_unknown_quantisation_of_a_config_is_an_error() -> None:
    config = {**DEEPSEEK_V3, "quantization_config": {"quant_method": "hqq"}}
    with pytest.raises(WorkloadError, match=r"quantization_config.quant_method: unknown method 'hqq'"):
        language_model_of(config, "config.json", "odd")


def test_quantised_matrices_of_a_config_have_the_datatype_that_it_names() -> None:
    for method, datatype in (("fp8", "fp8"), ("awq", "int4"), ("gptq", "int4")):
        config = {**LLAMA_8B, "quantization_config": {"quant_method": method}}
        model = language_model_of(config, "config.json", "small")
        assert model.datatype == datatype
        assert f"scales of the {datatype} weights are left out" in model.notes


def test_scaled_positions_lengthen_the_context_where_the_file_has_the_length_before() -> None:
    scaled = [
        ({"type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32768}, 131072),
        ({"rope_type": "linear", "factor": 2}, 65536),
        ({"rope_type": "llama3", "factor": 8.0, "original_max_position_embeddings": 8192}, 32768),
    ]
    for scaling, longest in scaled:
        config = {**LLAMA_8B, "max_position_embeddings": 32768, "rope_scaling": scaling}
        assert language_model_of(config, "config.json", "long").max_tokens == longest


def test_qwen_has_windows_only_where_its_file_says_that_it_uses_them() -> None:
    config = LLAMA_8B | {"model_type": "qwen2", "sliding_window": 4096}
    assert language_model_of(config, "config.json", "qwen").num_windowed_layers == 0
    assert language_model_of(config | {"model_type": "mistral"}, "config.json", "mistral").num_windowed_layers == 32


def test_config_may_begin_with_a_byte_order_mark(tmp_path: Path) -> None:
    path = tmp_path / "config.json"
    path.write_text(json.dumps(LLAMA_8B), encoding="utf-8-sig")
    assert load_language_model(path).num_layers == 32


def test_folder_without_a_config_is_told_so(tmp_path: Path) -> None:
    with pytest.raises(WorkloadError, match="a folder without a config.json; name the file"):
        load_language_model(tmp_path)


def test_unknown_name_gets_the_nearest_preset() -> None:
    with pytest.raises(WorkloadError, match=r"unknown language model 'llama3.1_7b'; did you mean 'llama3.1_"):
        load_language_model("llama3.1_7b")


def test_faults_of_a_file_have_their_places(tmp_path: Path) -> None:
    path = tmp_path / "model.yaml"
    path.write_text(
        "schema_version: 1\nkind: language_model\nname: m\nlayers: 2\nhidden: 64\nvocabulary: 100\nhiden: 3\n"
        "attention: {kind: grouped, heads: 4, kv_heads: 3, head_dim: 16}\nsource: here\n",
        encoding="utf-8",
    )
    with pytest.raises(WorkloadError) as error:
        load_language_model(path)
    text = str(error.value)
    assert f"{path}:7:1: hiden: unknown field; did you mean 'hidden'?" in text
    assert f"{path}:8:" in text and "heads 4 is no multiple of kv_heads 3" in text


def test_every_preset_has_its_own_name() -> None:
    for name in list_language_models():
        model = load_language_model(name)
        assert isinstance(model, LanguageModel)
        assert model.name == name


def test_layers_before_the_first_windowed_one_see_everything() -> None:
    windowed = LLAMA_8B | {"model_type": "qwen2", "sliding_window": 4096, "use_sliding_window": True}
    assert language_model_of(windowed, "config.json", "qwen").attention == replace_windows(32)
    assert language_model_of(windowed | {"max_window_layers": 28}, "config.json", "qwen").attention == replace_windows(
        4
    )
    every = language_model_of(windowed | {"max_window_layers": 32}, "config.json", "qwen").attention
    assert isinstance(every, GroupedAttention) and every.window_tokens is None


def replace_windows(num_layers: int) -> GroupedAttention:
    """Attention of the model above with so many windowed layers."""
    attention = language_model_of(LLAMA_8B | {"model_type": "qwen2"}, "config.json", "qwen").attention
    assert isinstance(attention, GroupedAttention)
    return attention.model_copy(update={"window_tokens": 4096, "num_windowed_layers": num_layers})
