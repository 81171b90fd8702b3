/* Hand-written programs (tests/proofs), each with the prover's verdict on @rank as @main, and the results of running
 * both.
 *
 * `# EXPECT:` begins with the verdict; the reason, or the open part of a proof, contains the text after it.  Every `#
 * RUN:` line names sizes (n=3) and says `equal` or `differs`: a wrong program must be seen to be wrong, and no proved
 * one may be.  `special` draws zeros of both signs, infinities and NaN, `bits` compares to the bit. */
#include <dirent.h>
#include <math.h>

#include "base/file.h"
#include "base/random.h"
#include "proof/prove.h"
#include "tests/interp_test.h"

static const char folder[] = "tests/proofs";

typedef struct Trial {
  const char *file;
  Arena *arena;
  Module *m;
  Diags *diags;
  Proof proof;
} Trial;

/* ---- running */

typedef struct Ran {
  int64_t *symbols;
  bool special, bits;
} Ran;

static void fill(InterpTensor *t, const Ran *r, InterpDomain domain, uint64_t seed) {
  static const double odd[] = {0.0, -0.0, 1, -1, 0.5, -2, INFINITY, -INFINITY, NAN};
  interp_fill(t, domain, seed, -1, 1);
  for (int64_t i = 0; r->special && dtype_is_float(t->dtype) && i < interp_elements(t); i++)
    t->cells[i].f = odd[random_below(seed, 3, (uint64_t)i, sizeof odd / sizeof *odd)];
}

/* Inputs, and states and weights with random numbers. */
static bool run(const Trial *t, const Ran *r, const char *func, InterpDomain domain, uint64_t seed, InterpResult *out) {
  Module *m = t->m;
  InterpNamed *states = ARENA_ARRAY(t->arena, InterpNamed, m->states.n),
              *params = ARENA_ARRAY(t->arena, InterpNamed, m->params.n);
  InterpOptions o = {.domain = domain, .symbols = r->symbols, .states = states, .params = params, .tolerance = 1e-9};
  for (size_t i = 0; i < m->states.n + m->params.n; i++) {
    bool state = i < m->states.n;
    const Type *type = state ? m->states.items[i].type : m->params.items[i - m->states.n].type;
    InterpNamed *item = state ? &states[o.nstates++] : &params[o.nparams++];
    int64_t dims[MAX_RANK];
    if (!interp_dims(type, r->symbols, dims)) return false;
    item->name = state ? m->states.items[i].name : m->params.items[i - m->states.n].name;
    item->tensor = interp_tensor(t->arena, type->dtype, type->rank, dims);
    fill(&item->tensor, r, domain, seed + 100 + i);
  }
  int n;
  InterpNamed *inputs =
      interp_random_inputs(m, module_func(m, "main"), domain, r->symbols, seed, t->arena, &n, t->diags);
  for (int i = 0; inputs && i < n; i++)
    if (dtype_is_float(inputs[i].tensor.dtype)) fill(&inputs[i].tensor, r, domain, seed + (uint64_t)i);
  return inputs && interp_run(m, module_func(m, func), &o, n, inputs, t->arena, out, t->diags);
}

static bool same(const Trial *t, const Ran *r, InterpDomain domain, const InterpNamed *want, int nwant,
                 const InterpNamed *got, int ngot) {
  bool equal = nwant == ngot;
  for (int i = 0; equal && i < nwant; i++) {
    const InterpTensor *x = interp_find(got, ngot, want[i].name);
    equal = x && interp_equal(&want[i].tensor, x, domain, domain == DOMAIN_MODP || r->bits ? 0 : 1e-9, t->arena, NULL);
  }
  return equal;
}

/* Four draws of numbers, in both domains. */
static bool runs_equal(const Trial *t, const Ran *r) {
  bool equal = true;
  for (uint64_t k = 0; k < 8 && equal; k++) {
    InterpDomain domain = (InterpDomain)(k % 2);
    InterpResult want, got;
    if (domain == DOMAIN_MODP && r->special) continue;
    bool ran = run(t, r, "main", domain, k + 1, &want);
    CHECKF(ran, "%s: @main does not run: %s", t->file, t->diags->n ? t->diags->items[t->diags->n - 1].message : "");
    equal = ran && run(t, r, "rank", domain, k + 1, &got) &&
            same(t, r, domain, want.outputs, want.noutputs, got.outputs, got.noutputs) &&
            same(t, r, domain, want.states, want.nstates, got.states, got.nstates);
  }
  return equal;
}

