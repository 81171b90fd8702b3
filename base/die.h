/* base/die.h - the end of the road: a broken invariant of ours (never bad user input), or no memory left.
 *
 * die() prints "apc: internal error: ..." and exits with code 70.  The pass manager registers a hook that adds the pass
 * and an excerpt of the IR.  die_out_of_memory() prints "apc: error: out of memory ..." and exits with the code of a
 * run-time failure.
 */
#ifndef APC_BASE_DIE_H
#define APC_BASE_DIE_H

_Noreturn void die(const char *format, ...) __attribute__((format(printf, 1, 2)));

enum { DIE_INTERNAL = 70, DIE_OUT_OF_MEMORY = 6 }; /* exit codes */

/* For what nothing can be done about where it happens; says what could not be had: "asking for 80 bytes". */
_Noreturn void die_out_of_memory(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* What malloc gave, or the end. */
static inline void *must_have(void *p, const char *what) {
  if (!p) die_out_of_memory("%s", what);
  return p;
}

/* Called by die() after its own line, before exit; may be NULL. */
void die_set_hook(void (*hook)(void *), void *context);

/* Called with the message and the exit code before the hook: for a report in another form.  NULL: nobody. */
void die_set_listener(void (*listener)(const char *message, int code, void *context), void *context);

#endif
