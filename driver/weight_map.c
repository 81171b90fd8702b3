/* driver/weight_map.c - see weight_map.h. */
#include "driver/weight_map.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "base/nearest.h"

static const char signs[] = "/%+-";
enum { MOST_DIGITS = 9 };

static bool fail(Diags *d, const char *text, const char *what) {
  return diag_error(d, DIAG_usage_value, (Loc){0}, "--map %s: %s", text, what);
}

/* The arithmetic after the star of B; NULL if there is none. */
static const char *arithmetic(const char *from) {
  const char *star = strchr(from, '*');
  return star && star[1] && strchr(signs, star[1]) && isdigit((unsigned char)star[2]) ? star + 1 : NULL;
}

/* The colon between A and B: alone, as names of exporters contain "::". */
static const char *colon_of(const char *text) {
  for (const char *at = text; (at = strchr(at, ':')); at += strspn(at, ":"))
    if (at[1] != ':') return at;
  return NULL;
}

static bool check(const WeightMap *m, Diags *d) {
  const char *in_to = strchr(m->to, '*'), *in_from = strchr(m->from, '*'), *sum = arithmetic(m->from);
  if ((in_to && strchr(in_to + 1, '*')) || (in_from && strchr(in_from + 1, '*')))
    return fail(d, m->text, "more than one '*' on a side of the colon");
  if (in_from && !in_to) return fail(d, m->text, "'*' after the colon needs one before it");
  if (sum && strspn(sum + 1, "0123456789") > MOST_DIGITS) return fail(d, m->text, "the number has more than 9 digits");
  if (sum && (*sum == '/' || *sum == '%') && atol(sum + 1) == 0) return fail(d, m->text, "division by 0");
  return (*m->to || *m->from) || fail(d, m->text, "both sides are empty");
}

bool driver_maps_add(WeightMaps *maps, const char *text, Diags *d) {
  const char *colon = colon_of(text);
  if (!colon) return fail(d, text, "expected A:B, the beginning of a weight's name here and in the file");
  WeightMap m = {.text = text, .to = arena_strndup(maps->arena, text, (size_t)(colon - text)), .from = colon + 1};
  if (!check(&m, d)) return false;
  ARENA_PUSH(maps->arena, maps, m);
  return true;
}

/* ---- names */

/* Returns what follows A in the name, and sets *part to the n characters of its star; NULL if A does not fit. */
static const char *after(const char *to, const char *name, const char **part, size_t *n) {
  const char *star = strchr(to, '*');
  size_t before = star ? (size_t)(star - to) : strlen(to);
  if (strncmp(name, to, before) != 0) return NULL;
  name += before;
  if (star) {
    *part = name, *n = strcspn(name, ".");
    name += *n;
    if (!*n || strncmp(name, star + 1, strlen(star + 1)) != 0) return NULL;
    name += strlen(star + 1);
  }
  size_t length = strlen(to);
  bool ends = !*name || *name == '.' || !length || to[length - 1] == '.';
  return ends ? name : NULL;
}

static bool compute(char sign, long by, const char *part, size_t n, long *out) {
  if (n > MOST_DIGITS || strspn(part, "0123456789") < n) return false;
  const long x = atol(part);
  *out = sign == '/' ? x / by : sign == '%' ? x % by : sign == '+' ? x + by : x - by;
  return *out >= 0;
}

/* The name in the file; NULL if the map does not fit. */
static const char *mapped(Arena *a, const WeightMap *m, const char *name) {
  const char *part = NULL, *rest, *star = strchr(m->from, '*'), *sum = arithmetic(m->from);
  size_t n = 0;
  long number;
  if (!(rest = after(m->to, name, &part, &n))) return NULL;
  if (!star) return arena_printf(a, "%s%s", m->from, !*m->from && *rest == '.' ? rest + 1 : rest);
  if (!sum) return arena_printf(a, "%.*s%.*s%s%s", (int)(star - m->from), m->from, (int)n, part, star + 1, rest);
  if (!compute(*sum, atol(sum + 1), part, n, &number)) return NULL;
  const char *end = sum + 1 + strspn(sum + 1, "0123456789");
  return arena_printf(a, "%.*s%ld%s%s", (int)(star - m->from), m->from, number, end, rest);
}

const char *driver_maps_name(void *context, const char *name) {
  WeightMaps *maps = context;
  const char *found = NULL;
  for (size_t i = maps ? maps->n : 0; i-- > 0;) {
    const char *to = mapped(maps->arena, &maps->items[i], name);
    maps->items[i].met |= to != NULL;
    if (!found) found = to;
  }
  return found ? found : name;
}

bool driver_maps_check(WeightMaps *maps, const Module *m, Diags *d) {
  bool ok = true;
  for (size_t i = 0; maps && i < m->params.n; i++)
    if (m->params.items[i].init != INIT_PREPARED) driver_maps_name(maps, m->params.items[i].name);
  for (size_t i = 0; maps && i < maps->n; i++) {
    const WeightMap *map = &maps->items[i];
    if (map->met) continue;
    ok = diag_error(d, DIAG_usage_value, (Loc){0}, "--map %s: no weight of the model has a name that begins with '%s'",
                    map->text, map->to);
    Nearest near = nearest_to(map->to);
    for (size_t k = 0; k < m->params.n; k++) nearest_try(&near, m->params.items[k].name);
    if (near.best) diag_help(d, "the nearest name is '%s'", near.best);
    else if (m->params.n) diag_help(d, "the first weight is '%s'", m->params.items[0].name);
  }
  return ok;
}
