/* tools/world.c - see world.h.
 *
 * The target of a number is that of the line with as many devices (driver_target_name), so that --target names the kind
 * of devices.  Every number has a build of its own, since rewrites may depend on the target.
 */
#include "tools/world.h"

#include <inttypes.h>
#include <string.h>

#include "base/json_text.h"
#include "driver/fewest.h"
#include "program/artifact.h"
#include "tools/emit.h"
#include "tools/plan_report.h"

typedef struct Worlds {
  Options given; /* the line without --world */
  int n;
  int ranks[ARTIFACT_MOST_WORLDS];
  const char *targets[ARTIFACT_MOST_WORLDS];
} Worlds;

static bool refuse(Tool *t, const char *text, const char *why) {
  return diag_error(t->diags, DIAG_usage_value, (Loc){0}, "--world %s: %s", text, why);
}

static bool add_world(Tool *t, const char *text, const char *word, Worlds *w) {
  int64_t v;
  if (!tool_parse_whole(word, &v) || v < 1 || v > PROGRAM_MAX_RANKS)
    return refuse(t, text, arena_printf(t->arena, "'%s' is not a number of ranks", word));
  for (int i = 0; i < w->n; i++)
    if (w->ranks[i] == v) return refuse(t, text, arena_printf(t->arena, "%" PRId64 " is there twice", v));
  if (w->n == ARTIFACT_MOST_WORLDS)
    return refuse(t, text, arena_printf(t->arena, "at most %d numbers are possible", ARTIFACT_MOST_WORLDS));
  w->ranks[w->n++] = (int)v;
  return true;
}

/* Reads the numbers and finds their targets. */
static bool read_worlds(Tool *t, Worlds *w) {
  const char *text = option_text(&t->options, OPT_world);
  w->given = t->options;
  w->n = 0;
  for (const char *p = text; p; p = strchr(p, ',') ? strchr(p, ',') + 1 : NULL)
    if (!add_world(t, text, arena_strndup(t->arena, p, strcspn(p, ",")), w)) return false;
  const Target *like = tool_target(t);
  for (int i = 0; like && i < w->n; i++) w->targets[i] = driver_target_name(t->arena, like, w->ranks[i]);
  return like != NULL;
}

static Options options_of(Tool *t, const Worlds *w, int i) {
  return options_with(t->arena, &w->given, OPT_target, w->targets[i]);
}

/* Refuses options that stand for one plan, or write a file of one. */
static bool check_options(Tool *t) {
  static const OptionId single[] = {OPT_save_plan, OPT_save_temps, OPT_asm, OPT_plan, OPT_configuration};
  for (size_t i = 0; i < sizeof single / sizeof *single; i++)
    if (option_given(&t->options, single[i]))
      return diag_error(t->diags, DIAG_usage_value, (Loc){0}, "%s needs one number of ranks; --world gives several",
                        option_rows[single[i]].flag);
  return true;
}

/* ---- compile */

static bool only_program(Tool *t, const EmitList *l) {
  if (l->n == 1 && l->items[0].kind == EMIT_EXE && strcmp(l->items[0].file, "-") != 0) return true;
  return diag_error(t->diags, DIAG_usage_value, (Loc){0}, "--emit: --world with several numbers makes a program only");
}

/* Plans for one number; the planner may have used fewer devices, as for replicas. */
static bool plan_one(Tool *t, const char *path, const Worlds *w, int i, Build *b) {
  t->options = options_of(t, w, i);
  const Target *target = tool_target(t);
  if (!target || !tool_load(t, path, target, b) || !tool_plan(t, b)) return false;
  return b->plan->ranks == w->ranks[i] ||
         diag_error(t->diags, DIAG_plan_infeasible, (Loc){0}, "--world: the plan for %d ranks has %d", w->ranks[i],
                    b->plan->ranks);
}

static void finished(Tool *t, const Worlds *w, const Build *builds, const char *out) {
  tool_stages_end(t);
  for (int i = 0; i < w->n; i++) {
    const Plan *p = builds[i].plan;
    tool_say(t, "Finished", "%s, %d rank%s: %s, predicted %s, %s per rank", out, w->ranks[i],
             w->ranks[i] == 1 ? "" : "s", tool_degrees_text(t->arena, p->degree, p->micro_batches),
             show_seconds(t->arena, p->price.time.total), show_bytes(t->arena, plan_memory(p)->total));
  }
}

