/* base/standard.h - the standard streams of a program. */
#ifndef APC_BASE_STANDARD_H
#define APC_BASE_STANDARD_H

#include <stdbool.h>
#include <stddef.h>

/* Call it before anything is opened: a standard stream that the caller closed would otherwise get the number of the
 * next file or shared memory, and what is printed would end there.  Reading and writing such a stream fail, as if it
 * were still closed. */
void standard_hold(void);

/* From here on what is printed on stdout is text for people: what is not plain in it (text.h) other than line ends and
 * tabs, which can only come from names and files, is written as \xHH. */
void standard_show(void);
/* Begins (or ends) a part of it that is JSON, which has escapes of its own. */
void standard_json(bool on);
/* Writes bytes behind what was printed, as they are. */
void standard_write(const void *bytes, size_t n);

/* Whether all that was printed on standard output got there so far. */
bool standard_output_written(void);

/* After standard_output_written failed: true where the reader of standard output is gone (SIGPIPE has to be ignored).
 * Then what is printed from here on goes nowhere, and counts as written.  False: it failed for another reason. */
bool standard_unread(void);

#endif
