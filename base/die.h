/* base/die.h - fatal errors: a broken invariant of apc (never bad user input), or no memory left.
 *
 * die() prints "apc: internal error: ..." and exits with code 70.  The pass manager registers a hook that adds the
 * pass and an excerpt of the IR. die_out_of_memory() prints "apc: error: out of memory ..." and exits with the code
 * of a run-time failure.
 */
#ifndef APC_BASE_DIE_H
#define APC_BASE_DIE_H

/* Reports a broken invariant and exits with code 70. */
_Noreturn void die(const char *format, ...) __attribute__((format(printf, 1, 2)));

enum { DIE_INTERNAL = 70, DIE_OUT_OF_MEMORY = 6 }; /* exit codes */

/* Reports a failed allocation that the caller cannot handle, and exits; the text says what failed: "asking for 80
 * bytes". */
_Noreturn void die_out_of_memory(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Returns p; dies if it is NULL.  For the results of malloc. */
static inline void *must_have(void *p, const char *what) {
  if (!p) die_out_of_memory("%s", what);
  return p;
}

/* Sets a function that die() calls after its own line, before it exits; NULL if none. */
void die_set_hook(void (*hook)(void *), void *context);

/* Sets a function that receives the message and the exit code, before the hook, to report them in another form; NULL
 * if none. */
void die_set_listener(void (*listener)(const char *message, int code, void *context), void *context);

#endif
