/* runtime/meeting_file.h - the file at which the ranks of a run meet: rank 0 publishes a short text in it, the others read it.
 *
 * The text is the rendezvous' own (rendezvous.c); here it is only bytes in a file.
 */
#ifndef APC_RUNTIME_MEETING_FILE_H
#define APC_RUNTIME_MEETING_FILE_H

#include <stdbool.h>
#include <stddef.h>

#include "runtime/status.h"

/* Makes the file with the text, whole at once. */
RtStatus meeting_file_publish(const char *path, const char *text, RtError *error);

/* What is published now; false with errno when there is nothing, or the file is none that rank 0 makes.  Never waits. */
bool meeting_file_read(const char *path, char *text, size_t size);

/* Takes away what was published as `text`. */
void meeting_file_withdraw(const char *path, const char *text);

#endif
