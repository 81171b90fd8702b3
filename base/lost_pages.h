/* base/lost_pages.h - mapped files that another process truncates while they are in use.
 *
 * Touching a page that the file no longer has raises SIGBUS, which ends a process silently.  A program of ours calls
 * lost_pages_handle once: then it ends in order, with the name of the file.  The library does not, since signal
 * handlers belong to the program it is linked into; there files are read instead of mapped (file_take in file.h).
 */
#ifndef APC_BASE_LOST_PAGES_H
#define APC_BASE_LOST_PAGES_H

#include <stdbool.h>
#include <stddef.h>

/* Calls `ended`, which must not return, in the thread that touches a lost page of a watched mapping.  Any other
 * SIGBUS goes to the previous handler. */
void lost_pages_handle(void (*ended)(const char *path, void *context), void *context);
/* True after lost_pages_handle. */
bool lost_pages_handled(void);

/* Registers a mapping and the name of its file, which is copied.  Does nothing if lost pages are not handled. */
void lost_pages_watch(const void *data, size_t bytes, const char *path);
void lost_pages_forget(const void *data); /* call it before unmapping; unknown mappings are allowed */

#endif
