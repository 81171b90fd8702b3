/* Repeated blocks: those found in models, that instances are alike, and that no long one is overlooked in random
 * words. */
#include <stdlib.h>

#include "base/random.h"
#include "passes/facts/blocks.h"
#include "tests/planner_models.h"
#include "tests/test.h"

typedef struct Case {
  Arena *a;
  Diags *d;
  Module *m;
  const Func *f;
  Blocks b;
} Case;

static Case blocks_of(const char *text) {
  Case c = {.a = arena_new()};
  c.d = diags_new(c.a);
  c.m = ir_parse("model.ir", text, c.d);
  CHECK(c.m != NULL);
  if (!c.m) {
    diags_print(c.d, stderr, false);
    exit(1);
  }
  c.f = module_func(c.m, "main");
  c.b = blocks_find(c.a, c.f);
  return c;
}

static void done(Case *c) {
  module_free(c->m);
  arena_free(c->a);
}

/* The promise of blocks.h, without the code of blocks.c: places agree with blocks, kinds and types are equal, operands
 * correspond. */
static void check_alike(const Case *c) {
  size_t inside = 0;
  for (int b = 0; b < c->b.n; b++)
    for (int i = 0; i < c->b.items[b].size * c->b.items[b].instances; i++, inside++) {
      const Block *k = &c->b.items[b];
      BlockPlace here = c->b.places[k->ops[i]];
      CHECK(here.block == b && here.instance == i / k->size && here.index == i % k->size);
      const Op *x = &c->f->ops.items[k->ops[here.index]], *y = &c->f->ops.items[k->ops[i]];
      CHECK(x->kind == y->kind && x->nin == y->nin);
      if (x->out) CHECK(type_of(c->f, x->out) == type_of(c->f, y->out));
      for (int j = 0; j < x->nin; j++) {
        BlockPlace p = c->b.places[c->f->values.items[x->in[j]].op], q = c->b.places[c->f->values.items[y->in[j]].op];
        bool pin = p.block == b && p.instance == 0, qin = q.block == b && q.instance == here.instance;
        CHECK(pin == qin && (!pin || p.index == q.index));
        CHECK(type_of(c->f, x->in[j]) == type_of(c->f, y->in[j]));
      }
    }
  size_t placed = 0;
  for (size_t i = 0; i < c->f->ops.n; i++) placed += c->b.places[i].block >= 0;
  CHECK(placed == inside);
}

static const char *name_at(const Case *c, int block, int instance, int index) {
  const Block *b = &c->b.items[block];
  return c->f->ops.items[b->ops[instance * b->size + index]].name;
}

static void layers_of_models_are_blocks(void) {
  Arena *a = arena_new();
  for (int layers = 2; layers <= 24; layers += 11) {
    Case c = blocks_of(mlp_text(a, layers, 8, 16));
    check_alike(&c);
    CHECK(c.b.n == 1 && c.b.items[0].instances == layers && c.b.items[0].size == 8);
    CHECK_STR(name_at(&c, 0, 0, 0), "l0.w1");
    CHECK_STR(name_at(&c, 0, layers - 1, 7), arena_printf(a, "x%d", layers));
    done(&c);
    c = blocks_of(gpt_text(a, &(GptShape){layers, 64, 2, 128, 100, 16, 4}));
    check_alike(&c);
    CHECK(c.b.n == 1 && c.b.items[0].instances == layers);
    CHECK_STR(name_at(&c, 0, 1, c.b.items[0].size - 1), "x2");
    done(&c);
  }
  Case c = blocks_of(gpt_text(a, &(GptShape){1, 64, 2, 128, 100, 16, 4}));
  check_alike(&c);
  CHECK(c.b.n == 0);
  done(&c);
  arena_free(a);
}

/* A function of unary operations, one per letter. */
static const char *word_text(Arena *a, const char *word) {
  static const char *const kinds[] = {"exp", "sin", "tanh"};
  Text t = {.arena = a};
  text_add(&t, "apc.ir 1\nfunc @main level 1 {\n  %v0 = input {name=\"x\"} : f32[4]\n");
  for (int i = 0; word[i]; i++) text_printf(&t, "  %%v%d = %s %%v%d : f32[4]\n", i + 1, kinds[word[i] - 'a'], i);
  text_printf(&t, "  output \"y\" %%v%zu\n}\n", strlen(word));
  return text_str(&t);
}

