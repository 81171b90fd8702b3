/* base/secure.h - does this process have more rights than its user: a set-uid or set-gid program, or one with file
 * capabilities?  Then the user's environment and files must not decide what it loads and runs. */
#ifndef APC_BASE_SECURE_H
#define APC_BASE_SECURE_H

#include <stdbool.h>
#include <sys/auxv.h>

/* True in a program that runs with more rights than its user, as set-uid programs do (AT_SECURE of Linux). */
static inline bool secure_execution(void) { return getauxval(AT_SECURE) != 0; }

#endif
