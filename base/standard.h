/* base/standard.h - the standard streams of a program. */
#ifndef APC_BASE_STANDARD_H
#define APC_BASE_STANDARD_H

#include <stdbool.h>
#include <stddef.h>

/* Call it before anything is opened.  If the caller closed a standard stream, the next file or shared memory would
 * get its number, and output would end there.  Opens a placeholder on which reads and writes fail, as if the stream
 * were still closed. */
void standard_hold(void);

/* From here on output on stdout is text for people: characters that are not plain (text.h), other than line ends and
 * tabs, are written as \xHH.  They can only come from names and files. */
void standard_show(void);
/* Begins or ends a part that is JSON, which has its own escapes. */
void standard_json(bool on);
/* Writes bytes unchanged, after the output so far. */
void standard_write(const void *bytes, size_t n);

/* True if all output so far was written. */
bool standard_output_written(void);

/* After standard_output_written failed: true if the reader of stdout is gone (SIGPIPE must be ignored).  Then
 * further output is dropped and counts as written.  False if it failed for another reason. */
bool standard_unread(void);

#endif
