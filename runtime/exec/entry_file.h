/* runtime/exec/entry_file.h - inputs or outputs of a request as tensors of a safetensors file, of which each rank reads
 * or writes its own parts.
 *
 * In: a file with a complete header and room for all tensors, made by the host (base/file.h, file_writer_open_shared),
 * or one to be read.  Its header must match the entry: its ports, by name, with types and shapes.  If several ranks
 * have a part, one of them writes it (the mask of `fetch`), so every byte is written once, and the ranks' checksums of
 * their parts (base/checksum.h) add up to those of the tensors.  At most one part of the file is in memory at a time,
 * and none on devices whose memory the host can address; with REQUEST_COPY all parts of this rank, until each is
 * written.
 *
 * A writer does not read through the same descriptor, and data begins at a multiple of 4096: so clients of a network
 * file system cache no page that others write to.
 */
#ifndef APC_RUNTIME_EXEC_ENTRY_FILE_H
#define APC_RUNTIME_EXEC_ENTRY_FILE_H

#include "runtime/exec/internal.h"

/* Opens the file of a request into e->file, after the entry is bound; with request_is_of_state_file its tensors are the
 * program's states.  RT_BAD_INPUT names rank, file and fault. */
RtStatus entry_file_open(Executor *e, const RequestFile *file, uint32_t kind, RtError *error);

/* Execute one call: read the part of a tensor from the file, or write it.  Outputs of an entry that reads are
 * dropped. */
RtStatus entry_file_feed(const Executor *e, const DeviceCall *c, RtError *error);
RtStatus entry_file_fetch(const Executor *e, const DeviceCall *c, RtError *error);

/* state_file.c: writes this rank's parts of the states, unless a rank before it in the stage has the same part; or
 * reads them. */
RtStatus entry_file_states(Executor *e, RtError *error);

/* True if the open file is written. */
bool entry_file_writes(const Executor *e);

/* Moves a part of the tensor `name`, from `start` on, between the file and contiguous `data`. */
RtStatus entry_file_move(const Executor *e, const char *name, const int64_t *start, const int64_t *extents, char *data,
                         RtError *error);

/* Closes the file.  If `status` is RT_OK, waits until the written bytes are on the disk; else returns it. */
RtStatus entry_file_close(Executor *e, RtStatus status, RtError *error);

/* For REQUEST_COPY: `close` starts a thread that writes the copied parts.  Is it still writing?  Waits for it, returns
 * its status, and frees the copy; without one RT_OK.  Ends it early, for an executor that closes. */
bool entry_file_runs(const Executor *e);
RtStatus entry_file_join(Executor *e, RtError *error);
void entry_file_stop(Executor *e);

/* Executes a request for a box of a state (request_is_of_state), whose values are in the I/O area. */
RtStatus entry_file_state_box(Executor *e, const RequestHead *head, const int64_t *symbols, void *io, size_t io_bytes,
                              RtError *error);

#endif
