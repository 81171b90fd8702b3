/* frontend/target.c - reads .topo files and finds targets by name; the format is in target.h. */
#include "frontend/target.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/text.h"
#include "frontend/target_lex.h"

typedef struct Link {
  const char *name;
  double bandwidth, latency;
} Link;

typedef struct Block {
  enum { BLOCK_CPU, BLOCK_GPU, BLOCK_NODE, BLOCK_CLUSTER } kind;
  const char *name;
  Loc loc;
  /* devices */
  int cores;
  const char *arch;
  double flops[DT_COUNT], memory_bytes, memory_bandwidth, launch;
  /* nodes and clusters */
  const struct Block *part;
  int count, ranks;
  Link link;
} Block;

typedef struct Reader {
  Diags *d;
  Arena *arena;
  TopoLexer lexer;
  TopoToken t;
  struct { Block **items; size_t n, cap; } blocks;
} Reader;

static const char *const block_words[] = {"cpu", "gpu", "node", "cluster"};

typedef struct Unit {
  const char *name;
  double factor;
} Unit;

static const Unit sizes[] = {{"KB", 1e3},   {"MB", 1e6},       {"GB", 1e9},       {"TB", 1e12}, {"KiB", 1024},
                             {"MiB", 1048576}, {"GiB", 1073741824}, {"TiB", 1099511627776}, {NULL, 0}};
static const Unit rates[] = {{"MB/s", 1e6}, {"GB/s", 1e9}, {"TB/s", 1e12}, {"Mb/s", 125e3}, {"Gb/s", 125e6}, {NULL, 0}};
static const Unit times[] = {{"ns", 1e-9}, {"us", 1e-6}, {"ms", 1e-3}, {"s", 1}, {NULL, 0}};
static const Unit speeds[] = {{"GFLOPS", 1e9}, {"TFLOPS", 1e12}, {"PFLOPS", 1e15}, {NULL, 0}};

/* ---- tokens */

static void next(Reader *r) { r->t = topo_next(&r->lexer); }

static bool wanted(Reader *r, const char *what) {
  if (r->t.kind == TOPO_END) return diag_error(r->d, DIAG_target_syntax, r->t.loc, "expected %s, the file ends here", what);
  return diag_error(r->d, DIAG_target_syntax, r->t.loc, "expected %s, found '%s'", what, r->t.text);
}

static bool at_word(const Reader *r, const char *word) { return r->t.kind == TOPO_WORD && strcmp(r->t.text, word) == 0; }

static bool punct(Reader *r, const char *p) {
  if (r->t.kind != TOPO_PUNCT || strcmp(r->t.text, p) != 0) return wanted(r, p);
  next(r);
  return true;
}

static bool keyword(Reader *r, const char *word) {
  if (!at_word(r, word)) return wanted(r, arena_printf(r->arena, "'%s'", word));
  next(r);
  return true;
}

static bool word(Reader *r, const char *what, const char **out) {
  if (r->t.kind != TOPO_WORD) return wanted(r, what);
  *out = r->t.text;
  next(r);
  return true;
}

static bool number(Reader *r, const char *what, double *out) {
  if (r->t.kind != TOPO_NUMBER) return wanted(r, what);
  if (r->t.number <= 0) return diag_error(r->d, DIAG_target_syntax, r->t.loc, "%s must be above 0", what);
  *out = r->t.number;
  next(r);
  return true;
}

static bool count(Reader *r, const char *what, int *out) {
  Loc loc = r->t.loc;
  double v;
  if (!number(r, what, &v)) return false;
  if (v != floor(v) || v > 1e6) return diag_error(r->d, DIAG_target_syntax, loc, "%s must be a whole number up to 1000000", what);
  *out = (int)v;
  return true;
}

