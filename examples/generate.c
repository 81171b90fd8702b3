/* examples/generate.c - generates tokens with a compiled language model, several prompts at once.
 *
 *   apc examples/llama.apc -D cache=1 -D slots=1 --dim batch=8 -o llama
 *   cc -I runtime examples/generate.c build/libapcrt.a -lz -ljansson -lpthread -ldl -lm -o generate
 *   ./generate ./llama --max 32 --temperature 0.8 --top-p 0.9 "1 17 5" "1 8"
 *
 * In: a program with the entries `step` and `admit` of slots (docs/guide/llm.md), and prompts as token ids.  Out: a
 * line "PROMPT ID" for each token as soon as it is known, and "PROMPT end length", "PROMPT end stop" or "PROMPT end
 * full" (the cache has no more room) after the last one.  Prompts are numbered from 0; a stop id is not printed.
 *
 * Each prompt takes a slot of the cache as soon as one is free.  A prompt is read in pieces, one between two steps, so
 * that the others go on.  The answer to a prompt does not depend on the others: prompt i draws from the seed plus i.
 * Not done: text (tokenizers are libraries of their own, examples/serve.py uses one), shared beginnings of prompts.
 */
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "apc_runtime.h"

enum { NO_SLOT = -1 };

typedef struct Ids {
  int64_t *items;
  size_t n;
} Ids;

typedef struct Options {
  const char *program, *weights;
  int64_t most, piece, top_k; /* top_k 0: all */
  double temperature, top_p;  /* temperature 0: the largest logit */
  uint64_t seed;
  Ids stop;
} Options;

typedef struct Prompt {
  Ids ids;
  int64_t made; /* tokens so far */
} Prompt;

/* A sequence in the cache. */
typedef struct Slot {
  int64_t prompt; /* its number; NO_SLOT: the slot is free */
  size_t read;    /* tokens of the prompt that are in the cache */
  int64_t at;     /* tokens in the cache */
  int64_t next;   /* the last token, which is not in the cache yet */
} Slot;

typedef struct Candidate {
  float logit;
  int64_t id;
} Candidate;

typedef struct Run {
  Options o;
  ApcModel *model;
  Prompt *prompts;
  int64_t nprompts, begun; /* begun: those that have or had a slot */
  Slot *slots;
  int64_t nslots, capacity, vocabulary;
  int64_t *tokens, *at, *count; /* inputs of step */
  Candidate *candidates;
} Run;

static void *allocated(size_t n, size_t size) {
  void *p = calloc(n ? n : 1, size);
  if (!p) {
    fprintf(stderr, "error: no memory for %zu elements\n", n);
    exit(APC_FAILED);
  }
  return p;
}

static void usage(const char *why, const char *what) {
  fprintf(stderr,
          "error: %s%s\nusage: generate PROGRAM [options] PROMPT...     a prompt: token ids, \"1 17 5\"\n"
          "  --max N            tokens for each prompt (64)\n"
          "  --temperature T    0: the most likely token (0)\n"
          "  --top-k K          only the K most likely tokens\n"
          "  --top-p P          only the most likely tokens that have the share P together\n"
          "  --seed N           of the random numbers (0)\n"
          "  --stop ID          a token that ends a prompt's answer; repeatable\n"
          "  --piece N          tokens of a prompt that are read at once (64)\n"
          "  --weights FILE     a .safetensors file or folder instead of the compiled weights\n",
          why, what);
  exit(APC_USAGE);
}

/* ---- options */

static int64_t whole(const char *option, const char *s, int64_t least) {
  char *end;
  errno = 0;
  long long v = strtoll(s, &end, 10);
  if (end == s || *end || errno || v < least) usage("not a number that is allowed here: ", option);
  return v;
}

static double number(const char *option, const char *s, double most) {
  char *end;
  double v = strtod(s, &end);
  if (end == s || *end || !(v >= 0 && v <= most)) usage("not a number that is allowed here: ", option);
  return v;
}

static void push(Ids *list, int64_t id) {
  int64_t *more = realloc(list->items, (list->n + 1) * sizeof *more);
  if (!more) exit((fprintf(stderr, "error: no memory\n"), APC_FAILED));
  list->items = more, list->items[list->n++] = id;
}

