/* passes/pipeline.c - the compiler's level-1 passes, in order: this table is the pipeline.
 *
 *   front end -> [ inline -> lora -> fold -> channels_last -> rows -> views -> recognise -> heads -> joined -> train ->
 * dce
 *   -> narrow -> widen -> strided -> within -> prepare -> hoist -> unshare -> order -> group ] -> plan (search.c)
 *   -> lower_spmd (lower.c) -> Program
 *
 * The planner and later steps read the flat function.  passes/facts/blocks.h finds its repeated blocks; `group` writes
 * them into the operations' groups; `outline`, on demand, turns them into calls, which `inline` undoes.  No other file
 * orders passes.
 */
#include "passes/pipeline.h"

#include <string.h>
#include <time.h>

#include "base/die.h"
#include "passes/rewrite/passes.h"

typedef struct Pass {
  const char *name;
  bool (*run)(Module *m, Diags *diags);
  bool (*wanted)(const DeviceTraits *d); /* true for devices that need the pass; NULL: all devices need it */
  bool on_demand;                        /* not part of the pipeline */
  PassKeeps keeps;                       /* what comparing numbers can show where terms differ (check.h) */
  bool (*run_for)(Module *m, const PassOptions *o, Diags *diags); /* instead of `run`, for passes that depend on the
                                                                   * options */
} Pass;

static bool by_convolutions(const DeviceTraits *d) { return d->convolutions; }
static bool where_16_bits_widen(const DeviceTraits *d) { return !device_multiplies(d, DT_f16); }

static bool run_views(Module *m, const PassOptions *o, Diags *diags) {
  return o->train ? true : pass_views(m, diags); /* trained weights are kept whole: train/train.c */
}
static bool run_recognise(Module *m, const PassOptions *o, Diags *diags) {
  return pass_recognise(m, o->train ? train_marks(m, o->train, diags) : NULL, diags);
}
static bool run_train(Module *m, const PassOptions *o, Diags *diags) { return train_step(m, o->train, diags); }
static bool run_lora(Module *m, const PassOptions *o, Diags *diags) { return lora_apply(m, o->lora, diags); }
static bool run_narrow(Module *m, const PassOptions *o, Diags *diags) { return pass_narrow(m, o->floats, diags); }
static const DeviceTraits *device_of(const PassOptions *o) {
  return o->device ? o->device : target_device_traits(DEVICE_cpu);
}
static bool run_channels_last(Module *m, const PassOptions *o, Diags *diags) {
  return pass_channels_last(m, device_of(o), o->train != NULL, diags);
}
static bool run_heads(Module *m, const PassOptions *o, Diags *diags) { return pass_heads(m, device_of(o), diags); }
static bool run_joined(Module *m, const PassOptions *o, Diags *diags) { return pass_joined(m, device_of(o), diags); }
static bool run_widen(Module *m, const PassOptions *o, Diags *diags) { return pass_widen(m, device_of(o), diags); }
static bool run_strided(Module *m, const PassOptions *o, Diags *diags) { return pass_strided(m, device_of(o), diags); }

static const Pass passes[] = {
    {"inline", pass_inline, NULL, false, KEEPS_FIELD, NULL},
    {"lora", NULL, NULL, false, KEEPS_NOTHING, run_lora},
    {"fold", pass_fold, NULL, false, KEEPS_FIELD, NULL},
    {"channels_last", NULL, by_convolutions, false, KEEPS_FIELD, run_channels_last},
    {"rows", pass_rows, NULL, false, KEEPS_FIELD, NULL},
    {"views", NULL, NULL, false, KEEPS_FIELD, run_views},
    {"recognise", NULL, NULL, false, KEEPS_REALS, run_recognise},
    {"heads", NULL, NULL, false, KEEPS_FIELD, run_heads},
    {"joined", NULL, NULL, false, KEEPS_FIELD, run_joined},
    {"train", NULL, NULL, false, KEEPS_NOTHING, run_train},
    {"dce", pass_dce, NULL, false, KEEPS_FIELD, NULL},
    {"narrow", NULL, NULL, false, KEEPS_REALS, run_narrow},
    {"widen", NULL, where_16_bits_widen, false, KEEPS_REALS, run_widen},
    {"strided", NULL, NULL, false, KEEPS_FIELD, run_strided},
    {"within", pass_within, NULL, false, KEEPS_FIELD, NULL},
    {"prepare", pass_prepare, NULL, false, KEEPS_FIELD, NULL},
    {"hoist", pass_hoist, NULL, false, KEEPS_FIELD, NULL},
    {"unshare", pass_unshare, NULL, false, KEEPS_FIELD, NULL},
    {"order", pass_order, NULL, false, KEEPS_FIELD, NULL},
    {"group", pass_group, NULL, false, KEEPS_FIELD, NULL},
    {"outline", pass_outline, NULL, true, KEEPS_FIELD, NULL},
};

