/* runtime/launch/meeting_file.h - the file at which the ranks of a run meet: rank 0 publishes a short text in it, the
 * others read it.
 *
 * rendezvous.c makes the text, which begins with MEETING_FILE_BEGIN and the number of the run.  Rank 0 holds a lock on
 * the file while it is published, if the file system has locks.  An existing file is replaced only if it is such a
 * file, belongs to the same user, and is not locked: a killed run has left it.  Any other file is neither changed nor
 * removed.
 */
#ifndef APC_RUNTIME_LAUNCH_MEETING_FILE_H
#define APC_RUNTIME_LAUNCH_MEETING_FILE_H

#include <stdbool.h>
#include <stddef.h>

#include "program/status.h"

#define MEETING_FILE_BEGIN "apc ranks meet in run "

/* Makes the file with the text, for its user alone.  `secret`: fails if the file system lets others read it anyway.
 * *held: its descriptor, for meeting_file_withdraw.  RT_BAD_INPUT if the name is taken or cannot be written. */
RtStatus meeting_file_publish(const char *path, const char *text, bool secret, int *held, RtError *error);

/* Reads the published text into text[size]; "" with errno if there is none yet.  RT_BAD_INPUT if the file is one that
 * rank 0 would not replace.  Never waits. */
RtStatus meeting_file_read(const char *path, char *text, size_t size, RtError *error);

/* Removes the file, if it is still the published one, and closes `held`. */
void meeting_file_withdraw(const char *path, int held);

#endif
