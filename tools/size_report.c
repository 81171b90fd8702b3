/* tools/size_report.c - see size.h: the tries as a table and as JSON (apc.size/1), and the answer. */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/json_text.h"
#include "tools/size.h"

static const char *const vary_words[] = {"devices", "batch", "ctx", "layers", "d"};

const char *sizing_word(const Sizing *s, int64_t number) {
  return s->vary == VARY_devices && number == 1 ? "device" : vary_words[s->vary];
}

/* ---- the table */

static int by_number(const void *a, const void *b) {
  const SizeTry *x = a, *y = b;
  return (x->number > y->number) - (x->number < y->number);
}

/* If the search did not end, a better plan may exist. */
static const char *seconds_text(Arena *a, const SizeTry *x) {
  if (!isfinite(x->seconds)) return "-";
  return arena_printf(a, "%s%s", x->whole ? "" : "at most ", show_seconds(a, x->seconds));
}

static const char *usd_text(Arena *a, const SizeTry *x) {
  if (!isfinite(x->usd)) return "-";
  return arena_printf(a, "%s%.3g", x->whole ? "" : "at most ", x->usd);
}

static bool is_priced(const Sizing *s) {
  for (size_t i = 0; i < s->tries.n; i++)
    if (isfinite(s->tries.items[i].usd)) return true;
  return false;
}

static void show_row(const Sizing *s, const SizeTry *x, bool priced) {
  Arena *a = s->t->arena;
  printf("  %8s  %18s  %12s", show_count(a, x->number), seconds_text(a, x),
         isfinite(x->bytes) ? show_bytes(a, x->bytes) : "-");
  if (priced) printf("  %17s", usd_text(a, x));
  if (x->why_not) printf("  %s", x->why_not);
  putchar('\n');
}

static const char *limits_text(const Sizing *s) {
  Arena *a = s->t->arena;
  const Budget *b = &s->budget;
  Text t = {.arena = a};
  const SizeTry *last = &s->tries.items[s->tries.n - 1];
  if (last->limit > 0) text_printf(&t, ", %s a device", show_bytes(a, last->limit));
  if (b->seconds > 0) text_printf(&t, ", %s a step", show_seconds(a, b->seconds));
  if (b->usd > 0) text_printf(&t, ", %.3g USD a step", b->usd);
  return text_str(&t);
}

static void show_head(const Sizing *s) {
  const Target *g = s->target;
  Arena *a = s->t->arena;
  if (s->vary == VARY_devices)
    printf("%s on devices of %s%s; %s parameters\n", s->path, g->name, limits_text(s), show_count(a, s->params));
  else printf("%s on %s%s: %s\n", s->path, g->name, limits_text(s), tool_target_line(a, g));
}

/* ---- the answer */

const char *sizing_reached(const Sizing *s, const SizeTry *x) {
  Arena *a = s->t->arena;
  const char *text = arena_printf(a, "%s a step, %s a device", show_seconds(a, x->seconds), show_bytes(a, x->bytes));
  return isfinite(x->usd) ? arena_printf(a, "%s, %.3g USD a step", text, x->usd) : text;
}

/* Returns the smallest tried value above the answer; NULL if none. */
static const SizeTry *first_above(const Sizing *s, const SizeTry *answer) {
  for (size_t i = 0; i < s->tries.n; i++)
    if (s->tries.items[i].number > answer->number) return &s->tries.items[i];
  return NULL;
}

/* Micro-batches can make almost any batch fit, so the text names another option. */
static const char *pieces_text(const Sizing *s, const SizeTry *x) {
  if (s->vary != VARY_batch || x->micro_batches <= 1) return "";
  return arena_printf(s->t->arena, "; in %s micro-batches (--micro-batches 1 finds the largest in one piece)",
                      show_count(s->t->arena, x->micro_batches));
}

static const char *command_text(const Sizing *s, const SizeTry *x) {
  Options line = sizing_line(s, x->target, x->number);
  return sizing_line_text(s, &line);
}

