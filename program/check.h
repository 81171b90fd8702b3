/* program/check.h - helpers shared by the two parts of the check of an image (check.c, check_instrs.c). */
#ifndef APC_PROGRAM_CHECK_H
#define APC_PROGRAM_CHECK_H

#include "program/program.h"

typedef struct Check {
  Program *p;
  RtError *error;
} Check;

/* Reports "... of SECTION[RECORD] is wrong" and returns false.  All messages have this form, so that they stay
 * short. */
static inline bool bad(Check *c, const char *section, uint32_t record, const char *what) {
  rt_error(c->error, RT_BAD_INPUT, "damaged program: %s of %s[%u] is wrong", what, section, record);
  return false;
}
#define NEED(condition, section, record, what) \
  do { \
    if (!(condition)) return bad(c, section, record, what); \
  } while (0)

/* True for valid indices of strings and expressions, valid lists, and valid element types. */
static inline bool text_ok(const Check *c, uint32_t text) { return text < c->p->n_strings; }
static inline bool expr_ok(const Check *c, uint32_t e) { return e < c->p->n_exprs; }
static inline bool list_ok(const Check *c, ProgramList l) { return (uint64_t)l.first + l.n <= c->p->n_indices; }
static inline bool dtype_ok(uint32_t t) { return t < DT_COUNT; }

/* True if `l` lists n expressions, none of which uses any of `banned`. */
static inline bool exprs_ok(const Check *c, ProgramList l, uint32_t n, uint8_t banned) {
  if (l.n != n || !list_ok(c, l)) return false;
  for (uint32_t i = 0; i < n; i++) {
    uint32_t e = c->p->indices[l.first + i];
    if (!expr_ok(c, e) || (c->p->expr_uses[e] & banned)) return false;
  }
  return true;
}

/* check_instrs.c: true if every instruction has the operands that its row of program.def requires.  All other sections
 * have been checked. */
bool program_check_instrs(Check *c);

#endif
