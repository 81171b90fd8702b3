/* driver/kept.c - see kept.h. */
#include "driver/kept.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "driver/internal.h"

/* ---- the key */

/* Structures are hashed as bytes, with the values that pointers point to in place of the pointers.  A pointer field
 * unknown here stays in the bytes, so the key never matches again: a forgotten field cannot give a wrong plan. */
static void add_cpu_costs(CacheKey *k, const CpuCosts *x) {
  cache_key_number(k, x != NULL);
  if (x) cache_key_add(k, x, sizeof *x);
}

static void add_text(CacheKey *k, const char **text) {
  cache_key_text(k, *text);
  *text = NULL;
}

static void add_target(CacheKey *k, const Target *t) {
  Target x;
  memcpy(&x, t, sizeof x); /* with padding */
  const char **texts[] = {&x.name, &x.machine, &x.title, &x.part, &x.arch, &x.measured};
  for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) add_text(k, texts[i]);
  for (int i = 0; i < PRICE_KINDS; i++) add_text(k, &x.prices[i].terms), add_text(k, &x.prices[i].date);
  for (int i = 0; i < x.ntiers; i++) {
    add_text(k, &x.tiers[i].name);
    for (int p = 0; p < x.tiers[i].nprotocols; p++) add_text(k, &x.tiers[i].protocols[p].name);
  }
  cache_key_text(k, x.device->name);
  add_cpu_costs(k, x.small);
  x.device = NULL, x.small = NULL;
  cache_key_add(k, &x, sizeof x);
}

static void add_options(CacheKey *k, const PlanOptions *o) {
  PlanOptions x;
  memcpy(&x, o, sizeof x);
  for (int i = 0; i < x.npins; i++) cache_key_text(k, x.pins[i].text);
  x.pins = NULL;
  x.spent = NULL, x.known = NULL, x.stop = NULL, x.lack = NULL, x.show = NULL, x.show_context = NULL;
  x.alternatives = false; /* alternatives do not change the plan */
  cache_key_add(k, &x, sizeof x);
}

/* Makes the key of everything that the plan depends on; false if the plan is not cached. */
static bool key_of(const Build *b, CacheKey *k) {
  const DriverOptions *o = &b->options;
  const Module *m = b->model.m;
  bool plain = o->objective == OBJECTIVE_latency && !o->ncalls && !o->plan_file && !o->plan.said && !b->l1->joint &&
               o->plan.effort <= 0 && !o->target->nkinds && !o->named && !b->replicas;
  if (!o->cache || o->cache->why_not || !plain) return false;
  *k = cache_key(o->cache, "plan");
  for (int i = 0; i < b->nentries; i++) cache_key_number(k, plan_graph_hash(m, b->l1s[i]));
  for (size_t i = 0; i < m->symbols.n; i++)
    if (m->symbols.items[i].axis < 0)
      cache_key_text(k, m->symbols.items[i].name), cache_key_number(k, (uint64_t)m->symbols.items[i].hint);
  add_target(k, o->target);
  add_options(k, &o->plan);
  cache_key_number(k, (uint64_t)o->micro_batch);
  cache_key_number(k, (uint64_t)o->embed); /* mapped if the weights stay in a file */
  cache_key_text(k, o->model.train ? "train" : NULL);
  cache_key_number(k, (uint64_t)o->offload);
  return true;
}

/* ---- the text: lines with results of the search, then the plan */

static const char said_format[] = "kept %a %a %a %d %d %d %d\t%s\n";
static const char alternative_format[] = "%a %a %d %d %d %d %d %d %d %d\t%s\t%s\t%s\n";

/* Missing texts are written as empty ones. */
static const char *text_or_none(const char *text) { return text ? text : ""; }

static void print_alternative(Text *t, const PlanAlternative *x) {
  const int *d = x->degree;
  text_printf(t, alternative_format, x->seconds, x->bytes, x->counted, x->zero, x->micro_batches, d[DEGREE_pp],
              d[DEGREE_dp], d[DEGREE_tp], d[DEGREE_cp], d[DEGREE_ep], text_or_none(x->schedule),
              text_or_none(x->recompute), text_or_none(x->why_not));
}

