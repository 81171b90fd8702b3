/* tools/target_report.c - see target_report.h. */
#include "tools/target_report.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/json_text.h"
#include "frontend/topo/target.h"

/* ---- which target */

/* Returns the file whose blocks replace built-in ones; NULL if none. */
static const char *calibration(void) {
  const char *file = getenv("APC_CALIBRATION");
  return file && *file ? file : NULL;
}

const Target *tool_target_of(Tool *t, const char *name) {
  return topo_target_find_with(t->diags, t->arena, name, calibration());
}

const char *tool_target_text(Tool *t, const char *name) {
  return topo_target_text(t->diags, t->arena, name, calibration());
}

/* Returns the types that a device has peaks for: "f16, i8". */
static const char *peaks_text(Arena *a, const Target *g) {
  Text text = {.arena = a};
  for (int i = 0; i < CT_COUNT; i++)
    if (g->flops[i] > 0) text_printf(&text, "%s%s", text.n ? ", " : "", compute_name((ComputeType)i));
  return text_str(&text);
}

/* Returns the type that the device computes --dtype in.  If its library multiplies only f32, f16 and bf16 are storage
 * types. */
static ComputeType computed_in(const Target *g, ComputeType type) {
  bool keeps = type == CT_f16 || type == CT_bf16, own = device_multiplies(g->device, compute_storage(type));
  return (keeps && !own) || (type == CT_tf32 && g->device->kind == DEVICE_cpu) ? CT_f32 : type;
}

ComputeType tool_compute(const Tool *t) {
  const char *word = option_text(&t->options, OPT_dtype);
  ComputeType type = CT_f32;
  if (word) compute_find(word, &type); /* the option reader has checked the word */
  return type;
}

/* Returns the target for --dtype. */
static const Target *computing(Tool *t, const Target *g) {
  const char *word = option_text(&t->options, OPT_dtype);
  ComputeType type = tool_compute(t);
  if (t->options.command != CMD_plan) {
    if (type == CT_f32) return g; /* even if its peak is unknown */
    if (type == CT_fp8) {
      diag_error(t->diags, DIAG_later_dtype, (Loc){0}, "programs do not compute in fp8 yet; `apc plan` prices it");
      return NULL;
    }
  }
  type = computed_in(g, type);
  const Target *own = topo_target_computing_in(t->arena, g, type);
  if (own) return own;
  diag_error(t->diags, DIAG_plan_infeasible, (Loc){0},
             "no feasible plan for %s: the peak of its %s for %s%s is not known", g->name, g->part, compute_name(type),
             word ? "" : " (the default of --dtype)");
  diag_help(t->diags, "known are %s: choose one with --dtype", peaks_text(t->arena, g));
  return NULL;
}

/* --price: terms of the target's file, or the price of a whole machine. */
static const Target *priced(Tool *t, const Target *g) {
  const char *text = option_text(&t->options, OPT_price);
  PriceKind kind;
  Budget amount = {0};
  if (!text) return g;
  if (price_find(text, &kind)) return topo_target_priced(t->arena, g, kind);
  if (!tool_parse_budget(text, &amount) || !(amount.usd > 0 && amount.usd <= 1e9)) {
    diag_error(t->diags, DIAG_usage_value, (Loc){0},
               "--price takes on-demand, spot, reserved, or the price of a machine per hour, like 16.29usd, not '%s'",
               text);
    return NULL;
  }
  return topo_target_costing(t->arena, g, amount.usd, "--price");
}

static const char *target_name(const Tool *t) {
  const char *name = option_text(&t->options, OPT_target);
  if (!name) name = getenv("APC_TARGET");
  return name && *name ? name : "cpu";
}

const Target *tool_target_fixed(Tool *t) {
  const char *name = target_name(t);
  return topo_target_find(t->diags, t->arena, name);
}

const Target *tool_target(Tool *t) {
  const Target *g = tool_target_of(t, target_name(t)), *own = g ? computing(t, g) : NULL;
  if (own) own = priced(t, own);
  for (int i = 0; own && own->notes && own->notes[i]; i++) tool_say(t, "Note", "%s: %s", own->name, own->notes[i]);
  return own && option_given(&t->options, OPT_assume_kernels)
             ? topo_target_assuming(t->arena, own, option_given(&t->options, OPT_train))
             : own;
}

/* ---- as text */

const char *tool_price_text(Arena *a, const Target *g) {
  const TargetPrice *p = target_price(g);
  return p->date ? arena_printf(a, "%s, %s", p->terms, p->date) : p->terms;
}

static const char *rate(Arena *a, double v, const char *unit) { return isnan(v) ? "unknown" : show_scaled(a, v, unit); }

/* Returns "20 TFLOPS f32, 40 GB at 1.6 TB/s, 1 GB reserved". */
static const char *rank_text(Arena *a, const Target *g) {
  const char *text =
      arena_printf(a, "%s %s, %s at %s", rate(a, g->flops[g->compute], "FLOPS"), compute_name(g->compute),
                   rate(a, g->memory_bytes, "B"), rate(a, g->memory_bandwidth, "B/s"));
  return g->reserve_bytes > 0 ? arena_printf(a, "%s, %s reserved", text, show_scaled(a, g->reserve_bytes, "B")) : text;
}

