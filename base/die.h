/* base/die.h - the end of the road for a broken invariant of ours (never for bad user input).
 *
 * die() prints "apc: internal error: ..." and exits with code 70.  The pass manager registers a hook
 * that adds the pass and an excerpt of the IR.
 */
#ifndef APC_BASE_DIE_H
#define APC_BASE_DIE_H

_Noreturn void die(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Called by die() after its own line, before exit; may be NULL. */
void die_set_hook(void (*hook)(void *), void *context);

/* Called with the message before the hook: for a report in another form.  NULL: nobody. */
void die_set_listener(void (*listener)(const char *message, void *context), void *context);

#endif
