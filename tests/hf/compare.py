#!/usr/bin/env python3
"""Compares apc with transformers on folders of Hugging Face.

    python3 -m venv /tmp/hf-venv && /tmp/hf-venv/bin/pip install torch transformers
    /tmp/hf-venv/bin/python tests/hf/compare.py build/apc [NAME...]

For each family a tiny model with random weights is written by save_pretrained and imported.  transformers continues a
prompt by 64 greedy tokens; apc must give the same tokens on 1, 2 and 4 ranks (tensor, sequence and pipeline splits),
and logits with a relative L2 error of at most 1e-5.  One request over the whole sequence shows both: if every token is
the argmax of the logits before it, greedy decoding gives these tokens.  The entries with a cache (prefill, then a call
per token) run on one rank.  Prompts of unequal lengths in slots give the tokens of single runs, and those of
transformers' batch padded on the left (--slots: only this).  --record writes the folders and results to tests/hf/folders, which the suite compares
without transformers (agree.py).
"""
import os
import subprocess
import sys
import tempfile

import numpy as np
import torch
import transformers as T

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import folder

PROMPT, NEW = 12, 64
torch.set_num_threads(1)  # the models are tiny


def sizes(**more):
    base = dict(vocab_size=32, hidden_size=16, intermediate_size=24, num_hidden_layers=2, num_attention_heads=4,
                num_key_value_heads=2, max_position_embeddings=128, bos_token_id=1, eos_token_id=2, pad_token_id=0)
    return {**base, **more}


def rope(kind, **more):
    return dict(rope_type=kind, rope_theta=10000.0, **more)


mixture = dict(num_experts=4, num_experts_per_tok=2, moe_intermediate_size=12, head_dim=8)
latent = dict(num_key_value_heads=4, kv_lora_rank=12, qk_nope_head_dim=8, qk_rope_head_dim=4, v_head_dim=6,
              n_routed_experts=4, num_experts_per_tok=2, moe_intermediate_size=12, first_k_dense_replace=1)
yarn = rope("yarn", factor=4.0, original_max_position_embeddings=32)
FAMILIES = {
    "llama2": lambda: T.LlamaConfig(**sizes(num_key_value_heads=4)),
    "llama3": lambda: T.LlamaConfig(**sizes(head_dim=8, tie_word_embeddings=True, rope_parameters=rope(
        "llama3", factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0, original_max_position_embeddings=32))),
    "llama_linear": lambda: T.LlamaConfig(**sizes(attention_bias=True, mlp_bias=True,
                                                  rope_parameters=rope("linear", factor=4.0))),
    "llama_dynamic": lambda: T.LlamaConfig(**sizes(max_position_embeddings=32, head_dim=8,
                                                   rope_parameters=rope("dynamic", factor=4.0))),
    "llama_yarn": lambda: T.LlamaConfig(**sizes(head_dim=8, rope_parameters=yarn)),
    "mistral": lambda: T.MistralConfig(**sizes(sliding_window=8)),
    "qwen2": lambda: T.Qwen2Config(**sizes()),
    "qwen2_window": lambda: T.Qwen2Config(**sizes(use_sliding_window=True, sliding_window=8, max_window_layers=1)),
    "qwen3": lambda: T.Qwen3Config(**sizes(head_dim=8, tie_word_embeddings=True)),
    "gemma2": lambda: T.Gemma2Config(**sizes(head_dim=8, sliding_window=8, query_pre_attn_scalar=12)),
    "gemma3": lambda: T.Gemma3TextConfig(**sizes(head_dim=8, sliding_window=8, query_pre_attn_scalar=12,
                                                 layer_types=["sliding_attention", "full_attention"])),
    "phi3": lambda: T.Phi3Config(**sizes()),
    "phi3_longrope": lambda: T.Phi3Config(**sizes(
        original_max_position_embeddings=32, sliding_window=40,
        rope_parameters=rope("longrope", short_factor=[1.0, 1.5], long_factor=[1.0, 3.0]))),
    "gpt2": lambda: T.GPT2Config(vocab_size=32, n_positions=96, n_embd=16, n_layer=2, n_head=4),
    "mixtral": lambda: T.MixtralConfig(**sizes(num_local_experts=4, num_experts_per_tok=2)),
    "qwen3_moe": lambda: T.Qwen3MoeConfig(**sizes(norm_topk_prob=True, **mixture)),
    "qwen3_moe_mixed": lambda: T.Qwen3MoeConfig(**sizes(norm_topk_prob=False, decoder_sparse_step=2, **mixture)),
    "deepseek2": lambda: T.DeepseekV2Config(**sizes(
        q_lora_rank=None, n_shared_experts=2, topk_method="greedy", rope_parameters=dict(
            mscale=0.7, mscale_all_dim=0.7, **yarn), **latent)),
    "deepseek2_groups": lambda: T.DeepseekV2Config(**sizes(
        q_lora_rank=10, n_shared_experts=1, topk_method="group_limited_greedy", n_group=2, topk_group=1,
        routed_scaling_factor=2.0, **latent)),
}
RANKS = [("cpu", []), ("cpux2", ["--tp", "2"]), ("cpux2", ["--cp", "2"]), ("cpux2", ["--pp", "2"]),
         ("cpux4", ["--tp", "2", "--pp", "2"]), ("cpux4", ["--tp", "2", "--cp", "2"])]