static Ids ids_of(const char *text) {
  Ids ids = {0};
  for (const char *s = text; *s;) {
    char *end;
    errno = 0;
    long long v = strtoll(s, &end, 10);
    if (end == s || errno || v < 0) usage("a prompt is a list of token ids, not ", text);
    push(&ids, v);
    s = end + strspn(end, " ,\n\t");
  }
  if (!ids.n) usage("a prompt has at least one token", "");
  return ids;
}

static void set_option(Options *o, const char *name, const char *value) {
  if (strcmp(name, "--max") == 0) o->most = whole(name, value, 0);
  else if (strcmp(name, "--temperature") == 0) o->temperature = number(name, value, 1e6);
  else if (strcmp(name, "--top-k") == 0) o->top_k = whole(name, value, 1);
  else if (strcmp(name, "--top-p") == 0) o->top_p = number(name, value, 1);
  else if (strcmp(name, "--seed") == 0) o->seed = (uint64_t)whole(name, value, 0);
  else if (strcmp(name, "--stop") == 0) push(&o->stop, whole(name, value, 0));
  else if (strcmp(name, "--piece") == 0) o->piece = whole(name, value, 1);
  else if (strcmp(name, "--weights") == 0) o->weights = value;
  else usage("no such option: ", name);
}

static void read_arguments(Run *r, int argc, char **argv) {
  r->o = (Options){.most = 64, .piece = 64, .top_p = 1};
  r->prompts = allocated((size_t)argc, sizeof *r->prompts);
  for (int i = 1; i < argc; i++) {
    if (strncmp(argv[i], "--", 2) == 0) {
      if (i + 1 == argc) usage("no value for ", argv[i]);
      set_option(&r->o, argv[i], argv[i + 1]);
      i++;
    } else if (!r->o.program) {
      r->o.program = argv[i];
    } else {
      r->prompts[r->nprompts++].ids = ids_of(argv[i]);
    }
  }
  if (!r->o.program || !r->nprompts) usage("a program and at least one prompt are needed", "");
}

/* ---- the program */

static bool find_input(ApcModel *m, const char *entry, const char *name, ApcTensorInfo *info) {
  if (apc_select(m, entry)) return false;
  for (int i = 0; i < apc_inputs(m); i++)
    if (!apc_input_info(m, i, info) && strcmp(info->name, name) == 0) return true;
  return false;
}

/* Reads the number of slots, of positions and of token ids; false if the program has no slots. */
static bool read_program(Run *r) {
  ApcTensorInfo tokens, at, slot, logits;
  ApcModel *m = r->model;
  if (!find_input(m, "admit", "slot", &slot) || !find_input(m, "step", "tokens", &tokens) ||
      !find_input(m, "step", "at", &at) || apc_output_info(m, 0, &logits))
    return false;
  if (slot.rank != 0 || tokens.rank != 2 || at.rank != 1 || logits.rank != 3) return false;
  r->nslots = tokens.dims[0], r->capacity = at.index_below - 1, r->vocabulary = logits.dims[logits.rank - 1];
  return r->nslots > 0 && r->capacity > 0 && r->vocabulary > 0 && logits.type == APC_F32;
}

static int failed(const Run *r) {
  fprintf(stderr, "error: %s\n", apc_error(r->model));
  return 1;
}

static bool check_prompts(const Run *r) {
  for (int64_t i = 0; i < r->nprompts; i++) {
    const Ids *p = &r->prompts[i].ids;
    if ((int64_t)p->n > r->capacity)
      return fprintf(stderr, "error: prompt %" PRId64 " has %zu tokens, and the cache %" PRId64 "\n", i, p->n,
                     r->capacity),
             false;
    for (size_t k = 0; k < p->n; k++)
      if (p->items[k] >= r->vocabulary)
        return fprintf(stderr, "error: prompt %" PRId64 " has the token %" PRId64 ", of %" PRId64 "\n", i, p->items[k],
                       r->vocabulary),
               false;
  }
  return true;
}

/* ---- the choice of a token */

