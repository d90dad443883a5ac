#!/usr/bin/env python3
"""Makes tests/data/oracles/further/*: tiny random models of graphs that the other oracles leave out, with the logits that Hugging Face
transformers computes from them in float64.  Needs torch, transformers and gguf; the results are in the repository, so tests do not.

usage: make_oracles.py OUTPUT_FOLDER
"""
import gzip, json, os, sys
import numpy as np, torch, gguf, transformers
from transformers.models.qwen3_5_moe.configuration_qwen3_5_moe import Qwen3_5MoeTextConfig

V, D, HD, NQ, NKV = 96, 64, 32, 4, 2
COMMON = dict(vocab_size=V, hidden_size=D, num_attention_heads=NQ, num_key_value_heads=NKV, head_dim=HD, max_position_embeddings=512,
              attn_implementation="eager")
LINEAR = dict(linear_key_head_dim=16, linear_value_head_dim=16, linear_num_key_heads=2, linear_num_value_heads=6, linear_conv_kernel_dim=4)
MOE = dict(moe_intermediate_size=48, shared_expert_intermediate_size=80, num_experts=4, num_experts_per_tok=2, num_hidden_layers=4,
           norm_topk_prob=True, experts_implementation="eager")
ROPE = {"rope_type": "default", "rope_theta": 10000.0}


def randomise(model, seed):
    g = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, p in model.named_parameters():
            r = torch.randn(p.shape, generator=g, dtype=torch.float32)
            if name.endswith("norm.weight"):
                plus_one = model.config.model_type.startswith(("qwen3_next", "qwen3_5")) and "linear_attn.norm" not in name
                r = 0.2 * r + (0 if plus_one else 1)
            elif "A_log" in name:
                r = 0.5 * r
            elif p.dim() == 1:
                r = 0.5 * r                                     # biases, dt
            elif "embed" in name:
                r = r
            elif "conv1d" in name:
                r = 0.5 * r
            else:
                r = r * 1.3 / p.shape[-1] ** 0.5
            p.copy_(r.half().float())                           # exact in F16
    return model.double().eval()


