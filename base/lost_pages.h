/* base/lost_pages.h - mapped files that somebody cuts short while they are used.
 *
 * Touching a page that the file no longer has raises SIGBUS, which ends a process without a word.  A process that is
 * ours alone calls lost_pages_handle once: then it ends in order, with the name of the file.  The library does not:
 * handlers of signals belong to the program it is part of, so it maps no files there but reads them (file_take in
 * file.h).
 */
#ifndef APC_BASE_LOST_PAGES_H
#define APC_BASE_LOST_PAGES_H

#include <stdbool.h>
#include <stddef.h>

/* From here on a lost page of a watched mapping calls `ended`, which does not return, in the thread that touched it.
 * Any other SIGBUS goes where it went before. */
void lost_pages_handle(void (*ended)(const char *path, void *context), void *context);
bool lost_pages_handled(void);

/* A mapping, and the name of its file, which is copied.  Nothing happens in a process that does not handle lost
 * pages. */
void lost_pages_watch(const void *data, size_t bytes, const char *path);
void lost_pages_forget(const void *data); /* before it is unmapped; what is not watched is allowed */

#endif