/* The n-th random number in [0, 1) of a seed (Steele et al., "Fast splittable pseudorandom number generators"). */
static double random_number(uint64_t seed, uint64_t n) {
  uint64_t z = seed * 0xd1342543de82ef95u + (n + 1) * 0x9e3779b97f4a7c15u;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return (double)((z ^ (z >> 31)) >> 11) * 0x1p-53;
}

static int64_t largest(const float *logits, int64_t n) {
  int64_t best = 0;
  for (int64_t i = 1; i < n; i++)
    if (logits[i] > logits[best]) best = i;
  return best;
}

static int by_logit(const void *a, const void *b) {
  const Candidate *x = a, *y = b;
  if (x->logit != y->logit) return x->logit < y->logit ? 1 : -1;
  return x->id < y->id ? -1 : 1;
}

/* The share of a candidate before it is divided by the sum of all. */
static double weight(const Run *r, const Candidate *c, float most) {
  return exp(((double)c->logit - (double)most) / r->o.temperature);
}

/* Orders the candidates by logit and returns how many of them top-k and top-p leave. */
static int64_t limit(const Run *r, float most) {
  Candidate *c = r->candidates;
  int64_t n = r->vocabulary;
  double sum = 0, share = 0;
  if (!r->o.top_k && r->o.top_p >= 1) return n;
  qsort(c, (size_t)n, sizeof *c, by_logit);
  if (r->o.top_k && r->o.top_k < n) n = r->o.top_k;
  for (int64_t i = 0; i < n; i++) sum += weight(r, &c[i], most);
  for (int64_t i = 0; i < n && r->o.top_p < 1; i++)
    if ((share += weight(r, &c[i], most)) >= r->o.top_p * sum) return i + 1;
  return n;
}

static int64_t choose(const Run *r, const float *logits, uint64_t seed, uint64_t made) {
  Candidate *c = r->candidates;
  int64_t best = largest(logits, r->vocabulary);
  double sum = 0, at = 0;
  if (r->o.temperature == 0) return best;
  for (int64_t i = 0; i < r->vocabulary; i++) c[i] = (Candidate){logits[i], i};
  int64_t n = limit(r, logits[best]);
  for (int64_t i = 0; i < n; i++) sum += weight(r, &c[i], logits[best]);
  double drawn = random_number(seed, made) * sum;
  for (int64_t i = 0; i < n; i++)
    if ((at += weight(r, &c[i], logits[best])) > drawn) return c[i].id;
  return best;
}

/* ---- slots */

static bool stops(const Options *o, int64_t id) {
  for (size_t i = 0; i < o->stop.n; i++)
    if (o->stop.items[i] == id) return true;
  return false;
}

static void end(Slot *s, const char *why) {
  printf("%" PRId64 " end %s\n", s->prompt, why);
  fflush(stdout);
  s->prompt = NO_SLOT;
}

/* Takes the token that the logits give to the slot's sequence. */
static void take_token(const Run *r, Slot *s, const float *logits) {
  Prompt *p = &r->prompts[s->prompt];
  if (p->made == r->o.most) {
    end(s, "length");
    return;
  }
  s->next = choose(r, logits, r->o.seed + (uint64_t)s->prompt, (uint64_t)p->made);
  if (stops(&r->o, s->next)) {
    end(s, "stop");
    return;
  }
  p->made++;
  printf("%" PRId64 " %" PRId64 "\n", s->prompt, s->next);
  fflush(stdout);
  if (p->made == r->o.most) end(s, "length");
  else if (s->at == r->capacity) end(s, "full");
}

static bool is_reading(const Run *r, const Slot *s) {
  return s->prompt != NO_SLOT && s->read < r->prompts[s->prompt].ids.n;
}

static void fill_slots(Run *r) {
  for (int64_t i = 0; i < r->nslots && r->begun < r->nprompts; i++)
    if (r->slots[i].prompt == NO_SLOT) r->slots[i] = (Slot){.prompt = r->begun++};
}