static bool repeats(const char *s, int period, int n) {
  for (int i = 0; i + period < n; i++)
    if (s[i] != s[i + period]) return false;
  return true;
}

/* True if there is a repetition of 8 letters or more outside all blocks.  Any cut leaves room for that many. */
static bool overlooked(const Case *c, const char *word) {
  int n = (int)strlen(word);
  for (int from = 0; from < n; from++)
    for (int period = 2; from + 2 * period <= n; period++) {
      int length = period < 4 ? 8 + 2 * period : 2 * period, p = 1;
      if (from + length > n || !repeats(word + from, period, length)) continue;
      while (!repeats(word + from, p, length)) p++;
      bool touched = p < 2;
      for (int i = from; i < from + length; i++) touched |= c->b.places[i + 1].block >= 0;
      if (!touched) return true;
    }
  return false;
}

static void random_words(void) {
  Arena *a = arena_new();
  int found = 0;
  for (uint64_t seed = 0; seed < 400; seed++) {
    char word[65] = {0};
    int n = 8 + (int)random_below(seed, 0, 0, 56);
    uint64_t letters = 2 + random_below(seed, 0, 1, 2);
    for (int i = 0; i < n; i++) word[i] = (char)('a' + (int)random_below(seed, 1, (uint64_t)i, letters));
    int copy = 1 + (int)random_below(seed, 0, 2, (uint64_t)n / 2); /* makes long periods likely */
    for (int i = copy; i < n && i < 3 * copy; i++) word[i] = word[i - copy];
    Case c = blocks_of(word_text(a, word));
    check_alike(&c);
    CHECKF(!overlooked(&c, word), "%s", word);
    found += c.b.n;
    done(&c);
  }
  CHECK(found > 200);
  arena_free(a);
}

/* The period abcb is longer than ab: it is the block. */
static void longest_period_first(void) {
  Arena *a = arena_new();
  Case c = blocks_of(word_text(a, "ababababcababababc"));
  CHECK(c.b.n == 1 && c.b.items[0].size == 9 && c.b.items[0].instances == 2);
  done(&c);
  c = blocks_of(word_text(a, "aaaabaaaab"));
  CHECK(c.b.n == 1 && c.b.items[0].size == 5);
  done(&c);
  arena_free(a);
}

/* Equal operations with different operands are no instances; a weight that two instances share is outside. */
static void wiring_and_sharing(void) {
  const char *head =
      "apc.ir 1\nparam \"w\" : f32[4] = zeros\nparam \"u\" : f32[4] = zeros\nfunc @main level 1 {\n  %x = input "
      "{name=\"x\"} : f32[4]\n";
  const char *crossed =
      "  %a0 = exp %x : f32[4]\n  %b0 = sin %a0 : f32[4]\n  %c0 = add %b0, %a0 : f32[4]\n  %y0 = relu %c0 : f32[4]\n"
      "  %a1 = exp %y0 : f32[4]\n  %b1 = sin %a1 : f32[4]\n  %c1 = add %b1, %b1 : f32[4]\n  %y1 = relu %c1 : f32[4]\n  "
      "output \"y\" %y1\n}\n";
  const char *shared =
      "  %w = param {name=\"w\"} : f32[4]\n  %a0 = mul %x, %w : f32[4]\n  %b0 = exp %a0 : f32[4]\n  %c0 = sin %b0 : "
      "f32[4]\n  %y0 = relu %c0 : f32[4]\n"
      "  %a1 = mul %y0, %w : f32[4]\n  %b1 = exp %a1 : f32[4]\n  %c1 = sin %b1 : f32[4]\n  %y1 = relu %c1 : f32[4]\n  "
      "output \"y\" %y1\n}\n";
  Arena *a = arena_new();
  Case c = blocks_of(arena_printf(a, "%s%s", head, crossed));
  CHECK(c.b.n == 0);
  done(&c);
  c = blocks_of(arena_printf(a, "%s%s", head, shared));
  check_alike(&c);
  CHECK(c.b.n == 1 && c.b.items[0].size == 4);
  CHECK(c.b.places[1].block == -1); /* w */
  done(&c);
  arena_free(a);
}

int main(void) {
  RUN(layers_of_models_are_blocks);
  RUN(random_words);
  RUN(longest_period_first);
  RUN(wiring_and_sharing);
  return test_summary();
}
