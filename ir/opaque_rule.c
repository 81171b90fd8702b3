/* ir/opaque_rule.c - the text of a rule; see opaque_rule.h.
 *
 * A recursive descent over the text.  Errors leave through a jump with the place of the character.
 */
#include "ir/opaque_rule.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "ir/module.h"

typedef struct Reader {
  Arena *arena;
  const char *text, *at;
  OpaqueRule *r;
  OpaqueFault *fault;
  int depth; /* of parentheses in a size */
  jmp_buf out;
} Reader;

/* ---- characters and words */

static void fail(Reader *k, const char *at, const char *format, ...) __attribute__((format(printf, 3, 4), noreturn));

static void fail(Reader *k, const char *at, const char *format, ...) {
  va_list args;
  va_start(args, format);
  *k->fault = (OpaqueFault){arena_vprintf(k->arena, format, args), (size_t)(at - k->text)};
  va_end(args);
  longjmp(k->out, 1);
}

static void skip(Reader *k) {
  while (*k->at == ' ' || *k->at == '\t') k->at++;
}

static bool accept(Reader *k, const char *word) {
  skip(k);
  size_t n = strlen(word);
  if (strncmp(k->at, word, n) != 0) return false;
  k->at += n;
  return true;
}

static bool starts_name(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
static bool is_digit(char c) { return c >= '0' && c <= '9'; }

/* The length of the name at the place; 0 if there is none. */
static size_t name_length(const char *s) {
  size_t n = 0;
  while (starts_name(s[n]) || (n && is_digit(s[n]))) n++;
  return n;
}

static const char *read_name(Reader *k, const char *what) {
  skip(k);
  size_t n = name_length(k->at);
  if (!n) fail(k, k->at, "expected %s", what);
  const char *name = arena_strndup(k->arena, k->at, n);
  k->at += n;
  return name;
}

static int64_t read_number(Reader *k) {
  char *end;
  errno = 0;
  long long v = strtoll(k->at, &end, 10);
  if (errno) fail(k, k->at, "the number is too large");
  if (starts_name(*end)) fail(k, k->at, "a name begins with a letter");
  k->at = end;
  return v;
}

static int find_name(const OpaqueRule *r, const char *name) {
  for (int i = 0; i < r->nnames; i++)
    if (strcmp(r->names[i].name, name) == 0) return i;
  return -1;
}

/* ---- tensors */

static int add_name(Reader *k, const char *name, bool group, const char *at) {
  int i = find_name(k->r, name);
  if (i >= 0 && k->r->names[i].group != group)
    fail(k, at, "'%s' stands for one dimension in one place and for several (%s..) in another", name, name);
  if (i >= 0) return i;
  if (k->r->nnames == OPAQUE_NAMES) fail(k, at, "more than %d names of dimensions", OPAQUE_NAMES);
  k->r->names[k->r->nnames] = (OpaqueName){.name = name, .group = group, .at = (size_t)(at - k->text)};
  return k->r->nnames++;
}

static OpaqueDim read_joined(Reader *k) {
  OpaqueDim d = {0};
  const char *begin = k->at - 1;
  while (!accept(k, ")")) {
    const char *at = k->at;
    if (d.n == OPAQUE_FACTORS) fail(k, at, "more than %d names in parentheses", OPAQUE_FACTORS);
    const char *name = read_name(k, "the name of a dimension, or )");
    if (strncmp(k->at, "..", 2) == 0) fail(k, at, "%s.. cannot be part of a dimension", name);
    d.names[d.n++] = add_name(k, name, false, at);
  }
  if (d.n == 1) fail(k, begin, "parentheses are for two names or more");
  return d;
}

/* True if a dimension follows. */
static bool at_dim(Reader *k) {
  skip(k);
  return starts_name(*k->at) || is_digit(*k->at) || *k->at == '(';
}

static OpaqueDim read_dim(Reader *k) {
  const char *at = k->at;
  if (accept(k, "(")) return read_joined(k);
  if (is_digit(*k->at)) return (OpaqueDim){.number = read_number(k)};
  const char *name = read_name(k, "the name of a dimension");
  bool group = strncmp(k->at, "..", 2) == 0;
  if (group) k->at += 2;
  return (OpaqueDim){.n = 1, .names = {add_name(k, name, group, at)}};
}

static bool is_group(const OpaqueRule *r, const OpaqueDim *d) { return d->n && r->names[d->names[0]].group; }

static OpaqueTensor read_tensor(Reader *k) {
  OpaqueTensor t = {0};
  skip(k);
  const char *begin = k->at;
  size_t n = name_length(k->at);
  const char *type = arena_strndup(k->arena, k->at, n);
  if (n && (t.typed = dtype_find(type, &t.dtype))) k->at += n;
  int groups = 0;
  for (bool scalar = accept(k, "()"); !scalar && at_dim(k);) {
    const char *at = k->at;
    if (t.n == MAX_RANK) fail(k, at, "more than %d dimensions", MAX_RANK);
    t.dims[t.n] = read_dim(k);
    groups += is_group(k->r, &t.dims[t.n++]);
    if (groups > 1) fail(k, at, "a second name with .. in one tensor: how many dimensions each has is open");
  }
  if (k->at == begin) fail(k, begin, "expected a dimension, or () for a tensor without dimensions");
  return t;
}

static void read_operands(Reader *k) {
  skip(k);
  if (strncmp(k->at, "->", 2) == 0) return;
  do {
    if (k->r->noperands == MAX_OPERANDS) fail(k, k->at, "more than %d operands", MAX_OPERANDS);
    k->r->operands[k->r->noperands++] = read_tensor(k);
  } while (accept(k, ","));
}

static void read_results(Reader *k) {
  do {
    skip(k);
    if (k->r->nresults == MAX_RESULTS) fail(k, k->at, "more than %d results", MAX_RESULTS);
    k->r->results[k->r->nresults++] = read_tensor(k);
  } while (accept(k, ","));
}

/* ---- sizes: a sum of products */

static const SizeText *new_size(Reader *k, SizeText s) {
  SizeText *made = ARENA_NEW(k->arena, SizeText);
  *made = s;
  return made;
}

static const SizeText *read_sum(Reader *k);

static const SizeText *read_factor(Reader *k) {
  enum { DEPTH = 50 };
  skip(k);
  const char *at = k->at;
  if (accept(k, "(")) {
    if (++k->depth > DEPTH) fail(k, at, "more than %d parentheses inside each other", DEPTH);
    const SizeText *s = read_sum(k);
    if (!accept(k, ")")) fail(k, k->at, "expected )");
    k->depth--;
    return s;
  }
  if (is_digit(*at)) return new_size(k, (SizeText){.op = '0', .number = read_number(k)});
  const char *name = read_name(k, "a number, the name of a dimension or an attribute");
  int i = find_name(k->r, name);
  return new_size(k, i < 0 ? (SizeText){.op = 'a', .attribute = name} : (SizeText){.op = 'd', .name = i});
}

static const SizeText *read_product(Reader *k) {
  const SizeText *s = read_factor(k);
  for (;;) {
    char op = accept(k, "*") ? '*' : accept(k, "/") ? '/' : 0;
    if (!op) return s;
    s = new_size(k, (SizeText){.op = op, .left = s, .right = read_factor(k)});
  }
}

static const SizeText *read_sum(Reader *k) {
  const SizeText *s = read_product(k);
  for (;;) {
    char op = accept(k, "+") ? '+' : accept(k, "-") ? '-' : 0;
    if (!op) return s;
    s = new_size(k, (SizeText){.op = op, .left = s, .right = read_product(k)});
  }
}

/* Dimensions that determine an extent stay whole: a rank knows only its part of others. */
static void freeze_in(OpaqueRule *r, const SizeText *s) {
  if (!s) return;
  if (s->op == 'd') r->names[s->name].frozen = true;
  freeze_in(r, s->left);
  freeze_in(r, s->right);
}

/* ---- clauses */

static bool has_name(const OpaqueTensor *t, int name, int *times) {
  *times = 0;
  for (int d = 0; d < t->n; d++)
    for (int i = 0; i < t->dims[d].n; i++) *times += t->dims[d].names[i] == name;
  return *times > 0;
}

static bool in_any_result(const OpaqueRule *r, int name) {
  int times;
  bool any = false;
  for (int i = 0; i < r->nresults; i++) any |= has_name(&r->results[i], name, &times);
  return any;
}

/* frozen: s t, or the name of a reduction. */
static void read_names(Reader *k, const char *word, const char *at) {
  Reduction reduction = RED_NONE;
  bool frozen = strcmp(word, "frozen") == 0;
  if (!frozen && (!reduction_find(word, &reduction) || reduction == RED_ONE || reduction == RED_NONE))
    fail(k, at,
         "'%s:' is no clause; clauses are frozen:, sum:, product:, max:, min:, or:, and:, NAME=SIZE, work=, "
         "scratch= and function=",
         word);
  skip(k);
  do {
    const char *place = k->at, *name = read_name(k, "the name of a dimension");
    int i = find_name(k->r, name);
    if (i < 0) fail(k, place, "no tensor of the rule has the dimension '%s'", name);
    if (!frozen && in_any_result(k->r, i)) fail(k, place, "a result has '%s', so it is not reduced", name);
    if (k->r->names[i].reduction != RED_NONE || k->r->names[i].frozen) fail(k, place, "'%s' has two clauses", name);
    if (!frozen && k->r->reduction != RED_NONE && k->r->reduction != reduction)
      fail(k, at, "%s: and %s: in one rule do not go together", word, reduction_name(k->r->reduction));
    if (!frozen) k->r->reduction = reduction;
    k->r->names[i].frozen = frozen;
    k->r->names[i].reduction = reduction;
    skip(k);
  } while (starts_name(*k->at));
}

static void read_assignment(Reader *k, const char *word, const char *at) {
  if (strcmp(word, "function") == 0) {
    if (k->r->function) fail(k, at, "'function' is given twice");
    k->r->function = read_name(k, "the name of a C function");
    return;
  }
  bool work = strcmp(word, "work") == 0, scratch = strcmp(word, "scratch") == 0;
  int i = find_name(k->r, word);
  if (!work && !scratch && i < 0) fail(k, at, "no tensor of the rule has the dimension '%s'", word);
  if (!work && !scratch && k->r->names[i].group)
    fail(k, at, "%s.. is several dimensions, which have no one size", word);
  const SizeText **to = work ? &k->r->work : scratch ? &k->r->scratch : &k->r->names[i].size;
  if (*to) fail(k, at, "'%s' is given twice", word);
  *to = read_sum(k);
}

static void read_clauses(Reader *k) {
  while (accept(k, ";")) {
    skip(k);
    if (!*k->at) return; /* a semicolon at the end */
    const char *at = k->at, *word = read_name(k, "a clause, such as frozen: k");
    if (accept(k, ":")) read_names(k, word, at);
    else if (accept(k, "=")) read_assignment(k, word, at);
    else fail(k, k->at, "expected : or = after '%s'", word);
  }
  skip(k);
  if (*k->at) fail(k, k->at, "expected a comma, a semicolon or the end of the rule");
}

/* ---- what follows */

static void decide(Reader *k, int i) {
  OpaqueRule *r = k->r;
  OpaqueName *name = &r->names[i];
  int operands = 0, results = 0, most = 0, times;
  for (int o = 0; o < r->noperands; o++) {
    operands += has_name(&r->operands[o], i, &times);
    if (times > most) most = times;
  }
  for (int o = 0; o < r->nresults; o++) {
    results += has_name(&r->results[o], i, &times);
    if (times > most) most = times;
  }
  const char *at = k->text + name->at;
  if (!operands && !name->size && name->group)
    fail(k, at, "only results have %s..: how many dimensions it has is open", name->name);
  if (!operands && !name->size) fail(k, at, "only results have '%s': say its extent, %s=SIZE", name->name, name->name);
  bool cut = name->reduction != RED_NONE || results == r->nresults;
  if (!operands || name->size || most > 1 || !cut) {
    if (name->reduction != RED_NONE)
      fail(k, at, "'%s' cannot be reduced in parts: its extent is given, or a tensor has it twice", name->name);
    name->frozen = true;
  }
}

/* True if an extent depends on itself.  state, by name: 1 while its own extent is followed, 2 afterwards. */
static bool is_circular(const OpaqueRule *r, const SizeText *s, uint8_t *state) {
  if (!s) return false;
  if (s->op != 'd') return is_circular(r, s->left, state) || is_circular(r, s->right, state);
  if (state[s->name]) return state[s->name] == 1;
  state[s->name] = 1;
  bool circular = is_circular(r, r->names[s->name].size, state);
  state[s->name] = 2;
  return circular;
}

static void check_sizes(Reader *k) {
  OpaqueRule *r = k->r;
  uint8_t state[OPAQUE_NAMES] = {0};
  for (int i = 0; i < r->nnames; i++)
    if (is_circular(r, &(SizeText){.op = 'd', .name = i}, state))
      fail(k, k->text + r->names[i].at, "the extent of '%s' depends on itself", r->names[i].name);
}

/* The dimensions of b.. are b0, b1 ... in plans. */
static void check_group_names(Reader *k) {
  const OpaqueRule *r = k->r;
  for (int i = 0; i < r->nnames; i++)
    for (int g = 0; g < r->nnames; g++) {
      size_t n = strlen(r->names[g].name);
      const char *name = r->names[i].name, *digits = name + n;
      if (r->names[g].group && strncmp(name, r->names[g].name, n) == 0 && *digits &&
          strspn(digits, "0123456789") == strlen(digits))
        fail(k, k->text + r->names[i].at, "'%s' is a name for one of the dimensions of %s..", name, r->names[g].name);
    }
}

static void read_rule(Reader *k) {
  if (strlen(k->text) > OPAQUE_TEXT) fail(k, k->text + OPAQUE_TEXT, "a rule has at most %d characters", OPAQUE_TEXT);
  read_operands(k);
  if (!accept(k, "->")) fail(k, k->at, "expected a comma or ->");
  read_results(k);
  read_clauses(k);
  check_group_names(k);
  check_sizes(k);
  for (int i = 0; i < k->r->nnames; i++)
    if (k->r->names[i].reduction == RED_NONE) freeze_in(k->r, k->r->names[i].size);
  for (int i = 0; i < k->r->nnames; i++) decide(k, i);
  for (int i = 0; i < k->r->nnames; i++)
    if (k->r->names[i].frozen && k->r->names[i].reduction != RED_NONE)
      fail(k, k->text + k->r->names[i].at, "'%s' determines an extent, so it cannot be reduced in parts",
           k->r->names[i].name);
}

const OpaqueRule *opaque_rule_parse(Arena *a, const char *text, OpaqueFault *fault) {
  Reader k = {.arena = a, .text = text, .at = text, .r = ARENA_NEW(a, OpaqueRule), .fault = fault};
  k.r->text = text;
  if (setjmp(k.out)) return NULL;
  read_rule(&k);
  return k.r;
}

/* ---- the rules of a module */

static int same_text(const void *key, const void *item) { return strcmp(key, ((const OpaqueRule *)item)->text) == 0; }

const OpaqueRule *opaque_rule_of(Module *m, const char *text) {
  uint64_t h = text ? hash64(text, strlen(text), 0) : 0;
  const OpaqueRule *r = text ? intern_find(&m->interned->opaque_rules, h, text, same_text) : NULL;
  if (r || !text) return r;
  OpaqueFault ignored;
  r = opaque_rule_parse(m->arena, module_string(m, text), &ignored);
  if (r) intern_add(m->arena, &m->interned->opaque_rules, h, (void *)(uintptr_t)r);
  return r;
}

const char *opaque_function(Arena *a, const char *kind, const OpaqueRule *r) {
  if (r && r->function) return r->function;
  char *name = arena_strdup(a, kind);
  for (char *c = name; *c; c++)
    if (!starts_name(*c) && !is_digit(*c)) *c = '_';
  return is_digit(*name) ? arena_printf(a, "_%s", name) : name;
}