static json_t *compiled_json(Tool *t, const char *path, const char *out, const Build *builds, int n) {
  json_t *worlds = json_array();
  for (int i = 0; i < n; i++) json_array_append_new(worlds, tool_plan_json(t, &builds[i]));
  return json_pack("{s:s, s:o, s:[o], s:o}", "schema", "apc.compile/1", "model", json_text(path), "files",
                   json_text(out), "worlds", worlds);
}

static bool compile(Tool *t, const char *path, const char *out, const Worlds *w, Build *builds, int *begun) {
  const Target *first = tool_target(t);
  bool ok = first && tool_can_compile(t, first->device);
  for (int i = 0; ok && i < w->n; i++) {
    ok = plan_one(t, path, w, i, &builds[i]);
    *begun = i + 1;
  }
  return ok && driver_write_all(builds, w->n, out);
}

static int compile_all(Tool *t, const Worlds *w) {
  static const EmitKind exe = EMIT_EXE;
  if (!tool_args(t, 1, 1)) return EXIT_USAGE;
  const char *path = t->options.args.items[0];
  EmitList list;
  if (!tool_emit_list(t, model_name(t->arena, path), &exe, &list) || !only_program(t, &list))
    return tool_failed(t->diags);
  Build *builds = ARENA_ARRAY(t->arena, Build, w->n);
  int begun = 0;
  bool ok = compile(t, path, list.items[0].file, w, builds, &begun);
  t->options = w->given;
  if (ok) finished(t, w, builds, list.items[0].file);
  if (ok && t->json) tool_json(t, compiled_json(t, path, list.items[0].file, builds, w->n));
  for (int i = 0; i < begun; i++) driver_free(&builds[i]);
  return ok ? EXIT_OK : tool_failed(t->diags);
}

/* ---- plan, verify */

static int plan_all(Tool *t, const Worlds *w, int (*command)(Tool *t)) {
  Text names = {.arena = t->arena};
  for (int i = 0; i < w->n; i++) text_printf(&names, "%s%s", i ? "," : "", w->targets[i]);
  t->options = options_with(t->arena, &w->given, OPT_target, text_str(&names));
  return command(t);
}

/* Returns the code of the first number that is not right. */
static int verify_all(Tool *t, const Worlds *w, int (*command)(Tool *t)) {
  json_t *documents = t->json ? json_array() : NULL;
  int code = EXIT_OK;
  t->collected = documents;
  for (int i = 0; i < w->n && code == EXIT_OK; i++) {
    t->options = options_of(t, w, i);
    if (!t->json) fprintf(t->results, "%s%d rank%s\n", i ? "\n" : "", w->ranks[i], w->ranks[i] == 1 ? "" : "s");
    code = command(t);
    if (code == EXIT_OK && t->diags->errors) code = tool_failed(t->diags);
  }
  t->options = w->given;
  t->collected = NULL;
  if (documents && json_array_size(documents))
    tool_json(
        t, json_pack("{s:s, s:O, s:b}", "schema", "apc.verifications/1", "worlds", documents, "ok", code == EXIT_OK));
  json_decref(documents);
  return code;
}

int tool_world(Tool *t, int (*command)(Tool *t)) {
  Worlds w;
  if (!read_worlds(t, &w)) return tool_failed(t->diags);
  if (w.n == 1) {
    t->options = options_of(t, &w, 0);
    return command(t);
  }
  if (!check_options(t)) return tool_failed(t->diags);
  switch (t->options.command) {
    case CMD_compile: return compile_all(t, &w);
    case CMD_plan: return plan_all(t, &w, command);
    case CMD_verify: return verify_all(t, &w, command);
    default: break;
  }
  diag_error(t->diags, DIAG_usage_value, (Loc){0}, "--world: apc %s runs one number of ranks; give it one, not %d",
             command_rows[t->options.command].name, w.n);
  return EXIT_USAGE;
}
