/* runtime/exec/entry_file.h - inputs or outputs of a request as tensors of a safetensors file, of which each rank reads
 * or writes its own parts.
 *
 * In: a file with a whole header and room for all tensors, made by the host (base/file.h, file_writer_open_shared), or
 * one to be read.  The header has to be that of the entry: its ports, by name, with types and shapes.  A part that
 * several ranks have is written by one of them (the mask of `fetch`), so every byte is written once, and the ranks'
 * sums of what they wrote (base/checksum.h) add up to those of the tensors.  Nothing is held of the file but one part
 * at a time, and on devices whose memory the host reaches not even that.
 *
 * Who writes does not read through the same descriptor, and data begins at a multiple of 4096: so clients of a network
 * file system hold no page that others write to.
 */
#ifndef APC_RUNTIME_EXEC_ENTRY_FILE_H
#define APC_RUNTIME_EXEC_ENTRY_FILE_H

#include "runtime/exec/internal.h"

/* Into e->file, once the entry is bound.  RT_BAD_INPUT names rank, file and what is wrong with it. */
RtStatus entry_file_open(Executor *e, const RequestFile *file, bool writes, RtError *error);

/* One call: the part of a tensor from the file, or to it.  What an entry gives beside reading is dropped. */
RtStatus entry_file_feed(const Executor *e, const DeviceCall *c, RtError *error);
RtStatus entry_file_fetch(const Executor *e, const DeviceCall *c, RtError *error);

/* With what was written on the disk unless `status` is an error, which it returns. */
RtStatus entry_file_close(Executor *e, RtStatus status, RtError *error);

#endif
