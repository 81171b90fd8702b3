/* tools/target_report.c - see target_report.h. */
#include "tools/target_report.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "frontend/target.h"

static bool ends_with(const char *s, const char *end) {
  size_t n = strlen(s), k = strlen(end);
  return n >= k && strcmp(s + n - k, end) == 0;
}

const Target *tool_target_of(Tool *t, const char *name) {
  if (ends_with(name, ".xml")) {
    diag_error(t->diags, DIAG_later_target_xml, (Loc){.file = name}, "NCCL topology files cannot be read yet");
    return NULL;
  }
  return target_find(t->diags, t->arena, name);
}

const Target *tool_target(Tool *t) {
  const char *name = option_text(&t->options, OPT_target);
  if (!name) name = getenv("APC_TARGET");
  return tool_target_of(t, name && *name ? name : "cpu");
}

static const char *rate(Arena *a, double v, const char *unit) { return isnan(v) ? "unknown" : show_scaled(a, v, unit); }

const char *target_line(Arena *a, const Target *g) {
  Text text = {.arena = a};
  text_printf(&text, "%d %s rank%s of %d machine%s; each %s f32, %s at %s", g->ranks, g->device, g->ranks == 1 ? "" : "s", g->nodes,
              g->nodes == 1 ? "" : "s", rate(a, target_flops(g, DT_f32), "FLOPS"), rate(a, g->memory_bytes, "B"),
              rate(a, g->memory_bandwidth, "B/s"));
  for (int i = 0; i < g->ntiers && g->ranks > 1; i++) text_printf(&text, "; %s %s", g->tiers[i].name, rate(a, g->tiers[i].bandwidth, "B/s"));
  return text_str(&text);
}

static json_t *number(double v) { return isnan(v) ? json_null() : json_real(v); }

json_t *target_json(const Target *g) {
  json_t *flops = json_object(), *tiers = json_array();
  for (int d = 0; d < DT_COUNT; d++)
    if (!isnan(g->flops[d])) json_object_set_new(flops, dtype_name((DType)d), json_real(g->flops[d]));
  for (int i = 0; i < g->ntiers; i++) {
    const TargetTier *tier = &g->tiers[i];
    json_array_append_new(tiers, json_pack("{s:s, s:i, s:o, s:o}", "name", tier->name, "ranks", tier->group, "bytes_per_s", number(tier->bandwidth),
                                           "latency_us", number(tier->latency * 1e6)));
  }
  return json_pack("{s:s, s:s, s:s?, s:i, s:i, s:o, s:o, s:o, s:o, s:o}", "name", g->name, "device", g->device, "arch", g->arch, "ranks", g->ranks,
                   "nodes", g->nodes, "flops_per_s", flops, "memory_bytes", number(g->memory_bytes), "memory_bytes_per_s",
                   number(g->memory_bandwidth), "launch_us", number(g->launch * 1e6), "tiers", tiers);
}

void target_print(Arena *a, const Target *g) {
  printf("%s: %d %s rank%s on %d machine%s%s%s\n", g->name, g->ranks, g->device, g->ranks == 1 ? "" : "s", g->nodes, g->nodes == 1 ? "" : "s",
         g->arch ? ", " : "", g->arch ? g->arch : "");
  for (int d = 0; d < DT_COUNT; d++)
    if (!isnan(g->flops[d])) printf("  peak %-12s %s\n", dtype_name((DType)d), show_scaled(a, g->flops[d], "FLOPS"));
  printf("  memory            %s at %s\n", rate(a, g->memory_bytes, "B"), rate(a, g->memory_bandwidth, "B/s"));
  printf("  launch            %s\n", isnan(g->launch) ? "unknown" : show_seconds(a, g->launch));
  for (int i = 0; i < g->ntiers; i++)
    printf("  %-17s %s each way, latency %s, %d ranks\n", g->tiers[i].name, rate(a, g->tiers[i].bandwidth, "B/s"),
           isnan(g->tiers[i].latency) ? "unknown" : show_seconds(a, g->tiers[i].latency), g->tiers[i].group);
  puts("  (rates are per rank)");
}