def model(name):
    torch.manual_seed(sum(map(ord, name)))
    c = FAMILIES[name]()
    m = T.AutoModelForCausalLM.from_config(c).eval()
    tied = getattr(c, "tie_word_embeddings", False)
    with torch.no_grad():
        for key, p in m.named_parameters():
            if p.dim() == 1:
                p.copy_(torch.randn_like(p) * 0.2 + (0 if "bias" in key or "gemma" in name else 1))
            else:
                table = "embed" in key or "wte" in key
                p.copy_(torch.randn_like(p) * ((0.4 if tied else 1.0) if table else 0.4))
    return m


def expected(m, cache=False):
    """Greedy tokens and the logits of all; rope_type dynamic and longrope give others with a cache, as old keys keep
    the frequencies of a shorter sequence."""
    prompt = torch.arange(PROMPT)[None] * 7 % 29 + 3
    with torch.no_grad():
        tokens = m.generate(prompt, max_new_tokens=NEW, do_sample=False, eos_token_id=None, pad_token_id=0,
                            use_cache=cache)
        return tokens.numpy(), m(tokens).logits.numpy()


def apc(program, *args):
    r = subprocess.run([program, *args], capture_output=True, text=True)
    if r.returncode:
        raise SystemExit(f"{' '.join(map(str, args))}: exit {r.returncode}\n{r.stderr}")
    return r


def against(got, logits, tokens, prompt=PROMPT):
    """The relative L2 error, and the number of greedy tokens that agree."""
    error = np.linalg.norm(got - logits) / np.linalg.norm(logits)
    want = logits[0, prompt - 1:-1].argmax(-1)  # the tokens, unless frequencies depend on the length
    return error, int((got[0, prompt - 1:-1].argmax(-1) == want).sum())


def whole(program, work, tokens, logits, target, options):
    np.savez(f"{work}/in.npz", tokens=tokens)
    apc(program, "run", f"{work}/m.apc", "--weights", f"{work}/folder", "--target", target, *options, "-q",
        "--inputs", f"{work}/in.npz", "--outputs", f"{work}/out.npz", "--dim", f"batch=1,seq={tokens.shape[1]}")
    return against(np.load(f"{work}/out.npz")["logits"], logits, tokens)


def cached(program, work, tokens):
    """Prefills the prompt and decodes greedily; the number of equal tokens."""
    os.environ["APC_HOME"] = os.path.dirname(os.path.abspath(program))
    sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../python"))
    import apc as package
    made = []
    with package.compile(f"{work}/m.apc", "cpu", defines={"cache": 1, "ctx": 96}, weights=f"{work}/folder",
                         dims={"batch": 1, "seq": PROMPT}) as lm:
        logits = lm(tokens=tokens[:, :PROMPT], at=0, entry="prefill")
        for at in range(PROMPT, PROMPT + NEW):
            made.append(int(logits[0, -1].argmax()))
            logits = lm(tokens=np.array([[made[-1]]]), at=at, entry="decode")
    return int((np.array(made) == tokens[0, PROMPT:]).sum())


LENGTHS = [3, PROMPT, 1, 7]  # of prompts that are continued together
TOGETHER = 20                # tokens for each: transformers computes the cache of phi3_longrope again beyond 32


def prompts():
    return [np.arange(n) * (7 + 2 * i) % 29 + 3 for i, n in enumerate(LENGTHS)]


def padded(m, alone):
    """The tokens by which transformers continues each prompt: one at a time, or all in a batch padded on the left."""
    if alone:
        return [expected_of(m, p[None], None)[0].tolist() for p in prompts()]
    tokens, mask = np.zeros((2, len(LENGTHS), max(LENGTHS)), np.int64)
    for row, p in enumerate(prompts()):
        tokens[row, -len(p):], mask[row, -len(p):] = p, 1
    return expected_of(m, tokens, torch.tensor(mask)).tolist()


