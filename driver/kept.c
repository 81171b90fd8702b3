/* driver/kept.c - see kept.h. */
#include "driver/kept.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- the key */

/* Structures are added as their bytes, with what they point to instead of where that is.  A pointer that is not known
 * here stays in the bytes, so that nothing is found again: no field is forgotten. */
static void add_cpu_costs(CacheKey *k, const CpuCosts *x) {
  cache_key_number(k, x != NULL);
  if (x) cache_key_add(k, x, sizeof *x);
}

static void add_text(CacheKey *k, const char **text) {
  cache_key_text(k, *text);
  *text = NULL;
}

static void add_target(CacheKey *k, const Target *t) {
  Target x = *t;
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
  PlanOptions x = *o;
  for (int i = 0; i < x.npins; i++) cache_key_text(k, x.pins[i].text);
  x.pins = NULL;
  x.spent = NULL, x.known = NULL, x.stop = NULL, x.lack = NULL, x.show = NULL, x.show_context = NULL;
  x.alternatives = false; /* the plan is the same */
  cache_key_add(k, &x, sizeof x);
}

/* Everything that a plan depends on; false: it is not kept. */
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
  cache_key_number(k, (uint64_t)o->embed); /* weights that stay in a file are mapped */
  cache_key_text(k, o->model.train ? "train" : NULL);
  return true;
}

/* ---- the text: a line of what the search said, then the plan */

static const char line_format[] = "kept %a %a %a %d %d\n";

static Plan *read_kept(Build *b, const char *text) {
  Plan said = {0};
  int cut_short, mirrored;
  const char *plan = strchr(text, '\n');
  if (!plan || sscanf(text, "kept %la %la %la %d %d", &said.lower_bound, &said.no_gaps_bound, &said.one_device_seconds,
                      &cut_short, &mirrored) != 5)
    return NULL;
  Plan *p = plan_parse(b->model.m, b->l1, b->options.target, "a plan in the cache", plan + 1,
                       diags_new(b->options.model.arena));
  if (!p) return NULL;
  p->lower_bound = fmin(said.lower_bound, plan_seconds(p)), p->no_gaps_bound = fmin(said.no_gaps_bound, p->lower_bound);
  p->gap = plan_gap(plan_seconds(p), p->lower_bound);
  p->one_device_seconds = said.one_device_seconds;
  p->cut_short = cut_short, p->mirrored = mirrored;
  return p;
}

Plan *driver_find_kept(Build *b) {
  CacheKey k;
  size_t n;
  const char *text = key_of(b, &k) ? cache_find(b->options.cache, &k, b->options.model.arena, &n) : NULL;
  return text ? read_kept(b, text) : NULL;
}

void driver_keep_plan(Build *b) {
  CacheKey k;
  const Plan *p = b->plan;
  const volatile sig_atomic_t *stop = b->options.plan.stop;
  if (b->unfit || b->kept || p->traded || (stop && *stop) || !key_of(b, &k)) return;
  Text text = {.arena = b->options.model.arena};
  text_printf(&text, line_format, p->lower_bound, p->no_gaps_bound, p->one_device_seconds, p->cut_short, p->mirrored);
  plan_print(b->model.m, b->l1, p, &text);
  cache_keep(b->options.cache, &k, text_str(&text), text.n);
}