static const char *plan_text(const Build *b, size_t *n) {
  const Plan *p = b->plan;
  Text t = {.arena = b->options.model.arena};
  int listed = b->options.plan.alternatives ? p->nalternatives : -1;
  text_printf(&t, said_format, p->lower_bound, p->no_gaps_bound, p->one_device_seconds, p->cut_short, p->mirrored,
              p->layout, listed, text_or_none(p->one_batch));
  for (int i = 0; i < listed; i++) print_alternative(&t, &p->alternatives[i]);
  plan_print(b->model.m, b->l1, p, &t);
  *n = t.n;
  return text_str(&t);
}

/* Returns the text up to `end`, or NULL if it is empty; advances beyond `end`. */
static const char *take_text(Arena *a, const char **at, char end) {
  const char *from = *at, *to = strchr(from, end);
  if (!to) return NULL;
  *at = to + 1;
  return to > from ? arena_strndup(a, from, (size_t)(to - from)) : NULL;
}

static bool read_alternative(Arena *a, const char **at, PlanAlternative *x) {
  int counted, n = 0, *d = x->degree;
  if (sscanf(*at, "%la %la %d %d %d %d %d %d %d %d%n", &x->seconds, &x->bytes, &counted, &x->zero, &x->micro_batches,
             &d[DEGREE_pp], &d[DEGREE_dp], &d[DEGREE_tp], &d[DEGREE_cp], &d[DEGREE_ep], &n) != 10 ||
      (*at)[n] != '\t')
    return false;
  *at += n + 1;
  x->counted = counted;
  x->schedule = take_text(a, at, '\t'), x->recompute = take_text(a, at, '\t'), x->why_not = take_text(a, at, '\n');
  return x->schedule && x->recompute;
}

/* Reads the results of the search and advances *at beyond them.  False if the text is malformed. */
static bool read_said(Arena *a, const char **at, Plan *said, bool *listed) {
  int cut_short, mirrored, layout, n = 0;
  if (sscanf(*at, "kept %la %la %la %d %d %d %d%n", &said->lower_bound, &said->no_gaps_bound, &said->one_device_seconds,
             &cut_short, &mirrored, &layout, &said->nalternatives, &n) != 7 ||
      (*at)[n] != '\t')
    return false;
  *at += n + 1;
  said->one_batch = take_text(a, at, '\n');
  said->cut_short = cut_short, said->mirrored = mirrored, said->layout = layout;
  if (!(*listed = said->nalternatives >= 0)) said->nalternatives = 0;
  said->alternatives = ARENA_ARRAY(a, PlanAlternative, said->nalternatives + 1);
  for (int i = 0; i < said->nalternatives; i++)
    if (!read_alternative(a, at, &said->alternatives[i])) return false;
  return true;
}

static Plan *read_kept(Build *b, const char *text) {
  Arena *a = b->options.model.arena;
  Plan said = {0};
  bool listed;
  if (!read_said(a, &text, &said, &listed) || (b->options.plan.alternatives && !listed)) return NULL;
  Plan *p = plan_parse(b->model.m, b->l1, b->options.target, "a plan in the cache", text, diags_new(a));
  if (!p) return NULL;
  p->lower_bound = fmin(said.lower_bound, plan_seconds(p)), p->no_gaps_bound = fmin(said.no_gaps_bound, p->lower_bound);
  p->gap = plan_gap(plan_seconds(p), p->lower_bound);
  p->one_device_seconds = said.one_device_seconds;
  p->cut_short = said.cut_short, p->mirrored = said.mirrored, p->layout = said.layout, p->one_batch = said.one_batch;
  if (b->options.plan.alternatives) p->alternatives = said.alternatives, p->nalternatives = said.nalternatives;
  return p;
}

/* The key is made once, as it hashes the texts of all functions. */
Plan *driver_find_kept(Build *b) {
  CacheKey k;
  size_t n;
  b->plan_key = NULL;
  if (!key_of(b, &k)) return NULL;
  b->plan_key = ARENA_NEW(b->options.model.arena, CacheKey);
  *b->plan_key = k;
  const char *text = cache_find(b->options.cache, &k, b->options.model.arena, &n);
  return text ? read_kept(b, text) : NULL;
}

void driver_keep_plan(Build *b) {
  size_t n;
  if (!b->plan_key || b->unfit || b->kept || b->plan->traded || driver_is_stopped(b)) return;
  const char *text = plan_text(b, &n);
  cache_keep(b->options.cache, b->plan_key, text, n);
}