def tensors_of(model, arch, legacy=False, fused=False):
    """(name, array, f16?) in GGUF's names and orders."""
    s = {k: v.detach().float().numpy() for k, v in model.state_dict().items()}
    plus = 1.0 if arch in ("qwen35moe", "qwen3next") else 0.0
    second = "post_attention_norm" if plus else "ffn_norm"
    yield "token_embd.weight", s["model.embed_tokens.weight"]
    yield "output_norm.weight", s["model.norm.weight"] + plus
    yield "output.weight", s["lm_head.weight"]
    n_layers = model.config.num_hidden_layers
    for i in range(n_layers):
        p, b = f"model.layers.{i}.", f"blk.{i}."
        get = lambda k: s.get(p + k)
        yield b + "attn_norm.weight", get("input_layernorm.weight") + plus
        yield b + second + ".weight", get("post_attention_layernorm.weight") + plus
        for hf, name in (("q_proj", "attn_q"), ("k_proj", "attn_k"), ("v_proj", "attn_v"), ("o_proj", "attn_output")):
            for part in ("weight", "bias"):
                w = get(f"self_attn.{hf}.{part}")
                if w is None:
                    continue
                if arch == "llama" and hf in ("q_proj", "k_proj"):     # halves to pairs, within each head
                    heads = w.shape[0] // HD
                    w = w.reshape(heads, 2, HD // 2, *w.shape[1:]).swapaxes(1, 2).reshape(w.shape)
                yield b + name + "." + part, w
        for x in "qk":
            w = get(f"self_attn.{x}_norm.weight")
            if w is not None:
                yield b + f"attn_{x}_norm.weight", w + plus
        if get("linear_attn.A_log") is not None:
            hk, hv, dim = 2, 6, 16
            rep = hv // hk
            tile = lambda w: w.reshape(hk, rep, -1).swapaxes(0, 1).reshape(w.shape)             # grouped to tiled heads, rows
            if arch == "qwen3next":
                tile = lambda w: w
                qkvz = get("linear_attn.in_proj_qkvz.weight")
                if legacy:
                    yield b + "ssm_in.weight", qkvz
                else:
                    g = qkvz.reshape(hk, 2 * dim + 2 * rep * dim, D)
                    q, k, v, z = np.split(g, [dim, 2 * dim, (2 + rep) * dim], axis=1)
                    yield b + "attn_qkv.weight", np.concatenate([a.reshape(-1, D) for a in (q, k, v)])
                    yield b + "attn_gate.weight", z.reshape(-1, D)
                yield b + "ssm_ba.weight", get("linear_attn.in_proj_ba.weight")
            else:
                qkv = get("linear_attn.in_proj_qkv.weight")
                n = 2 * hk * dim
                yield b + "attn_qkv.weight", np.concatenate([qkv[:n], tile(qkv[n:])])
                yield b + "attn_gate.weight", tile(get("linear_attn.in_proj_z.weight"))
                yield b + "ssm_beta.weight", tile(get("linear_attn.in_proj_b.weight"))
                yield b + "ssm_alpha.weight", tile(get("linear_attn.in_proj_a.weight"))
            conv = get("linear_attn.conv1d.weight")[:, 0, :]
            n = 2 * hk * dim
            yield b + "ssm_conv1d.weight", np.concatenate([conv[:n], tile(conv[n:])])
            yield b + "ssm_dt.bias", tile(get("linear_attn.dt_bias"))
            yield b + "ssm_a", tile(-np.exp(get("linear_attn.A_log").astype(np.float64)).astype(np.float32))
            yield b + "ssm_norm.weight", get("linear_attn.norm.weight")
            out = get("linear_attn.out_proj.weight")
            yield b + "ssm_out.weight", tile(out.T).T
        for x in ("gate", "up", "down"):
            w = get(f"mlp.{x}_proj.weight")
            if w is not None:
                yield b + f"ffn_{x}.weight", w
            w = get(f"mlp.shared_expert.{x}_proj.weight")
            if w is not None:
                yield b + f"ffn_{x}_shexp.weight", w
        gate_up = get("mlp.experts.gate_up_proj")
        if gate_up is not None:
            yield b + "ffn_gate_inp.weight", get("mlp.gate.weight")
            if fused:
                yield b + "ffn_gate_up_exps.weight", gate_up
            else:
                f = gate_up.shape[1] // 2
                yield b + "ffn_gate_exps.weight", gate_up[:, :f]
                yield b + "ffn_up_exps.weight", gate_up[:, f:]
            yield b + "ffn_down_exps.weight", get("mlp.experts.down_proj")
        w = get("mlp.shared_expert_gate.weight")
        if w is not None:
            yield b + "ffn_gate_inp_shexp.weight", w[0]


def write(path, arch, keys, model, extra=(), **how):
    w = gguf.GGUFWriter(path, arch)
    c = model.config
    w.add_block_count(c.num_hidden_layers)
    w.add_context_length(512)
    w.add_embedding_length(D)
    w.add_vocab_size(V)
    w.add_head_count(NQ)
    w.add_head_count_kv(NKV)
    w.add_key_length(HD)
    w.add_value_length(HD)
    w.add_layer_norm_rms_eps(c.rms_norm_eps)
    w.add_rope_freq_base(10000.0)
    for k, v in keys.items():
        if isinstance(v, str):
            w.add_string(f"{arch}.{k}", v)
        elif isinstance(v, float):
            w.add_float32(f"{arch}.{k}", v)
        elif isinstance(v, list):
            w.add_array(f"{arch}.{k}", v)
        else:
            w.add_uint32(f"{arch}.{k}", v)
    vectors = ("norm", "ssm_conv1d", "ssm_dt", "ssm_a", "ffn_gate_inp", "bias")
    for name, a in list(tensors_of(model, arch, **how)) + list(extra):
        small = a.ndim == 1 or any(v in name for v in vectors if v != "ssm_a") or name.endswith("ssm_a")
        w.add_tensor(name, np.ascontiguousarray(a, dtype=np.float32 if small else np.float16))
    w.write_header_to_file()
    w.write_kv_data_to_file()
    w.write_tensors_to_file()
    w.close()
    data = open(path, "rb").read()
    with gzip.GzipFile(path + ".gz", "wb", 9, mtime=0) as z:
        z.write(data)
    os.remove(path)


def expected(model, seed):
    rng = np.random.default_rng(seed)
    out = {}
    with torch.no_grad():
        for n in (1, 17, 130):
            tokens = [int(x) for x in rng.integers(0, V, n)]
            l = model(torch.tensor([tokens])).logits[0].double()
            top = l.topk(2, dim=-1).values
            at = sorted({p for p in (0, 1, 63, 64, 65, n - 1) if p < n})
            short = lambda t: [float(f"{x:.9g}") for x in t.tolist()]
            out[f"len{n}"] = {"tokens": tokens, "logits": {str(p): short(l[p]) for p in at}, "argmax": l.argmax(-1).tolist(),
                              "lse": short(l.logsumexp(-1)), "margin": short(top[:, 0] - top[:, 1])}
    return {"made_with": {"transformers": transformers.__version__, "torch": torch.__version__}, "sequences": out}


def main(folder):
    os.makedirs(folder, exist_ok=True)
    T = transformers
    delta = {"ssm.conv_kernel": 4, "ssm.state_size": 16, "ssm.group_count": 2, "ssm.time_step_rank": 6, "ssm.inner_size": 96,
             "full_attention_interval": 4, "rope.dimension_count": 8}
    moe = {"expert_count": 4, "expert_used_count": 2, "expert_feed_forward_length": 48, "expert_shared_feed_forward_length": 80}
    partial = dict(ROPE, partial_rotary_factor=0.25)
    dense = dict(COMMON, num_hidden_layers=2, intermediate_size=160)
    freqs = None

    def build(cls, config, seed):
        return randomise(cls(config).float(), seed)

    jobs = []
    m = build(T.Qwen3_5MoeForCausalLM, Qwen3_5MoeTextConfig(**COMMON, **LINEAR, **MOE, rope_parameters=partial), 1)
    jobs.append(("qwen35moe", "qwen35moe", dict(delta, **moe, **{"rope.dimension_sections": [2, 1, 1, 0]}), m, {"fused": True}, ()))
    m = build(T.Qwen3NextForCausalLM, T.Qwen3NextConfig(**COMMON, **LINEAR, **MOE, rope_parameters=partial), 2)
    jobs.append(("qwen3next", "qwen3next", dict(delta, **moe), m, {}, ()))
    jobs.append(("qwen3next-legacy", "qwen3next", dict(delta, **moe), m, {"legacy": True}, ()))
    llama3 = dict(ROPE, rope_type="llama3", factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0, original_max_position_embeddings=64)
    m = build(T.LlamaForCausalLM, T.LlamaConfig(**dense, rope_parameters=llama3), 3)
    plain = 10000.0 ** (-np.arange(0, HD, 2) / HD)
    freqs = (plain / m.model.rotary_emb.inv_freq.double().numpy()).astype(np.float32)
    jobs.append(("llama-rope", "llama", {"feed_forward_length": 160}, m, {}, [("rope_freqs.weight", freqs)]))
    yarn = dict(ROPE, rope_type="yarn", factor=4.0, original_max_position_embeddings=128)
    m = build(T.Qwen3ForCausalLM, T.Qwen3Config(**dense, rope_parameters=yarn), 4)
    jobs.append(("qwen3-yarn", "qwen3", {"feed_forward_length": 160, "rope.scaling.type": "yarn", "rope.scaling.factor": 4.0,
                                        "rope.scaling.original_context_length": 128}, m, {}, ()))
    linear = dict(ROPE, rope_type="linear", factor=2.0)
    c = dict(dense); c.pop("head_dim"); c["hidden_size"] = D
    m = build(T.Qwen2ForCausalLM, T.Qwen2Config(**dict(c, num_attention_heads=NQ), rope_parameters=linear), 5)
    jobs.append(("qwen2-linear", "qwen2", {"feed_forward_length": 160, "rope.scaling.type": "linear", "rope.scaling.factor": 2.0,
                                          "attention.key_length": D // NQ, "attention.value_length": D // NQ}, m, {}, ()))
    m = build(T.MixtralForCausalLM, T.MixtralConfig(**dense, num_local_experts=4, num_experts_per_tok=2, rope_parameters=ROPE,
                                                   sliding_window=None, experts_implementation="eager"), 6)
    jobs.append(("mixtral", "llama", {"feed_forward_length": 160, "expert_count": 4, "expert_used_count": 2}, m, {}, ()))
    for name, arch, keys, m, how, extra in jobs:
        write(os.path.join(folder, name + ".f16.gguf"), arch, keys, m, extra, **how)
        e = expected(m, 7)
        json.dump({"name": name, "architecture": arch, **e}, open(os.path.join(folder, name + ".expected.json"), "w"), separators=(",", ":"))
        print(name, {k: max(v["lse"]) for k, v in e["sequences"].items()})


main(sys.argv[1])
