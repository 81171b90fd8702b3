/* base/die.c - see die.h.  The hooks are the one piece of process-wide state in the compiler. */
#include "base/die.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/text.h"

static void (*die_hook)(void *);
static void *die_context;
static void (*die_listener)(const char *, void *);
static void *listener_context;

void die_set_listener(void (*listener)(const char *, void *), void *context) {
  die_listener = listener;
  listener_context = context;
}

void die_set_hook(void (*hook)(void *), void *context) {
  die_hook = hook;
  die_context = context;
}

_Noreturn void die(const char *format, ...) {
  char message[4096], shown[4096];
  va_list args;
  va_start(args, format);
  vsnprintf(message, sizeof message, format, args);
  va_end(args);
  text_show(message, shown, sizeof shown);
  fprintf(stderr, "apc: internal error: %s\n", shown);
  if (die_listener) {
    void (*listener)(const char *, void *) = die_listener;
    die_listener = NULL;
    listener(message, listener_context);
  }
  if (die_hook) {
    void (*hook)(void *) = die_hook;
    die_hook = NULL; /* a hook that dies itself must not recurse */
    hook(die_context);
  }
  exit(70);
}
