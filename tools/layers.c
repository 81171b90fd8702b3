/* tools/layers.c - the options --map A:B and --layer-drop GLOB:RATE. */
#include <stdlib.h>
#include <string.h>

#include "tools/build.h"

bool tool_weight_maps(Tool *t, WeightMaps **out) {
  size_t at = 0;
  WeightMaps *maps = ARENA_NEW(t->arena, WeightMaps);
  maps->arena = t->arena;
  for (const OptionUse *u; (u = option_next(&t->options, OPT_map, &at));)
    if (!driver_maps_add(maps, u->value, t->diags)) return false;
  *out = maps->n ? maps : NULL;
  return true;
}

bool tool_layer_drop(Tool *t, TrainingRules *r, const char *value) {
  const char *colon = strrchr(value, ':');
  char *end = NULL;
  const double rate = colon ? strtod(colon + 1, &end) : -1;
  if (!colon || colon == value || end == colon + 1 || *end || !((float)rate > 0 && (float)rate < 1))
    return diag_error(t->diags, DIAG_usage_value, (Loc){0},
                      "--layer-drop takes GLOB:RATE with a rate above 0 and below 1, not '%s'", value);
  ARENA_PUSH(t->arena, &r->drops, ((TrainingDrop){arena_strndup(t->arena, value, (size_t)(colon - value)), rate}));
  return true;
}
