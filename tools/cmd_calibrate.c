/* tools/cmd_calibrate.c - apc calibrate [--target T] -o FILE: measures this machine and writes a target file with its
 * figures.
 *
 * Writes the file at the end, as a whole or not at all: an interrupted run leaves nothing.
 */
#include <stdio.h>
#include <string.h>
#include <sys/utsname.h>
#include <time.h>

#include "base/file.h"
#include "base/json_text.h"
#include "frontend/topo/target.h"
#include "runtime/session/session.h"
#include "tools/calibrate.h"

/* ---- checks of target and file */

static bool is_topo(const char *path) {
  size_t n = strlen(path);
  return n > 5 && strcmp(path + n - 5, ".topo") == 0;
}

static bool check_out(Tool *t, const char *path) {
  if (!path) {
    diag_error(t->diags, DIAG_usage_option, (Loc){0}, "`apc calibrate` needs -o FILE.topo for the measured figures");
    return false;
  }
  if (!is_topo(path))
    return diag_error(t->diags, DIAG_usage_value, (Loc){0}, "-o '%s': target files have the extension .topo", path);
  return file_write_check(t->diags, path);
}

static bool check_cpu(Tool *t, const Target *g) {
  int cores = session_threads_per_rank(1);
  if (strcmp(g->machine, "cpu") != 0 && strcmp(g->machine, "local") != 0)
    return diag_error(t->diags, DIAG_calibrate, (Loc){0},
                      "%s is another machine: `apc calibrate` measures this one, as cpu, cpuxN, local or localxN",
                      g->name);
  return g->ranks <= cores ||
         diag_error(t->diags, DIAG_calibrate, (Loc){0},
                    "%s has %d ranks, but this machine has %d core%s: ranks that share a core cannot be measured",
                    g->name, g->ranks, cores, cores == 1 ? "" : "s");
}

static bool check_gpu(Tool *t, const Target *g) {
  return g->nodes <= 1 || diag_error(t->diags, DIAG_calibrate, (Loc){0},
                                     "%s has %d machines, but `apc calibrate` measures only this one: at most %d ranks",
                                     g->name, g->nodes, g->per_machine);
}

/* ---- who measured what, and when */

static const char *processor(Arena *a) {
  char line[512];
  FILE *f = fopen("/proc/cpuinfo", "r");
  const char *name = NULL;
  while (f && !name && fgets(line, sizeof line, f)) {
    char *colon = strchr(line, ':');
    if (strncmp(line, "model name", 10) != 0 || !colon) continue;
    line[strcspn(line, "\n")] = 0;
    name = arena_strdup(a, colon + 1 + strspn(colon + 1, " "));
  }
  if (f) fclose(f);
  struct utsname u;
  return name && !strchr(name, '"') ? name : uname(&u) == 0 ? arena_strdup(a, u.machine) : "unknown processor";
}

static const char *source_of(Calibrate *c) {
  char date[16];
  time_t now = time(NULL);
  struct tm tm;
  int cores = session_threads_per_rank(1);
  strftime(date, sizeof date, "%Y-%m-%d", gmtime_r(&now, &tm));
  return arena_printf(c->arena, TARGET_MEASURED " on %s: %s, %d core%s, for %s", date, processor(c->arena), cores,
                      cores == 1 ? "" : "s", c->target->name);
}

/* ---- the file */

static bool write_file(Calibrate *c, const char *path) {
  Arena *a = c->arena;
  const char *text =
      arena_printf(a, "# Figures of this machine, by `apc calibrate` (docs/guide/targets.md).\n%s  source \"%s\";\n}\n",
                   text_str(&c->blocks), source_of(c));
  if (!topo_target_parse(c->t->diags, a, path, text, NULL, 0))
    return false; /* do not write a file that apc cannot
                     read */
  return file_write(c->t->diags, path, 0666, text, strlen(text));
}

static void print_json(Calibrate *c, const char *path) {
  const Target *g = topo_target_find(c->t->diags, c->arena, path);
  tool_json(c->t, json_pack("{s:s, s:o, s:o, s:o, s:O, s:f}", "schema", "apc.calibrate/1", "file", json_text(path),
                            "source", json_text(source_of(c)), "target", g ? tool_target_json(g) : json_null(),
                            "measured", c->measured, "took_s", (tool_now_ms() - c->t->start_ms) / 1e3));
}

static int calibrate(Calibrate *c, const char *path) {
  Tool *t = c->t;
  bool cpu = c->target->device->kind == DEVICE_cpu;
  if (!tool_can_compile(t, c->target->device) || !temporary_open(t->diags, t->arena, &c->scratch))
    return tool_failed(t->diags);
  bool ok = cpu ? calibrate_cpu(c) : calibrate_gpu(c);
  temporary_close(&c->scratch);
  if (!ok) return c->code ? c->code : tool_failed(t->diags);
  if (!write_file(c, path)) return tool_failed(t->diags);
  tool_stages_end(t);
  tool_say(t, "Finished", "%s in %.1f s: --target %s, or APC_CALIBRATION=%s for --target %s", path,
           (tool_now_ms() - t->start_ms) / 1e3, path, path, c->target->name);
  if (option_given(&t->options, OPT_json)) print_json(c, path);
  return EXIT_OK;
}

int cmd_calibrate(Tool *t) {
  const double usual = 40; /* seconds */
  const char *path = option_text(&t->options, OPT_out);
  if (!tool_args(t, 0, 0)) return EXIT_USAGE;
  if (!check_out(t, path)) return tool_failed(t->diags);
  const Target *g = tool_target_fixed(t);
  if (!g || !(g->device->kind == DEVICE_cpu ? check_cpu : check_gpu)(t, g)) return tool_failed(t->diags);
  Calibrate c = {.t = t,
                 .arena = t->arena,
                 .target = g,
                 .seconds = option_real(&t->options, OPT_effort, usual),
                 .measured = json_array(),
                 .blocks = {.arena = t->arena}};
  int code = calibrate(&c, path);
  json_decref(c.measured);
  return code;
}
