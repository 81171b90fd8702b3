/* runtime/exec/marks.c - which calls of a list a device marks, for the watchdog.
 *
 * In: the list of a body.  Out: whether a mark precedes a call, and the last call that a mark stands for.
 *
 * A mark costs about as much as the launch of a short kernel, in a graph too.  So only some calls are marked: the first
 * of a body, every MARK_EVERY-th, communication and waits for it, everything where the host reads data, calls that are
 * replayed as one, and the call after one at which the host may go elsewhere in the list: a stretch does not reach over
 * a jump.  A late rank is between two marks, and its error names the first and the last call there.  With
 * --profile, --trace and APC_EAGER=1 every call is marked.
 *
 * The rule uses nothing but the calls since the last mark, so the end of a stretch follows from its first call. */
#include "runtime/exec/internal.h"

enum { MARK_EVERY = 16 };

/* The device does nothing for these. */
static bool is_silent(const DeviceCall *c) { return c->skipped || c->kind == PI_check; }

/* True for calls after which another call than the next one in the list, or other numbers of it, may follow. */
static bool may_jump(const DeviceCall *c) { return c->kind == PI_loop || c->kind == PI_repeat || c->kind == PI_bind; }

/* True for calls at which a rank may wait for others or for its host. */
static bool may_wait(const DeviceCall *c) {
  return program_instr_is_comm(c->kind) || c->kind == PI_wait || may_jump(c);
}

static uint32_t replayed(const Executor *e, const BoundBody *b, uint32_t i) {
  return b->recordings && !e->record ? b->recordings[i].n : 0;
}

bool exec_is_marked(const Executor *e, const BoundBody *b, uint32_t i, uint32_t *since) {
  const DeviceCall *c = &b->calls.items[i];
  if (is_silent(c)) return false;
  uint32_t n = replayed(e, b, i);
  bool marked = *since == 0 || *since >= MARK_EVERY || n || may_wait(c) || e->record || e->options.eager;
  *since = n || may_jump(c) ? 0 : marked ? 1 : *since + 1; /* the call after replayed ones or a jump is marked */
  return marked;
}

/* Returns the body of the current binding that contains the instruction, NULL if there is none. */
static const BoundBody *body_of(const Executor *e, uint32_t instr) {
  const Program *p = e->p;
  for (uint32_t i = 0; e->binding && i < p->n_bodies; i++) {
    const ProgramBody *b = &p->bodies[i];
    bool listed = e->binding->bodies[i].calls.items != NULL;
    if (listed && b->instrs <= instr && instr < b->instrs + b->n) return &e->binding->bodies[i];
  }
  return NULL;
}

uint32_t exec_mark_end(const Executor *e, uint32_t step) {
  uint32_t instr = exec_step_instr(step), since = 0, last = step;
  const BoundBody *b = exec_step_loads(step) ? NULL : body_of(e, instr);
  if (!b) return step;
  uint32_t i = instr - b->calls.items[0].instr, stop = i + replayed(e, b, i);
  exec_is_marked(e, b, i, &since);
  for (i++; i < b->calls.n; i++) {
    if (i >= stop && exec_is_marked(e, b, i, &since)) break;
    if (!is_silent(&b->calls.items[i])) last = step + (b->calls.items[i].instr - instr);
  }
  return last;
}