static void show_answer(const Sizing *s, const SizeTry *x) {
  Arena *a = s->t->arena;
  const SizeTry *above = s->vary == VARY_devices ? NULL : first_above(s, x);
  if (s->vary == VARY_devices) printf("\nfewest devices: %" PRId64 " (%s)", x->number, x->target);
  else if (above)
    printf("\nlargest %s: %s (%s does not fit)", sizing_word(s, 2), show_count(a, x->number),
           show_count(a, above->number));
  else
    printf("\nlargest %s: %s (%s)", sizing_word(s, 2), show_count(a, x->number),
           s->most_of_model ? "the model allows no more" : "no larger one was tried");
  printf(": %s%s\n", sizing_reached(s, x), pieces_text(s, x));
  printf("the plan: %s\n", command_text(s, x));
}

static void show(const Sizing *s, const SizeTry *answer) {
  bool priced = is_priced(s);
  show_head(s);
  printf("\n  %8s  %18s  %12s%s\n", sizing_word(s, 2), "time per step", "per device",
         priced ? arena_printf(s->t->arena, "  %17s", "USD per step") : "");
  for (size_t i = 0; i < s->tries.n; i++) show_row(s, &s->tries.items[i], priced);
  if (answer) show_answer(s, answer);
}

/* ---- JSON */

static json_t *bytes_json(double v) { return isfinite(v) ? json_integer((json_int_t)llround(v)) : json_null(); }

static json_t *or_null(double v) { return v > 0 ? json_real(v) : json_null(); }

static double memory_bytes(const Sizing *s) {
  double v = s->budget.bytes;
  return v < 0 ? -v * s->target->memory_bytes : v;
}

static json_t *try_json(const Sizing *s, const SizeTry *x) {
  json_t *o = json_pack("{s:I, s:s, s:b, s:b, s:o, s:o, s:o}", s->vary == VARY_devices ? "devices" : "value",
                        (json_int_t)x->number, "target", x->target, "fits", x->fits, "at_most",
                        isfinite(x->seconds) && !x->whole, "time_us", tool_json_real(x->seconds * 1e6),
                        "bytes_per_device", bytes_json(x->bytes), "usd_per_step", tool_json_real(x->usd));
  json_object_set_new(o, "why_not", x->why_not ? json_text(x->why_not) : json_null());
  return o;
}

static json_t *answer_json(const Sizing *s, const SizeTry *x) {
  if (!x) return json_null();
  json_t *o = try_json(s, x);
  const SizeTry *above = s->vary == VARY_devices ? NULL : first_above(s, x);
  json_object_del(o, "why_not");
  json_object_del(o, "fits");
  json_object_del(o, "at_most");
  if (s->vary != VARY_devices)
    json_object_set_new(o, "does_not_fit", above ? json_integer((json_int_t)above->number) : json_null());
  json_object_set_new(o, "command", json_text(command_text(s, x)));
  return o;
}

static json_t *sizing_json(const Sizing *s, const SizeTry *answer) {
  json_t *tried = json_array();
  for (size_t i = 0; i < s->tries.n; i++) json_array_append_new(tried, try_json(s, &s->tries.items[i]));
  const Budget *b = &s->budget;
  json_t *budget = json_pack("{s:o, s:o, s:o}", "bytes_per_device", or_null(memory_bytes(s)), "time_us",
                             or_null(b->seconds * 1e6), "usd_per_step", or_null(b->usd));
  return json_pack("{s:s, s:o, s:o, s:o, s:o, s:o, s:o}", "schema", "apc.size/1", "model", json_text(s->path), "target",
                   json_text(s->target->name), "vary",
                   s->vary == VARY_devices ? json_null() : json_string(vary_words[s->vary]), "budget", budget, "tried",
                   tried, "answer", answer_json(s, answer));
}

/* Rows are ordered by number; the answer is one of them. */
void sizing_report(Sizing *s, const SizeTry *answer) {
  SizeTry kept;
  if (answer) kept = *answer;
  qsort(s->tries.items, s->tries.n, sizeof *s->tries.items, by_number);
  if (answer) answer = &kept;
  if (option_given(&s->t->options, OPT_json)) tool_json(s->t, sizing_json(s, answer));
  else show(s, answer);
}
