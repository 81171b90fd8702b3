/* tests/planner_models.h - small models as IR text for the planner's tests: an MLP and a GPT of any depth. */
#ifndef APC_TESTS_PLANNER_MODELS_H
#define APC_TESTS_PLANNER_MODELS_H

#include "base/text.h"

/* x[batch, d] -> relu(x w1 + b1) w2, `layers` times. */
static inline const char *mlp_text(Arena *a, int layers, int d, int hidden) {
  Text t = {.arena = a};
  text_add(&t, "apc.ir 1\nsymbol batch min 1 hint 64\n");
  for (int i = 0; i < layers; i++)
    text_printf(&t,
                "param \"l%d.w1\" : f32[%d, %d] = zeros\nparam \"l%d.b1\" : f32[%d] = zeros\nparam \"l%d.w2\" : "
                "f32[%d, %d] = zeros\n",
                i, d, hidden, i, hidden, i, hidden, d);
  text_printf(&t, "func @main level 1 {\n  %%x0 = input {name=\"x\"} : f32[batch, %d]\n", d);
  for (int i = 0; i < layers; i++) {
    text_printf(&t,
                "  %%l%d.w1 = param {name=\"l%d.w1\"} : f32[%d, %d]\n  %%l%d.b1 = param {name=\"l%d.b1\"} : f32[%d]\n  "
                "%%l%d.w2 = param {name=\"l%d.w2\"} : f32[%d, %d]\n",
                i, i, d, hidden, i, i, hidden, i, i, hidden, d);
    text_printf(&t, "  %%l%d.fc1 = dot %%x%d, %%l%d.w1 {spec=\"bm,mn->bn\"} : f32[batch, %d]\n", i, i, i, hidden);
    text_printf(&t, "  %%l%d.bb = broadcast %%l%d.b1 {dims=[1]} : f32[batch, %d]\n", i, i, hidden);
    text_printf(&t, "  %%l%d.add = add %%l%d.fc1, %%l%d.bb : f32[batch, %d]\n", i, i, i, hidden);
    text_printf(&t, "  %%l%d.act = relu %%l%d.add : f32[batch, %d]\n", i, i, hidden);
    text_printf(&t, "  %%x%d = dot %%l%d.act, %%l%d.w2 {spec=\"bm,mn->bn\"} : f32[batch, %d]\n", i + 1, i, i, d);
  }
  text_printf(&t, "  output \"y\" %%x%d\n}\n", layers);
  return text_str(&t);
}

typedef struct GptShape {
  int layers, d, heads, ffn, vocab, ctx, batch;
} GptShape;

static inline void gpt_param(Text *head, Text *body, const char *name, const char *type) {
  text_printf(head, "param \"%s\" : %s = zeros\n", name, type);
  text_printf(body, "  %%%s = param {name=\"%s\"} : %s\n", name, name, type);
}

/* y = x + broadcast(vector) or x * broadcast(vector), along the last dimension */
static inline void gpt_vector(Text *head, Text *body, Arena *a, const char *name, const char *op, const char *x,
                              const char *out, int n, const char *type) {
  gpt_param(head, body, name, arena_printf(a, "f32[%d]", n));
  text_printf(body, "  %%%s.b = broadcast %%%s {dims=[2]} : %s\n  %%%s = %s %%%s, %%%s.b : %s\n", name, name, type, out,
              op, x, name, type);
}

static inline void gpt_norm(Text *head, Text *body, Arena *a, const char *name, const char *x, int d,
                            const char *type) {
  text_printf(body, "  %%%s.n = norm %%%s {eps=1e-05, kind=\"layer\"} : %s\n", name, x, type);
  gpt_vector(head, body, a, arena_printf(a, "%s.g", name), "mul", arena_printf(a, "%s.n", name),
             arena_printf(a, "%s.s", name), d, type);
  gpt_vector(head, body, a, arena_printf(a, "%s.h", name), "add", arena_printf(a, "%s.s", name), name, d, type);
}

