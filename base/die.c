/* base/die.c - see die.h.  The hook is the one piece of process-wide state in the compiler. */
#include "base/die.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

static void (*die_hook)(void *);
static void *die_context;

void die_set_hook(void (*hook)(void *), void *context) {
  die_hook = hook;
  die_context = context;
}

_Noreturn void die(const char *format, ...) {
  va_list args;
  va_start(args, format);
  fputs("apc: internal error: ", stderr);
  vfprintf(stderr, format, args);
  fputc('\n', stderr);
  va_end(args);
  if (die_hook) {
    void (*hook)(void *) = die_hook;
    die_hook = NULL; /* a hook that dies itself must not recurse */
    hook(die_context);
  }
  exit(70);
}
