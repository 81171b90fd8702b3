/* driver/away.c - what a plan keeps outside the memory of the devices (--offload).
 *
 * The module says where each state lives (State.away), so search, prices, lowering and programs see the same; the plan
 * file says it in a line `offload`.  `auto` keeps everything in the devices' memory as long as some plan fits.
 */
#include <math.h>

#include "driver/driver.h"
#include "driver/internal.h"
#include "passes/plan/file.h"

static bool known_rate(const Build *b, Diags *d) {
  const Target *t = b->options.target;
  if (target_away(t) > 0) return true;
  diag_error(d, DIAG_plan_options, (Loc){0}, "--offload needs the rate of %s, which %s does not have",
             t->device->shared_memory ? "the disk" : "PCIe", t->name);
  diag_help(d, "`%s NAME at RATE;` in the machine's block says it", t->device->shared_memory ? "disk" : "pcie");
  return false;
}

static bool begin(Build *b, Offload what) {
  Diags *d = b->options.model.diags;
  const Offload now = what == OFFLOAD_auto ? OFFLOAD_none : what;
  offload_apply(b->model.m, now);
  if (now == OFFLOAD_none) return true;
  if (offload_of(b->model.m) == OFFLOAD_none)
    return diag_error(d, DIAG_plan_options, (Loc){0}, "--offload %s: the optimizer has none", offload_name(what));
  return known_rate(b, d);
}

bool driver_begin_away(Build *b, const PlanFile *file) {
  const DriverOptions *o = &b->options;
  const bool says = file && (!file->complete || file->offload_loc.line);
  if (!says) return begin(b, o->offload);
  if (file->offload != OFFLOAD_none && !o->model.train)
    return diag_error(o->model.diags, DIAG_plan_options, file->offload_loc, "offload %s needs --train",
                      offload_name(file->offload));
  if (o->offload_given && o->offload != OFFLOAD_auto && o->offload != file->offload)
    return diag_error(o->model.diags, DIAG_plan_options, (Loc){.file = o->plan_file},
                      "--offload %s contradicts the plan, which has %s", offload_name(o->offload),
                      offload_name(file->offload));
  return begin(b, file->offload);
}

bool driver_put_away(Build *b) {
  const DriverOptions *o = &b->options;
  if (o->offload != OFFLOAD_auto || !o->model.train || o->plan_file) return false;
  if (offload_of(b->model.m) != OFFLOAD_none || driver_is_stopped(b)) return false;
  Diags *ignored = diags_new(o->model.arena);
  if (!known_rate(b, ignored)) return false;
  offload_apply(b->model.m, OFFLOAD_moments);
  if (offload_of(b->model.m) == OFFLOAD_none) return false;
  if (o->plan.known) *o->plan.known = NULL; /* its bounds are of plans with all states in memory */
  driver_watch_say(&o->model.watch, o->model.arena, "Planning", "nothing fits: the moments live %s",
                   o->target->device->shared_memory ? "in files" : "in the hosts' memory");
  return true;
}