static bool quantity(Reader *r, const char *what, const Unit *units, double *out) {
  Text list = {.arena = r->arena};
  if (!isnan(*out)) return diag_error(r->d, DIAG_target_syntax, r->t.loc, "%s is given twice", what);
  if (!number(r, what, out)) return false;
  for (int i = 0; units[i].name; i++) {
    if (at_word(r, units[i].name)) {
      *out *= units[i].factor;
      next(r);
      return true;
    }
    text_printf(&list, "%s%s", i ? ", " : "a unit of ", units[i].name);
  }
  return wanted(r, text_str(&list));
}

/* ---- blocks */

static const Block *find_block(const Reader *r, const char *kind, const char *name) {
  for (size_t i = 0; i < r->blocks.n; i++)
    if (strcmp(r->blocks.items[i]->name, name) == 0 && strcmp(block_words[r->blocks.items[i]->kind], kind) == 0) return r->blocks.items[i];
  return NULL;
}

static bool device_statement(Reader *r, Block *b) {
  const char *type = NULL;
  DType dtype;
  if (at_word(r, "cores")) return next(r), count(r, "the number of cores", &b->cores);
  if (at_word(r, "arch")) return next(r), word(r, "the name of an architecture", &b->arch);
  if (at_word(r, "launch")) return next(r), quantity(r, "launch", times, &b->launch);
  if (at_word(r, "mem")) {
    next(r);
    return quantity(r, "the memory size", sizes, &b->memory_bytes) && keyword(r, "at") &&
           quantity(r, "the memory bandwidth", rates, &b->memory_bandwidth);
  }
  if (!at_word(r, "peak")) return wanted(r, "cores, arch, mem, launch or peak");
  next(r);
  Loc loc = r->t.loc;
  if (!word(r, "an element type", &type)) return false;
  if (!dtype_find(type, &dtype)) return diag_error(r->d, DIAG_target_syntax, loc, "there is no element type '%s'", type);
  return quantity(r, "peak", speeds, &b->flops[dtype]);
}

static bool link_statement(Reader *r, Block *b) {
  next(r);
  if (!word(r, "the name of the link", &b->link.name) || !quantity(r, "the bandwidth of the link", rates, &b->link.bandwidth)) return false;
  return keyword(r, "each-way") && keyword(r, "latency") && quantity(r, "latency", times, &b->link.latency);
}

static bool group_statement(Reader *r, Block *b) {
  if (at_word(r, "link")) return link_statement(r, b);
  if (at_word(r, "ranks") && b->kind == BLOCK_NODE) return next(r), count(r, "the number of ranks", &b->ranks);
  if (r->t.kind != TOPO_NUMBER) return wanted(r, b->kind == BLOCK_NODE ? "link, ranks or a number of devices" : "link or a number of nodes");
  const char *kind = NULL, *name = NULL;
  Loc loc = r->t.loc;
  if (b->part) return diag_error(r->d, DIAG_target_syntax, loc, "%s has its parts already", b->name);
  if (!count(r, "a number of parts", &b->count)) return false;
  loc = r->t.loc;
  if (!word(r, b->kind == BLOCK_NODE ? "cpu or gpu" : "node", &kind)) return false;
  bool device = strcmp(kind, "cpu") == 0 || strcmp(kind, "gpu") == 0;
  if (b->kind == BLOCK_NODE ? !device : strcmp(kind, "node") != 0)
    return diag_error(r->d, DIAG_target_syntax, loc, "a %s is made of %s, not of '%s'", block_words[b->kind], b->kind == BLOCK_NODE ? "cpu or gpu" : "nodes", kind);
  loc = r->t.loc;
  if (!word(r, "a name", &name)) return false;
  b->part = find_block(r, kind, name);
  if (!b->part) return diag_error(r->d, DIAG_target_syntax, loc, "there is no %s '%s' above", kind, name);
  return true;
}

static bool need(Reader *r, const Block *b, double v, const char *what) {
  return !isnan(v) || diag_error(r->d, DIAG_target_syntax, b->loc, "%s '%s' says nothing about %s", block_words[b->kind], b->name, what);
}

