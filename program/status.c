/* program/status.c - see status.h. */
#include "program/status.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/text.h"

/* Makes the text one line, whatever names and files it contains. */
static void tidy(RtError *error) {
  char text[RT_ERROR_TEXT];
  memcpy(text, error->text, sizeof text);
  text_show(text, error->text, sizeof error->text);
}

RtStatus rt_error(RtError *error, RtStatus status, const char *format, ...) {
  if (error && error->status == RT_OK) {
    va_list args;
    va_start(args, format);
    vsnprintf(error->text, sizeof error->text, format, args);
    va_end(args);
    tidy(error);
    error->status = status;
  }
  return status;
}

RtStatus rt_error_errno(RtError *error, RtStatus status, const char *format, ...) {
  int number = errno;
  if (status == RT_BAD_INPUT && (number == ENOMEM || number == EMFILE || number == ENFILE)) status = RT_FAILED;
  if (error && error->status == RT_OK) {
    va_list args;
    va_start(args, format);
    vsnprintf(error->text, sizeof error->text, format, args);
    va_end(args);
    size_t n = strlen(error->text);
    snprintf(error->text + n, sizeof error->text - n, ": %s", strerror(number));
    tidy(error);
    error->status = status;
  }
  return status;
}

int rt_exit_code(RtStatus status) {
  static const int codes[] = {
#define STATUS(name, exit_code, brief) exit_code,
#include "program/status.def"
#undef STATUS
  };
  return (unsigned)status < RT_STATUS_COUNT ? codes[status] : 70;
}

const char *rt_brief(RtStatus status) {
  static const char *const briefs[] = {
#define STATUS(name, exit_code, brief) brief,
#include "program/status.def"
#undef STATUS
  };
  return (unsigned)status < RT_STATUS_COUNT ? briefs[status] : "unknown status";
}