def expected_of(m, tokens, mask):
    with torch.no_grad():
        made = m.generate(torch.tensor(tokens), attention_mask=mask, max_new_tokens=TOGETHER, do_sample=False,
                          eos_token_id=None, pad_token_id=0)
    return made[:, tokens.shape[1]:].numpy()


def together(program, work, target, options):
    """Continues the prompts in slots: two are read at once, two in pieces between the steps of the others."""
    os.environ["APC_HOME"] = os.path.dirname(os.path.abspath(program))
    sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../python"))
    import apc as package
    n, later = len(LENGTHS), [2, 3]
    made, at, done = [[] for _ in range(n)], np.zeros(n, np.int64), np.zeros(n, np.int64)
    with package.compile(f"{work}/m.apc", target, defines={"cache": 1, "slots": 1, "ctx": 96},
                         weights=f"{work}/folder", dims={"batch": n}, **options) as lm:
        tokens = np.zeros((n, max(LENGTHS)), np.int64)
        for row in range(2):
            tokens[row, :LENGTHS[row]] = prompts()[row]
        count = np.array([LENGTHS[row] if row not in later else 0 for row in range(n)])
        logits = lm(tokens=tokens, at=at, count=count, entry="extend")
        at, last = at + count, logits[:, -1].argmax(-1)
        while min(map(len, made)) < TOGETHER:
            piece = prompts()[later[0]][at[later[0]]:][:3] if later else []
            if len(piece):
                logits = lm(tokens=piece[None], slot=np.int64(later[0]), at=at[later[0]], entry="admit")
                at[later[0]] += len(piece)
                if at[later[0]] == LENGTHS[later[0]]:
                    last[later.pop(0)] = logits[0, -1].argmax()
            count = np.array([row not in later and len(made[row]) < TOGETHER for row in range(n)], np.int64)
            for row in np.flatnonzero(count):
                made[row].append(int(last[row]))
            logits = lm(tokens=last[:, None], at=at, count=count, entry="step")
            at, last = at + count, np.where(count, logits[:, -1].argmax(-1), last)
    return made


def in_slots(program, name, work, m):
    """Compares prompts in slots with single runs of transformers, and with its padded batch (which has one length for
    the frequencies of rope_type dynamic and longrope); returns the number of differences."""
    alone, batch = padded(m, True), padded(m, False)
    follows = "dynamic" in name or "longrope" in name
    failed = 0
    for target, options in [("cpu", {}), ("cpux2", {"dp": 2}), ("cpux4", {"tp": 2, "cp": 2}), ("cpux2", {"pp": 2})]:
        made = together(program, work, target, options)
        same = made == alone and (follows or made == batch)
        failed += not same
        print(f"{name:18} {target:6} slots {str(options):24} {'' if same else 'DIFFERENT'}", flush=True)
        if not same:
            print(*zip(made, alone, batch), sep="\n")
    return failed


def main():
    record, only_slots = "--record" in sys.argv, "--slots" in sys.argv
    program, *names = [a for a in sys.argv[1:] if not a.startswith("--")]
    worst, failed = 0.0, 0
    for name in names or FAMILIES:
        with tempfile.TemporaryDirectory() as work:
            m = model(name)
            m.save_pretrained(f"{work}/folder", **({"max_shard_size": "4KB"} if name == "llama2" else {}))
            tokens, logits = expected(m)
            if record:
                folder.record(name, f"{work}/folder", T.AutoModelForCausalLM, expected, T.__version__)
                continue
            apc(program, "import-hf", f"{work}/folder", "-o", f"{work}/m.apc")
            if only_slots:
                failed += in_slots(program, name, work, m)
                continue
            for target, options in RANKS:
                error, same = whole(program, work, tokens, logits, target, options)
                worst, bad = max(worst, error), error > 1e-5 or same != NEW
                failed += bad
                print(f"{name:18} {target:6} {' '.join(options):18} {error:.1e} {same}/{NEW}{'  DIFFERENT' * bad}",
                      flush=True)
            same = cached(program, work, expected(m, cache=True)[0])
            failed += same != NEW
            print(f"{name:18} cpu    cache              {same}/{NEW}{'  DIFFERENT' * (same != NEW)}", flush=True)
            failed += in_slots(program, name, work, m)
    print(f"largest relative error {worst:.1e}, {failed} different")
    return failed > 0


if __name__ == "__main__":
    sys.exit(main())