enum { PASSES = (int)(sizeof passes / sizeof passes[0]) };

const char *const *pipeline_names(void) {
  static const char *names[PASSES + 1];
  for (int i = 0; i < PASSES; i++) names[i] = passes[i].name;
  return names;
}

static double now_ms(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

static const char *running; /* printed if an invariant is broken */

static void say_pass(void *context) {
  (void)context;
  if (running) fprintf(stderr, "apc: while running pass %s\n", running);
}

/* Returns false if the user's sizes, taken together, cannot be computed. */
static bool keeps_rules(Module *m, const Pass *p, Diags *diags) {
  if (verify_module(m, diags)) return true;
  running = NULL;
  if (m->expr_fault) return false;
  running = p->name;
  diags_print(diags, stderr, false);
  die("pass %s left a module that breaks the rules", p->name);
}

static bool run_pass(Module *m, const Pass *p, const PassOptions *o, Diags *diags) {
  double start = now_ms();
  if (p->wanted && o->device && !p->wanted(o->device)) {
    if (o->print_after && strcmp(o->print_after, p->name) == 0)
      fprintf(o->dump, "# %s does not run for a %s\n", p->name, o->device->name);
    return true;
  }
  running = p->name;
  die_set_hook(say_pass, NULL);
  const PassWatch *watch = o->checks ? pipeline_watch(m) : NULL;
  bool ok = p->run ? p->run(m, diags) : p->run_for(m, o, diags);
  if (ok && (o->verify || (o->verify_last && m->expr_fault)) && !keeps_rules(m, p, diags)) return false;
  if (ok && watch) pipeline_check(o->checks, watch, m, p->name, p->keeps);
  running = NULL;
  if (o->times) fprintf(stderr, "%10.3f ms  %s\n", now_ms() - start, p->name);
  if (ok && o->print_after && (strcmp(o->print_after, "all") == 0 || strcmp(o->print_after, p->name) == 0)) {
    Text t = {.arena = m->arena};
    module_print(m, &t);
    fprintf(o->dump, "# after %s\n%s", p->name, text_str(&t));
  }
  return ok;
}

static const Pass *find_pass(const char *name, size_t n) {
  for (int i = 0; i < PASSES; i++)
    if (strlen(passes[i].name) == n && strncmp(passes[i].name, name, n) == 0) return &passes[i];
  return NULL;
}

bool pipeline_on_demand(const char *name) {
  const Pass *p = find_pass(name, strlen(name));
  return p && p->on_demand;
}

static bool run_all(Module *m, const PassOptions *o, Diags *diags) {
  const Pass *last = NULL;
  size_t given = m->made.n; /* the caller may still read the functions it passed; later ones are freed */
  for (int i = 0; i < PASSES; i++) {
    if (passes[i].on_demand) continue;
    if (!run_pass(m, last = &passes[i], o, diags)) return false;
    module_funcs_drop(m, given);
  }
  bool ok = !o->verify_last || o->verify || keeps_rules(m, last, diags);
  running = NULL;
  return ok;
}

bool pipeline_run(Module *m, const char *list, const PassOptions *o, Diags *diags) {
  size_t given = m->made.n;
  if (!list) return run_all(m, o, diags);
  while (*list) {
    size_t n = strcspn(list, ",");
    const Pass *p = find_pass(list, n);
    if (!p) return diag_error(diags, DIAG_pass_name, (Loc){0}, "there is no pass '%.*s'", (int)n, list);
    if (!run_pass(m, p, o, diags)) return false;
    module_funcs_drop(m, given);
    list += n;
    if (*list == ',') list++;
  }
  return true;
}