static bool check_block(Reader *r, const Block *b) {
  if (b->kind <= BLOCK_GPU)
    return need(r, b, b->flops[DT_f32], "peak f32") && need(r, b, b->memory_bytes, "mem") && need(r, b, b->launch, "launch") &&
           (b->kind == BLOCK_GPU || need(r, b, b->cores ? 0 : NAN, "cores"));
  if (!need(r, b, b->part ? 0 : NAN, "its parts") || !need(r, b, b->link.bandwidth, "its link")) return false;
  if (b->kind == BLOCK_NODE && b->part->kind == BLOCK_CPU && b->count != 1)
    return diag_error(r->d, DIAG_target_syntax, b->loc, "node '%s' has %d cpus; describe them as one cpu with all cores", b->name, b->count);
  if (b->ranks && b->part->kind == BLOCK_GPU) return diag_error(r->d, DIAG_target_syntax, b->loc, "node '%s': each gpu is one rank", b->name);
  return b->ranks <= MAX_CPU_RANKS || diag_error(r->d, DIAG_target_ranks, b->loc, "a cpu serves at most %d ranks", MAX_CPU_RANKS);
}

static bool read_block(Reader *r) {
  Block *b = ARENA_NEW(r->arena, Block);
  int kind = 0;
  while (kind < 4 && !at_word(r, block_words[kind])) kind++;
  if (kind == 4) return wanted(r, "cpu, gpu, node or cluster");
  *b = (Block){.kind = kind, .memory_bytes = NAN, .memory_bandwidth = NAN, .launch = NAN, .link = {NULL, NAN, NAN}};
  for (int i = 0; i < DT_COUNT; i++) b->flops[i] = NAN;
  next(r);
  b->loc = r->t.loc;
  if (!word(r, "a name", &b->name)) return false;
  if (find_block(r, block_words[kind], b->name)) return diag_error(r->d, DIAG_target_syntax, b->loc, "%s '%s' exists already", block_words[kind], b->name);
  if (!punct(r, "{")) return false;
  while (!(r->t.kind == TOPO_PUNCT && r->t.text[0] == '}')) {
    if (!(b->kind <= BLOCK_GPU ? device_statement(r, b) : group_statement(r, b)) || !punct(r, ";")) return false;
  }
  next(r);
  if (!check_block(r, b)) return false;
  ARENA_PUSH(r->arena, &r->blocks, b);
  return true;
}

/* ---- from blocks to a target */

static void add_tier(Target *t, const Link *link, int group, double share, double slower) {
  t->tiers[t->ntiers++] = (TargetTier){link->name, group, link->bandwidth / share, link->latency * slower};
}

static const Target *build_target(Reader *r, const char *name, int ranks) {
  if (!r->blocks.n) {
    diag_error(r->d, DIAG_target_syntax, r->t.loc, "the file describes nothing");
    return NULL;
  }
  const Block *top = r->blocks.items[r->blocks.n - 1];
  if (top->kind <= BLOCK_GPU) {
    diag_error(r->d, DIAG_target_syntax, top->loc, "the last block must be a node or a cluster");
    return NULL;
  }
  const Block *cluster = top->kind == BLOCK_CLUSTER ? top : NULL, *node = cluster ? top->part : top, *device = node->part;
  bool cpu = device->kind == BLOCK_CPU;
  int per_node = cpu ? (node->ranks ? node->ranks : 1) : node->count, nodes = cluster ? cluster->count : 1;
  if (cpu && ranks > 0 && !cluster) per_node = ranks;
  int all = per_node * nodes;
  if (ranks <= 0) ranks = all;
  if (cpu && per_node > MAX_CPU_RANKS) {
    diag_error(r->d, DIAG_target_ranks, (Loc){0}, "%s: a cpu serves at most %d ranks", name, MAX_CPU_RANKS);
    return NULL;
  }
  if (ranks > all || (ranks > per_node && ranks % per_node)) {
    diag_error(r->d, DIAG_target_ranks, (Loc){0}, "%s: %d ranks are not a part of one machine of %d nor whole machines of the %d there are", name, ranks, per_node, nodes);
    return NULL;
  }
  Target *t = ARENA_NEW(r->arena, Target);
  double share = cpu ? per_node : 1, slower = cpu && per_node > device->cores ? (double)per_node / device->cores : 1;
  *t = (Target){.name = name, .device = block_words[device->kind], .arch = device->arch, .ranks = ranks, .nodes = ranks > per_node ? ranks / per_node : 1};
  for (int i = 0; i < DT_COUNT; i++) t->flops[i] = device->flops[i] / share;
  t->memory_bytes = device->memory_bytes / share;
  t->memory_bandwidth = device->memory_bandwidth / share;
  t->launch = device->launch * slower;
  add_tier(t, &node->link, per_node < ranks ? per_node : ranks, share, slower);
  if (t->nodes > 1) add_tier(t, &cluster->link, ranks, cpu ? share : 1, slower);
  return t;
}