static int ranks_of_kind(const Target *g, int kind) {
  int n = 0;
  for (int r = 0; r < g->ranks; r++) n += g->kind_of[r] == kind;
  return n;
}

/* True if all kinds have such links. */
static bool is_common(const Target *g, const TargetTier *tier) {
  for (int i = 0; i < g->nkinds; i++) {
    bool has = false;
    for (int j = 0; j < g->kinds[i]->ntiers; j++)
      has |= strcmp(g->kinds[i]->tiers[j].name, tier->name) == 0 && g->kinds[i]->tiers[j].bandwidth == tier->bandwidth;
    if (!has) return false;
  }
  return true;
}

const char *tool_target_line(Arena *a, const Target *g) {
  Text text = {.arena = a};
  text_printf(&text, "%d %s rank%s of %d node%s", g->ranks, g->device->name, g->ranks == 1 ? "" : "s", g->nodes,
              g->nodes == 1 ? "" : "s");
  if (!g->nkinds) text_printf(&text, "; each %s", rank_text(a, g));
  for (int i = 0; i < g->nkinds; i++) {
    const Target *k = g->kinds[i];
    text_printf(&text, "; %d of %s: each %s", ranks_of_kind(g, i), k->part, rank_text(a, k));
    for (int j = 0; j < k->ntiers; j++)
      if (!is_common(g, &k->tiers[j]))
        text_printf(&text, ", %s %s", k->tiers[j].name, rate(a, k->tiers[j].bandwidth, "B/s"));
  }
  for (int i = 0; i < g->ntiers && g->ranks > 1; i++)
    if (is_common(g, &g->tiers[i]))
      text_printf(&text, "; %s %s", g->tiers[i].name, rate(a, g->tiers[i].bandwidth, "B/s"));
  if (g->assumes) text_add(&text, "; assuming kernels that are known but not built");
  return text_str(&text);
}

/* True for the built-in description of the machine that apc runs on. */
static bool is_fixed(const Target *g) { return g->device->kind == DEVICE_cpu && strcmp(g->part, "avx512-2core") == 0; }

const char *tool_target_figures(Arena *a, const Target *g) {
  if (g->measured) return arena_printf(a, "figures measured by apc calibrate: %s", g->measured);
  return is_fixed(g) ? "figures are fixed, not measured on this machine: apc calibrate measures it" : NULL;
}

static json_t *notes_json(const Target *g) {
  json_t *notes = json_array();
  for (int i = 0; g->notes && g->notes[i]; i++) json_array_append_new(notes, json_text(g->notes[i]));
  return notes;
}

json_t *tool_target_figures_json(const Target *g) {
  return json_pack("{s:s, s:o, s:o}", "kind", g->measured ? "measured" : "fixed", "file", json_text(g->measured),
                   "notes", notes_json(g));
}

/* Returns the peak of bf16, else f16, else f32. */
static const char *peak_text(Arena *a, const Target *g) {
  static const ComputeType order[] = {CT_bf16, CT_f16, CT_f32};
  for (int i = 0; i < 3; i++)
    if (g->flops[order[i]] > 0)
      return arena_printf(a, "%s %s", show_scaled(a, g->flops[order[i]], "FLOPS"), compute_name(order[i]));
  return "-";
}

void tool_target_table_head(void) {
  printf("%-22s %5s  %-6s %-8s  %-9s %-16s %-26s %s\n", "name", "ranks", "device", "memory", "at", "peak", "links",
         "USD/h");
}

void tool_target_table_row(Arena *a, const char *name, const Target *g) {
  Text links = {.arena = a};
  for (int i = 0; i < g->ntiers && g->ranks > 1; i++)
    text_printf(&links, "%s%s %s", i ? ", " : "", g->tiers[i].name, rate(a, g->tiers[i].bandwidth, "B/s"));
  printf("%-22s %5d  %-6s %-8s  %-9s %-16s %-26s %s\n", name, g->ranks, g->arch ? g->arch : g->device->name,
         rate(a, g->memory_bytes, "B"), rate(a, g->memory_bandwidth, "B/s"), peak_text(a, g),
         links.n ? text_str(&links) : "-",
         isnan(target_price(g)->usd_per_hour) ? "-" : arena_printf(a, "%.2f", target_price(g)->usd_per_hour));
}

/* ---- JSON */

static json_t *number(double v) { return v > 0 ? json_number(v) : json_null(); }