static inline void gpt_layer(Text *head, Text *body, Arena *a, const GptShape *g, int i, const char *x, const char *y) {
  int k = g->d / g->heads;
  const char *sd = arena_printf(a, "f32[batch, seq, %d]", g->d), *sf = arena_printf(a, "f32[batch, seq, %d]", g->ffn);
  const char *l = arena_printf(a, "l%d", i);
  gpt_norm(head, body, a, arena_printf(a, "%s.n1", l), x, g->d, sd);
  for (const char *p = "qkv"; *p; p++) {
    gpt_param(head, body, arena_printf(a, "%s.w%c", l, *p), arena_printf(a, "f32[%d, %d, %d]", g->d, g->heads, k));
    text_printf(body, "  %%%s.%c0 = dot %%%s.n1, %%%s.w%c {spec=\"bsd,dhk->bhsk\"} : f32[batch, %d, seq, %d]\n", l, *p,
                l, l, *p, g->heads, k);
    if (*p == 'q') text_printf(body, "  %%%s.q = reshape %%%s.q0 : f32[batch, %d, 1, seq, %d]\n", l, l, g->heads, k);
  }
  text_printf(body,
              "  %%%s.att = attention %%%s.q, %%%s.k0, %%%s.v0, %%pos, %%pos, %%len {causal=1, scale=0.125} : "
              "f32[batch, %d, 1, seq, %d]\n",
              l, l, l, l, g->heads, k);
  text_printf(body, "  %%%s.o0 = reshape %%%s.att : f32[batch, %d, seq, %d]\n", l, l, g->heads, k);
  gpt_param(head, body, arena_printf(a, "%s.wo", l), arena_printf(a, "f32[%d, %d, %d]", g->heads, k, g->d));
  text_printf(body, "  %%%s.o = dot %%%s.o0, %%%s.wo {spec=\"bhsk,hkd->bsd\"} : %s\n", l, l, l, sd);
  gpt_vector(head, body, a, arena_printf(a, "%s.bo", l), "add", arena_printf(a, "%s.o", l), arena_printf(a, "%s.o1", l),
             g->d, sd);
  text_printf(body, "  %%%s.r = add %%%s, %%%s.o1 : %s\n", l, x, l, sd);
  gpt_norm(head, body, a, arena_printf(a, "%s.n2", l), arena_printf(a, "%s.r", l), g->d, sd);
  gpt_param(head, body, arena_printf(a, "%s.w1", l), arena_printf(a, "f32[%d, %d]", g->d, g->ffn));
  text_printf(body, "  %%%s.f0 = dot %%%s.n2, %%%s.w1 {spec=\"bsd,df->bsf\"} : %s\n", l, l, l, sf);
  gpt_vector(head, body, a, arena_printf(a, "%s.b1", l), "add", arena_printf(a, "%s.f0", l),
             arena_printf(a, "%s.f1", l), g->ffn, sf);
  text_printf(
      body,
      "  %%%s.t0 = mul %%%s.f1, %%%s.f1 : %s\n  %%%s.t1 = tanh %%%s.t0 : %s\n  %%%s.act = mul %%%s.f1, %%%s.t1 : %s\n",
      l, l, l, sf, l, l, sf, l, l, l, sf);
  gpt_param(head, body, arena_printf(a, "%s.w2", l), arena_printf(a, "f32[%d, %d]", g->ffn, g->d));
  text_printf(body, "  %%%s.f2 = dot %%%s.act, %%%s.w2 {spec=\"bsf,fd->bsd\"} : %s\n", l, l, l, sd);
  gpt_vector(head, body, a, arena_printf(a, "%s.b2", l), "add", arena_printf(a, "%s.f2", l),
             arena_printf(a, "%s.f3", l), g->d, sd);
  text_printf(body, "  %%%s = add %%%s.r, %%%s.f3 : %s\n", y, l, l, sd);
}

static inline const char *gpt_text(Arena *a, const GptShape *g) {
  Text head = {.arena = a}, body = {.arena = a};
  const char *sd = arena_printf(a, "f32[batch, seq, %d]", g->d);
  text_printf(&head, "apc.ir 1\nsymbol batch min 1 hint %d\nsymbol seq min 1 hint %d\n", g->batch, g->ctx);
  text_add(&body, "func @main level 1 {\n  %ids = input {name=\"ids\"} : i64[batch, seq]\n");
  text_add(&body, "  %pos = iota {axis=0, start=0} : i64[seq]\n  %len = size {expr=seq} : i64[]\n");
  gpt_param(&head, &body, "wte", arena_printf(a, "f32[%d, %d]", g->vocab, g->d));
  gpt_param(&head, &body, "wpe", arena_printf(a, "f32[%d, %d]", 2 * g->ctx, g->d));
  text_printf(&body, "  %%e0 = gather %%wte, %%ids {axis=0, start=0} : %s\n", sd);
  text_printf(&body,
              "  %%p0 = gather %%wpe, %%pos {axis=0, start=0} : f32[seq, %d]\n  %%p1 = broadcast %%p0 {dims=[1, 2]} : "
              "%s\n  %%x0 = add %%e0, %%p1 : %s\n",
              g->d, sd, sd);
  for (int i = 0; i < g->layers; i++)
    gpt_layer(&head, &body, a, g, i, arena_printf(a, "x%d", i), arena_printf(a, "x%d", i + 1));
  gpt_norm(&head, &body, a, "nf", arena_printf(a, "x%d", g->layers), g->d, sd);
  text_printf(
      &body,
      "  %%logits = dot %%nf, %%wte {spec=\"bsd,vd->bsv\"} : f32[batch, seq, %d]\n  output \"logits\" %%logits\n}\n",
      g->vocab);
  text_add(&head, text_str(&body));
  return text_str(&head);
}

#endif
