/* passes/plan/recompute.c - see recompute.h. */
#include "passes/plan/recompute.h"

#include <stdlib.h>
#include <string.h>

#include "passes/facts/blocks.h"
#include "passes/facts/derived.h"
#include "passes/facts/zero.h"

static const char *const words[] = {
    [RECOMPUTE_none] = "none", [RECOMPUTE_selective] = "selective", [RECOMPUTE_full] = "full"};

const char *recompute_text(Arena *a, Recompute r) {
  if (r.kind == RECOMPUTE_auto) return NULL;
  if (r.kind == RECOMPUTE_full_layers) return arena_printf(a, "full:%d", r.layers);
  return r.kind == RECOMPUTE_layers ? arena_printf(a, "%d", r.layers) : words[r.kind];
}

bool recompute_parse(const char *text, Recompute *out) {
  for (int k = RECOMPUTE_none; k < RECOMPUTE_layers; k++)
    if (strcmp(text, words[k]) == 0) return *out = (Recompute){(RecomputeKind)k, 0}, true;
  bool full = strncmp(text, "full:", 5) == 0;
  const char *number = text + (full ? 5 : 0);
  char *end;
  long layers = *number >= '0' && *number <= '9' ? strtol(number, &end, 10) : 0;
  if (layers < 1 || *end) return false;
  *out = (Recompute){full ? RECOMPUTE_full_layers : RECOMPUTE_layers, layers > INT32_MAX ? INT32_MAX : (int)layers};
  return true;
}

struct RecomputeChoices {
  const Func *f;
  const bool *derived;
  const bool *form; /* by operation: another form of a state, for example the cast of a weight */
  int *layer;       /* by operation: its repeated layer of the forward pass; -1 if none */
  int layers;
  bool *leaves;    /* by operation: the forward pass reads it outside its layer */
  bool *selective; /* by operation: `selective` recomputes it, if anything reads it */
};

static bool is_forward(const Op *op) { return op->phase == PH_fwd && !op_is_source(op->kind) && op->out; }

static size_t maker_of(const Func *f, Val v) { return (size_t)f->values.items[v].op; }

static const bool *forms_of_states(Arena *a, const Func *f) {
  bool *form = ARENA_ARRAY(a, bool, f->ops.n + 1);
  for (size_t i = 0; i < f->ops.n; i++) {
    const Op *op = &f->ops.items[i];
    size_t made = zero_keeps_elements(op->kind) ? maker_of(f, op->in[0]) : 0;
    form[i] = zero_keeps_elements(op->kind) && (f->ops.items[made].kind == OP_read || form[made]);
  }
  return form;
}

/* Layers are the instances of blocks in the forward pass, in the function's order. */
static void find_layers(RecomputeChoices *w, const Blocks *blocks) {
  for (size_t i = 0; i < w->f->ops.n; i++) w->layer[i] = -1;
  for (int b = 0; b < blocks->n; b++) {
    const Block *block = &blocks->items[b];
    bool forward = true;
    for (int i = 0; i < block->size * block->instances; i++)
      forward &= w->f->ops.items[block->ops[i]].phase == PH_fwd || op_is_source(w->f->ops.items[block->ops[i]].kind);
    for (int i = 0; forward && i < block->size * block->instances; i++)
      w->layer[block->ops[i]] = w->layers + i / block->size;
    if (forward) w->layers += block->instances;
  }
}

static void find_leaving(RecomputeChoices *w) {
  for (size_t i = 0; i < w->f->ops.n; i++) {
    const Op *op = &w->f->ops.items[i];
    for (int k = 0; op->phase == PH_fwd && k < op->nin; k++) {
      size_t made = maker_of(w->f, op->in[k]);
      w->leaves[made] |= w->layer[made] != w->layer[i];
    }
  }
  for (size_t i = 0; i < w->f->outputs.n; i++) w->leaves[maker_of(w->f, w->f->outputs.items[i].value)] = true;
}

/* True for operations that take one pass over their operands, or only rearrange them. */
static bool is_cheap(OpKind k) {
  bool by_element = op_is_elementwise(k), arranged = op_arranges(k) || k == OP_slice;
  bool joined = k == OP_pad || k == OP_concat, along = k == OP_norm || k == OP_softmax || k == OP_rope;
  return by_element || arranged || joined || along || k == OP_random_keyed;
}

/* True for sums of kept values, which are kept instead: the gradient of a sum does not read its operands (a bias, a
 * residual).  So a chain of residuals is not recomputed from its beginning. */
static bool sums_kept(const RecomputeChoices *w, const Op *op) {
  bool any = false;
  for (int k = 0; k < op->nin && (op->kind == OP_add || op->kind == OP_sub); k++) {
    size_t made = maker_of(w->f, op->in[k]);
    any |= is_forward(&w->f->ops.items[made]) && !w->derived[made] && !w->selective[made];
  }
  return any;
}