static json_t *tiers_json(const Target *g) {
  json_t *tiers = json_array();
  for (int i = 0; i < g->ntiers; i++) {
    const TargetTier *x = &g->tiers[i];
    json_t *ways = json_array();
    for (int k = 0; k < x->nprotocols; k++) {
      const Protocol *p = &x->protocols[k];
      static const char *const words[] = {"ring", "tree", "switched", "direct"};
      json_array_append_new(
          ways,
          json_pack("{s:s, s:o, s:o, s:o, s:o, s:o}", "algorithm", words[p->algorithm], "protocol", json_text(p->name),
                    "base_us", json_number(p->base * 1e6), "step_us", json_number(p->step * 1e6), "share",
                    json_number(p->share), "most_bytes_per_s", isfinite(p->most) ? json_number(p->most) : json_null()));
    }
    json_array_append_new(tiers, json_pack("{s:o, s:i, s:o, s:o, s:o, s:o}", "name", json_text(x->name), "ranks",
                                           x->group, "bytes_per_s", number(x->bandwidth), "pair_bytes_per_s",
                                           number(x->pair), "latency_us", number(x->latency * 1e6), "ways", ways));
  }
  return tiers;
}

static json_t *kernels_json(const KernelCosts *k) {
  json_t *sustained = json_object(), *tiles = json_array();
  for (int i = 0; i < CT_COUNT; i++)
    if (k->sustained[i] > 0) json_object_set_new(sustained, compute_name((ComputeType)i), json_number(k->sustained[i]));
  for (int i = 0; i < k->ntiles; i++)
    json_array_append_new(tiles, json_pack("{s:o, s:o, s:o}", "rows", json_number(k->tiles[i].rows), "columns",
                                           json_number(k->tiles[i].columns), "share", json_number(k->tiles[i].share)));
  return json_pack("{s:o, s:o, s:o, s:o, s:o, s:o, s:o}", "sustained", sustained, "tiles", tiles, "prologue",
                   json_number(k->prologue), "smoothing", json_number(k->smoothing), "attention",
                   json_number(k->attention), "bandwidth", json_number(k->bandwidth), "ramp_bytes",
                   json_number(k->ramp));
}

/* Returns the kinds as targets, each with its number of ranks. */
static json_t *kinds_json(const Target *g) {
  json_t *kinds = json_array();
  for (int i = 0; i < g->nkinds; i++) {
    json_t *kind = tool_target_json(g->kinds[i]);
    json_object_set_new(kind, "ranks", json_integer(ranks_of_kind(g, i)));
    json_array_append_new(kinds, kind);
  }
  return kinds;
}

/* Returns the known prices by their terms. */
static json_t *prices_json(const Target *g) {
  json_t *o = json_object();
  for (int i = 0; i < PRICE_KINDS; i++) {
    const TargetPrice *p = &g->prices[i];
    if (p->terms)
      json_object_set_new(o, price_name((PriceKind)i),
                          json_pack("{s:o, s:o, s:o}", "usd_per_hour", json_number(p->usd_per_hour), "terms",
                                    json_text(p->terms), "date", json_text(p->date)));
  }
  return o;
}

json_t *tool_target_json(const Target *g) {
  json_t *flops = json_object();
  for (int i = 0; i < CT_COUNT; i++)
    if (g->flops[i] > 0) json_object_set_new(flops, compute_name((ComputeType)i), json_number(g->flops[i]));
  json_t *o = json_pack("{s:o, s:o, s:o, s:s, s:o, s:o, s:i, s:i, s:i, s:o}", "name", json_text(g->name), "machine",
                        json_text(g->machine), "title", json_text(g->title), "device", g->device->name, "part",
                        json_text(g->part), "arch", json_text(g->arch), "ranks", g->ranks, "nodes", g->nodes,
                        "ranks_per_machine", g->per_machine, "flops_per_s", flops);
  const struct {
    const char *name;
    double v;
  } figures[] = {{"memory_bytes", g->memory_bytes},
                 {"memory_bytes_per_s", g->memory_bandwidth},
                 {"reserve_bytes", g->reserve_bytes},
                 {"launch_us", g->launch * 1e6},
                 {"sms", g->sms},
                 {"clock_hz", g->clock},
                 {"l2_bytes", g->l2},
                 {"shared_bytes_per_sm", g->shared_memory},
                 {"power_w", g->power},
                 {"idle_power_w", g->idle_power},
                 {"host_memory_bytes", g->host_memory},
                 {"pcie_bytes_per_s", g->pcie},
                 {"disk_bytes_per_s", g->disk},
                 {"usd_per_hour", target_price(g)->usd_per_hour}};
  for (size_t i = 0; i < sizeof figures / sizeof *figures; i++)
    json_object_set_new(o, figures[i].name, number(figures[i].v));
  const TargetPrice *price = target_price(g);
  json_object_set_new(o, "price",
                      price->terms
                          ? json_pack("{s:o, s:o}", "terms", json_text(price->terms), "date", json_text(price->date))
                          : json_null());
  json_object_set_new(o, "prices", prices_json(g));
  json_object_set_new(o, "kernels", g->has_kernels ? kernels_json(&g->kernels) : json_null());
  json_object_set_new(o, "tiers", tiers_json(g));
  json_object_set_new(o, "notes", notes_json(g));
  if (g->nkinds) json_object_set_new(o, "kinds", kinds_json(g));
  return o;
}
