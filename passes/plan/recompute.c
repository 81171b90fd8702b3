/* passes/plan/recompute.c - see recompute.h. */
#include "passes/plan/recompute.h"

#include <stdlib.h>
#include <string.h>

#include "passes/facts/blocks.h"
#include "passes/facts/derived.h"

static const char *const words[] = {
    [RECOMPUTE_none] = "none", [RECOMPUTE_selective] = "selective", [RECOMPUTE_full] = "full"};

const char *recompute_text(Arena *a, Recompute r) {
  if (r.kind == RECOMPUTE_auto) return NULL;
  return r.kind == RECOMPUTE_layers ? arena_printf(a, "%d", r.layers) : words[r.kind];
}

bool recompute_parse(const char *text, Recompute *out) {
  for (int k = RECOMPUTE_none; k < RECOMPUTE_layers; k++)
    if (strcmp(text, words[k]) == 0) return *out = (Recompute){(RecomputeKind)k, 0}, true;
  char *end;
  long layers = *text >= '0' && *text <= '9' ? strtol(text, &end, 10) : 0;
  if (layers < 1 || *end) return false;
  *out = (Recompute){RECOMPUTE_layers, layers > INT32_MAX ? INT32_MAX : (int)layers};
  return true;
}

typedef struct Choosing {
  const Func *f;
  Blocks blocks;
  const bool *derived;
  int *layer; /* by operation: which repeated layer of the forward pass; -1: none */
  int layers;
  bool *leaves; /* by operation: the forward pass reads it outside of its layer */
  bool *again;
} Choosing;

static bool is_forward(const Op *op) { return op->phase == PH_fwd && !op_is_source(op->kind) && op->out; }

static size_t maker_of(const Func *f, Val v) { return (size_t)f->values.items[v].op; }

/* Layers are the instances of blocks that are of the forward pass, in the function's order. */
static void find_layers(Choosing *w) {
  for (size_t i = 0; i < w->f->ops.n; i++) w->layer[i] = -1;
  for (int b = 0; b < w->blocks.n; b++) {
    const Block *block = &w->blocks.items[b];
    bool forward = true;
    for (int i = 0; i < block->size * block->instances; i++)
      forward &= w->f->ops.items[block->ops[i]].phase == PH_fwd || op_is_source(w->f->ops.items[block->ops[i]].kind);
    for (int i = 0; forward && i < block->size * block->instances; i++)
      w->layer[block->ops[i]] = w->layers + i / block->size;
    if (forward) w->layers += block->instances;
  }
}

static void find_leaving(Choosing *w) {
  for (size_t i = 0; i < w->f->ops.n; i++) {
    const Op *op = &w->f->ops.items[i];
    for (int k = 0; op->phase == PH_fwd && k < op->nin; k++) {
      size_t made = maker_of(w->f, op->in[k]);
      w->leaves[made] |= w->layer[made] != w->layer[i];
    }
  }
  for (size_t i = 0; i < w->f->outputs.n; i++) w->leaves[maker_of(w->f, w->f->outputs.items[i].value)] = true;
}

static Choosing choosing_of(Arena *a, const Func *f) {
  size_t n = f->ops.n + 1;
  Choosing w = {.f = f,
                .blocks = func_has_gradients(f) ? blocks_find(a, f) : (Blocks){0},
                .derived = derived_ops(a, f),
                .layer = ARENA_ARRAY(a, int, n),
                .leaves = ARENA_ARRAY(a, bool, n),
                .again = ARENA_ARRAY(a, bool, n)};
  find_layers(&w);
  find_leaving(&w);
  return w;
}

/* Made in one pass over what is read, or nothing but another order of it. */
static bool is_cheap(OpKind k) {
  bool by_element = op_is_elementwise(k), arranged = op_arranges(k) || k == OP_slice;
  bool joined = k == OP_pad || k == OP_concat, along = k == OP_norm || k == OP_softmax || k == OP_rope;
  return by_element || arranged || joined || along || k == OP_random_keyed;
}

/* A sum behind what is kept is kept in its place, as its gradient does not read what it is a sum of: a bias, a
 * residual.  So a chain of residuals is not followed from its beginning. */
static bool sums_kept(const Choosing *w, const Op *op) {
  bool any = false;
  for (int k = 0; k < op->nin && (op->kind == OP_add || op->kind == OP_sub); k++) {
    size_t made = maker_of(w->f, op->in[k]);
    any |= is_forward(&w->f->ops.items[made]) && !w->derived[made] && !w->again[made];
  }
  return any;
}

static void choose_selective(Choosing *w) {
  for (size_t i = 0; i < w->f->ops.n; i++) {
    const Op *op = &w->f->ops.items[i];
    bool left = w->layer[i] >= 0 && w->leaves[i];
    w->again[i] = is_forward(op) && !w->derived[i] && is_cheap(op->kind) && !left && !sums_kept(w, op);
  }
}

static void choose_layers(Choosing *w, int layers) {
  for (size_t i = 0; i < w->f->ops.n; i++)
    w->again[i] =
        is_forward(&w->f->ops.items[i]) && !w->derived[i] && !w->leaves[i] && w->layer[i] >= 0 && w->layer[i] < layers;
}

/* Only what gradients read, or what is made again for them. */
static void drop_unread(Choosing *w, Arena *a) {
  bool *read = ARENA_ARRAY(a, bool, w->f->ops.n + 1);
  for (size_t i = w->f->ops.n; i-- > 0;) {
    const Op *op = &w->f->ops.items[i];
    w->again[i] &= read[i];
    for (int k = 0; k < op->nin; k++)
      if (phase_backward(op->phase) || w->again[i]) read[maker_of(w->f, op->in[k])] = true;
  }
}

const int *recompute_layer_of(Arena *a, const Func *f, int *layers) {
  Choosing w = choosing_of(a, f);
  *layers = w.layers;
  return w.layer;
}

int recompute_layers(const Func *f) {
  Arena *scratch = arena_new();
  int layers = choosing_of(scratch, f).layers;
  arena_free(scratch);
  return layers;
}

const bool *recompute_ops(Arena *a, const Func *f, Recompute r) {
  Choosing w = choosing_of(a, f);
  if (r.kind == RECOMPUTE_selective) choose_selective(&w);
  if (r.kind == RECOMPUTE_full || r.kind == RECOMPUTE_layers)
    choose_layers(&w, r.kind == RECOMPUTE_full ? w.layers : r.layers);
  drop_unread(&w, a);
  return w.again;
}

static bool is_chosen(const Func *f, const Strategy *strategies, const bool *again) {
  bool same = true;
  for (size_t i = 0; i < f->ops.n; i++) same &= strategies[i].again == again[i];
  return same;
}

const char *recompute_name(Arena *a, const Func *f, const Strategy *strategies) {
  const char *name = NULL;
  Arena *scratch = arena_new();
  int layers = recompute_layers(f);
  for (int i = RECOMPUTE_none; i < RECOMPUTE_layers + layers && !name; i++) {
    Recompute r = i < RECOMPUTE_layers ? (Recompute){(RecomputeKind)i, 0}
                                       : (Recompute){RECOMPUTE_layers, i - RECOMPUTE_layers + 1};
    if (is_chosen(f, strategies, recompute_ops(scratch, f, r))) name = recompute_text(a, r);
  }
  arena_free(scratch);
  return name ? name : "by operation";
}