static void find_selective(RecomputeChoices *w) {
  for (size_t i = 0; i < w->f->ops.n; i++) {
    const Op *op = &w->f->ops.items[i];
    bool left = w->layer[i] >= 0 && w->leaves[i];
    w->selective[i] = is_forward(op) && !w->derived[i] && is_cheap(op->kind) && !left && !sums_kept(w, op);
  }
}

const RecomputeChoices *recompute_choices(Arena *a, const Func *f) {
  size_t n = f->ops.n + 1;
  Blocks blocks = func_has_gradients(f) ? blocks_find(a, f) : (Blocks){0};
  RecomputeChoices *w = ARENA_NEW(a, RecomputeChoices);
  *w = (RecomputeChoices){.f = f,
                          .derived = derived_ops(a, f),
                          .form = forms_of_states(a, f),
                          .layer = ARENA_ARRAY(a, int, n),
                          .leaves = ARENA_ARRAY(a, bool, n),
                          .selective = ARENA_ARRAY(a, bool, n)};
  find_layers(w, &blocks);
  find_leaving(w);
  find_selective(w);
  return w;
}

int recompute_layers(const RecomputeChoices *w) { return w->layers; }

int recompute_layer_of(const RecomputeChoices *w, size_t op) { return w->layer[op]; }

/* True for cheap operations of the first `some` layers and outside layers, and for all inner operations of the first
 * `whole` layers.
 */
static bool is_again(const RecomputeChoices *w, size_t i, int some, int whole) {
  bool inside = w->layer[i] >= 0 && w->layer[i] < whole && !w->leaves[i];
  bool all = inside && is_forward(&w->f->ops.items[i]) && !w->derived[i];
  return all || (w->selective[i] && w->layer[i] < some);
}

/* Drops operations that neither gradients nor recomputed operations read. */
static void drop_unread(const Func *f, bool *again) {
  Arena *scratch = arena_new();
  bool *read = ARENA_ARRAY(scratch, bool, f->ops.n + 1);
  for (size_t i = f->ops.n; i-- > 0;) {
    const Op *op = &f->ops.items[i];
    again[i] &= read[i];
    for (int k = 0; k < op->nin; k++)
      if (phase_backward(op->phase) || again[i]) read[maker_of(f, op->in[k])] = true;
  }
  arena_free(scratch);
}

const bool *recompute_ops(Arena *a, const RecomputeChoices *w, Recompute r) {
  bool *again = ARENA_ARRAY(a, bool, w->f->ops.n + 1), full = r.kind == RECOMPUTE_full;
  int whole = full ? w->layers : r.kind == RECOMPUTE_full_layers ? r.layers : 0;
  int some = r.kind == RECOMPUTE_layers ? r.layers : w->layers;
  if (r.kind == RECOMPUTE_auto || r.kind == RECOMPUTE_none) return again;
  for (size_t i = 0; i < w->f->ops.n; i++) again[i] = is_again(w, i, some, whole);
  drop_unread(w->f, again);
  return again;
}

/* Ignores casts of weights, which may be kept where they would be gathered again. */
static bool is_chosen(const RecomputeChoices *w, const Strategy *strategies, const bool *again) {
  bool same = true;
  for (size_t i = 0; i < w->f->ops.n; i++)
    same &= strategies[i].again == again[i] || (w->form[i] && !strategies[i].again);
  return same;
}

bool recompute_agrees(const Func *f, Recompute r, const Strategy *strategies) {
  if (r.kind == RECOMPUTE_auto) return true;
  Arena *scratch = arena_new();
  const RecomputeChoices *w = recompute_choices(scratch, f);
  bool counted = r.kind == RECOMPUTE_layers || r.kind == RECOMPUTE_full_layers,
       exists = (counted ? r.layers <= w->layers : r.kind != RECOMPUTE_full || w->layers > 0),
       agrees = exists && is_chosen(w, strategies, recompute_ops(scratch, w, r));
  arena_free(scratch);
  return agrees;
}

const char *recompute_name(Arena *a, const RecomputeChoices *w, const Strategy *strategies) {
  const char *name = NULL;
  Arena *scratch = arena_new();
  for (int k = RECOMPUTE_none; k < RECOMPUTE_KINDS && !name; k++) {
    int most = k == RECOMPUTE_layers || k == RECOMPUTE_full_layers ? w->layers : 1;
    for (int layers = 1; layers <= most && !name; layers++) {
      Recompute r = {(RecomputeKind)k, layers};
      if (is_chosen(w, strategies, recompute_ops(scratch, w, r))) name = recompute_text(a, r);
    }
  }
  arena_free(scratch);
  return name ? name : "by operation";
}
