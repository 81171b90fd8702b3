/* base/die.c - see die.h.  The hooks are the only process-wide state of the compiler. */
#include "base/die.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/text.h"

static void (*die_hook)(void *);
static void *die_context;
static void (*die_listener)(const char *, int, void *);
static void *listener_context;

void die_set_listener(void (*listener)(const char *, int, void *), void *context) {
  die_listener = listener;
  listener_context = context;
}

void die_set_hook(void (*hook)(void *), void *context) {
  die_hook = hook;
  die_context = context;
}

static void say(const char *format, va_list args, const char *what, int code) {
  char message[4096], shown[4096];
  size_t n = (size_t)snprintf(message, sizeof message, "%s", what);
  vsnprintf(message + n, sizeof message - n, format, args);
  text_show(message, shown, sizeof shown);
  fprintf(stderr, "apc: %s\n", shown);
  if (!die_listener) return;
  void (*listener)(const char *, int, void *) = die_listener;
  die_listener = NULL; /* a listener that calls die itself must not recurse */
  listener(message, code, listener_context);
}

_Noreturn void die(const char *format, ...) {
  va_list args;
  va_start(args, format);
  say(format, args, "internal error: ", DIE_INTERNAL);
  va_end(args);
  if (die_hook) {
    void (*hook)(void *) = die_hook;
    die_hook = NULL; /* as above */
    hook(die_context);
  }
  exit(DIE_INTERNAL);
}

_Noreturn void die_out_of_memory(const char *format, ...) {
  va_list args;
  va_start(args, format);
  say(format, args, "error: out of memory ", DIE_OUT_OF_MEMORY);
  va_end(args);
  exit(DIE_OUT_OF_MEMORY);
}
