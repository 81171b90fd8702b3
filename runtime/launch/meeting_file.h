/* runtime/launch/meeting_file.h - the file at which the ranks of a run meet: rank 0 publishes a short text in it, the
 * others read it.
 *
 * The text is the rendezvous' own (rendezvous.c) and begins with MEETING_FILE_BEGIN and the number of the run.  Rank 0
 * holds a lock on the file while it is published, if the file system knows locks.  A file that is there already is
 * replaced only when it is one of these, the same user's, and nobody holds it: a run that was killed has left it.  Any
 * other file is neither changed nor removed.
 */
#ifndef APC_RUNTIME_LAUNCH_MEETING_FILE_H
#define APC_RUNTIME_LAUNCH_MEETING_FILE_H

#include <stdbool.h>
#include <stddef.h>

#include "program/status.h"

#define MEETING_FILE_BEGIN "apc ranks meet in run "

/* Makes the file with the text, for its user alone; `secret`: fails where the file system lets others read it all the
 * same.  *held: its descriptor, for meeting_file_withdraw. */
RtStatus meeting_file_publish(const char *path, const char *text, bool secret, int *held, RtError *error);

/* What is published now, text[size]; "" with errno when there is nothing yet.  RT_BAD_INPUT when something is there
 * that rank 0 would not touch.  Never waits. */
RtStatus meeting_file_read(const char *path, char *text, size_t size, RtError *error);

/* Takes the file away, if it is still the one that was published, and closes `held`. */
void meeting_file_withdraw(const char *path, int held);

#endif