/* Reads a piece of the prompt that began first. */
static ApcStatus admit(Run *r) {
  ApcModel *m = r->model;
  Slot *s = NULL;
  const void *logits;
  for (int64_t i = 0; i < r->nslots; i++)
    if (is_reading(r, &r->slots[i]) && (!s || r->slots[i].prompt < s->prompt)) s = &r->slots[i];
  if (!s) return APC_OK;
  const Ids *ids = &r->prompts[s->prompt].ids;
  int64_t left = (int64_t)(ids->n - s->read), n = left < r->o.piece ? left : r->o.piece, slot = s - r->slots;
  ApcStatus status = apc_bind_input(m, "tokens", APC_I64, 2, (int64_t[]){1, n}, ids->items + s->read);
  if (!status) status = apc_bind_input(m, "slot", APC_I64, 0, NULL, &slot);
  if (!status) status = apc_bind_input(m, "at", APC_I64, 0, NULL, &s->at);
  if (!status) status = apc_run(m, "admit");
  if (status) return status;
  s->read += (size_t)n, s->at += n;
  if (is_reading(r, s)) return APC_OK;
  status = apc_output_data(m, "logits", &logits);
  if (!status) take_token(r, s, logits);
  return status;
}

/* Gives every sequence whose prompt is read its next token. */
static ApcStatus step(Run *r) {
  ApcModel *m = r->model;
  const void *logits;
  bool any = false;
  for (int64_t i = 0; i < r->nslots; i++) {
    const Slot *s = &r->slots[i];
    bool active = s->prompt != NO_SLOT && !is_reading(r, s);
    r->tokens[i] = active ? s->next : 0, r->at[i] = active || is_reading(r, s) ? s->at : 0, r->count[i] = active;
    any |= active;
  }
  if (!any) return APC_OK;
  ApcStatus status = apc_bind_input(m, "tokens", APC_I64, 2, (int64_t[]){r->nslots, 1}, r->tokens);
  if (!status) status = apc_bind_input(m, "at", APC_I64, 1, &r->nslots, r->at);
  if (!status) status = apc_bind_input(m, "count", APC_I64, 1, &r->nslots, r->count);
  if (!status) status = apc_run(m, "step");
  if (!status) status = apc_output_data(m, "logits", &logits);
  for (int64_t i = 0; i < r->nslots && !status; i++)
    if (r->count[i]) r->slots[i].at++, take_token(r, &r->slots[i], (const float *)logits + i * r->vocabulary);
  return status;
}

static bool is_busy(const Run *r) {
  for (int64_t i = 0; i < r->nslots; i++)
    if (r->slots[i].prompt != NO_SLOT) return true;
  return r->begun < r->nprompts;
}

static int generate(Run *r) {
  if (!read_program(r)) {
    fprintf(stderr,
            "error: %s has no entries step and admit of slots: compile it with -D cache=1 -D slots=1 --dim "
            "batch=SLOTS\n",
            r->o.program);
    return APC_BAD_INPUT;
  }
  if (!check_prompts(r)) return APC_BAD_INPUT;
  r->slots = allocated((size_t)r->nslots, sizeof *r->slots);
  for (int64_t i = 0; i < r->nslots; i++) r->slots[i].prompt = NO_SLOT;
  int64_t **inputs[] = {&r->tokens, &r->at, &r->count};
  for (int i = 0; i < 3; i++) *inputs[i] = allocated((size_t)r->nslots, sizeof **inputs[i]);
  r->candidates = allocated((size_t)r->vocabulary, sizeof *r->candidates);
  while (is_busy(r)) {
    fill_slots(r);
    ApcStatus status = admit(r);
    if (!status) status = step(r);
    if (status) return failed(r), (int)status;
  }
  return 0;
}

int main(int argc, char **argv) {
  Run r = {0};
  read_arguments(&r, argc, argv);
  ApcOptions options = {.weights = r.o.weights};
  ApcStatus status = apc_load(r.o.program, &options, &r.model);
  int code = status ? (failed(&r), (int)status) : generate(&r);
  apc_close(r.model);
  for (int64_t i = 0; i < r.nprompts; i++) free(r.prompts[i].ids.items);
  void *memory[] = {r.prompts, r.slots, r.tokens, r.at, r.count, r.candidates, r.o.stop.items};
  for (size_t i = 0; i < sizeof memory / sizeof *memory; i++) free(memory[i]);
  return code;
}