const Target *target_parse(Diags *d, Arena *a, const char *file, const char *text, const char *name, int ranks) {
  Reader r = {.d = d, .arena = a, .lexer = topo_lexer(a, file, text)};
  diag_source(d, file, text);
  next(&r);
  while (r.t.kind != TOPO_END)
    if (!read_block(&r)) return NULL;
  return build_target(&r, arena_strdup(a, name), ranks);
}

/* ---- names */

extern const char *const target_builtin_names[];
extern const char *const target_builtin_texts[];

const char *const *target_names(void) { return target_builtin_names; }

const char *target_text(const char *name) {
  for (int i = 0; target_builtin_names[i]; i++)
    if (strcmp(target_builtin_names[i], name) == 0) return target_builtin_texts[i];
  return NULL;
}

/* Edits between two names (Levenshtein), for "did you mean". */
static int distance(const char *a, const char *b) {
  int row[64], n = (int)strlen(b);
  if (n > 63 || strlen(a) > 63) return 64;
  for (int j = 0; j <= n; j++) row[j] = j;
  for (int i = 1; a[i - 1]; i++) {
    int diagonal = row[0];
    row[0] = i;
    for (int j = 1; j <= n; j++) {
      int change = diagonal + (a[i - 1] != b[j - 1]);
      diagonal = row[j];
      row[j] = row[j] < row[j - 1] ? row[j] + 1 : row[j - 1] + 1;
      if (change < row[j]) row[j] = change;
    }
  }
  return row[n];
}

static const Target *unknown(Diags *d, const char *name) {
  int best = -1;
  for (int i = 0; target_builtin_names[i]; i++)
    if (best < 0 || distance(name, target_builtin_names[i]) < distance(name, target_builtin_names[best])) best = i;
  diag_error(d, DIAG_target_name, (Loc){0}, "there is no target '%s'", name);
  diag_help(d, "the nearest name is '%s'; `apc targets` lists all, and a file must end in .topo", target_builtin_names[best]);
  return NULL;
}

const Target *target_find(Diags *d, Arena *a, const char *name) {
  size_t n = strlen(name);
  if (n > 5 && strcmp(name + n - 5, ".topo") == 0) {
    const char *text = file_read_text(d, a, name, NULL);
    return text ? target_parse(d, a, name, text, name, 0) : NULL;
  }
  const char *text = target_text(name), *file = name;
  int ranks = 0;
  size_t digits = n;
  while (digits > 0 && name[digits - 1] >= '0' && name[digits - 1] <= '9') digits--;
  if (!text && digits < n && digits > 1 && name[digits - 1] == 'x') {
    file = arena_strndup(a, name, digits - 1);
    text = target_text(file);
    ranks = n - digits > 6 ? 0 : atoi(name + digits);
    if (text && ranks < 1) {
      diag_error(d, DIAG_target_ranks, (Loc){0}, "%s: the number of ranks must be from 1 to 999999", name);
      return NULL;
    }
  }
  if (!text) return unknown(d, name);
  return target_parse(d, a, arena_printf(a, "%s.topo", file), text, name, ranks);
}