/* ---- the lines of a file */

static void run_line(const Trial *t, const char *line) {
  Ran r = {.symbols = interp_symbols(t->m, t->arena)};
  char word[64];
  int used, expected = -1;
  for (const char *s = line; sscanf(s, "%63s%n", word, &used) == 1; s += used) {
    char *value = strchr(word, '=');
    if (value) {
      *value = 0;
      int symbol = module_symbol_find(t->m, word);
      CHECKF(symbol >= 0, "%s: no symbol %s", t->file, word);
      if (symbol >= 0) r.symbols[symbol] = atoll(value + 1);
    } else if (strcmp(word, "special") == 0) r.special = true;
    else if (strcmp(word, "bits") == 0) r.bits = true;
    else expected = strcmp(word, "equal") == 0 ? 1 : strcmp(word, "differs") == 0 ? 0 : -1;
  }
  CHECKF(expected >= 0, "%s: neither equal nor differs: %s", t->file, line);
  CHECKF(runs_equal(t, &r) == (expected == 1), "%s: running%s is %s", t->file, line,
         expected == 1 ? "not equal" : "equal");
  bool limited = t->proof.over_reals && (r.special || r.bits);
  CHECKF(t->proof.verdict != PROVED || expected == 1 || limited, "%s: it is proved, and differs with%s", t->file, line);
}

static void expect_line(const Trial *t, const char *line) {
  const Proof *p = &t->proof;
  const char *said = proof_line(t->arena, p);
  size_t n = strcspn(line, ":");
  bool fits =
      strncmp(line, said, n) == 0 && (line[n] ? strstr(said, line + n + 2) != NULL : !said[n] || said[n] == ':');
  CHECKF(fits, "%s: %s at %s, not %s", t->file, said, p->op ? p->op : "no operation", line);
}

/* The next line of the text, without the newline, in `line`. */
static const char *next_line(const Trial *t, const char *text, const char **line) {
  size_t n = strcspn(text, "\n");
  *line = arena_strndup(t->arena, text, n);
  return text[n] ? text + n + 1 : text + n;
}

static void try_file(const char *name) {
  Trial t = {.file = name, .arena = arena_new()};
  t.diags = diags_new(t.arena);
  const char *text = file_read_text(t.diags, t.arena, arena_printf(t.arena, "%s/%s", folder, name), NULL), *line;
  t.m = text ? ir_parse(name, text, t.diags) : NULL;
  bool valid = t.m && verify_module(t.m, t.diags);
  if (!valid) diags_print(t.diags, stderr, false);
  CHECKF(valid, "%s is not valid", name);
  if (valid) {
    int expected = 0, ran = 0;
    t.proof = prove(t.m, module_func(t.m, "main"), module_func(t.m, "rank"));
    for (const char *at = text; *at;) {
      at = next_line(&t, at, &line);
      if (strncmp(line, "# EXPECT: ", 10) == 0) expect_line(&t, line + 10), expected++;
      if (strncmp(line, "# RUN:", 6) == 0) run_line(&t, line + 6), ran++;
    }
    CHECKF(expected == 1 && ran > 0, "%s: %d EXPECT and %d RUN lines", name, expected, ran);
  }
  if (t.m) module_free(t.m);
  arena_free(t.arena);
}

static int is_text(const struct dirent *e) {
  const char *dot = strrchr(e->d_name, '.');
  return dot && strcmp(dot, ".ir") == 0;
}

static const char *only;

static void files(void) {
  struct dirent **names;
  int n = scandir(folder, &names, is_text, alphasort);
  CHECKF(n > 20, "%d files in %s", n, folder);
  for (int i = 0; i < n; i++) {
    if (!only || strstr(names[i]->d_name, only)) try_file(names[i]->d_name);
    free(names[i]);
  }
  if (n >= 0) free(names);
}

int main(int argc, char **argv) {
  if (argc > 1) only = argv[1];
  RUN(files);
  return test_summary();
}
