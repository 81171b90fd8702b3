/* runtime/train/checkpoint.h - weights and states of training as files.
 *
 * A checkpoint is DIR/checkpoint.safetensors: every state as a whole tensor, by name; and in the metadata the number of
 * steps, the data, and checksums of everything in the file (base/safetensors_sums.h).  It replaces the last one in one
 * instant, when all of it is on the disk.  States are whole, though each rank writes only its parts, so a program with
 * another plan, or another number of ranks, can continue from it.
 *
 * checkpoint_series.h decides when checkpoints are written and which of them stay.
 */
#ifndef APC_RUNTIME_TRAIN_CHECKPOINT_H
#define APC_RUNTIME_TRAIN_CHECKPOINT_H

#include "runtime/host/host.h"
#include "runtime/train/dataset.h"

/* Makes the folder, and checks that a checkpoint can be written there. */
ApcStatus checkpoint_can_write(ApcModel *m, const char *dir);
/* Checks that a file can be written. */
ApcStatus checkpoint_can_save(ApcModel *m, const char *file);

/* True if the folder has a checkpoint, whole or not. */
bool checkpoint_exists(const char *dir);

/* Returns the number of steps in the folder's checkpoint; 0 if there is none that can be read. */
int64_t checkpoint_steps(const char *dir);

/* Facts for the metadata. */
typedef struct CheckpointFacts {
  int64_t steps;
  Dataset *data;    /* NULL: unknown */
  double eval_loss; /* of an evaluation after these steps; NaN: none */
} CheckpointFacts;

/* Writes all states and the facts.  w not NULL: begins only, and the ranks write beside later steps (host_write_begin).
 */
ApcStatus checkpoint_write(ApcModel *m, const char *dir, const CheckpointFacts *facts, HostWrite **w);
/* Waits for the end of a checkpoint that began, and gives it its name.  *whole: it has it (host_write_end). */
ApcStatus checkpoint_write_end(ApcModel *m, const char *dir, HostWrite *w, bool *whole);
/* Restores the states of a folder's newest checkpoint, or of a .safetensors file, on the ranks if the file matches its
 * checksums, and reports the check.  Warns if the data differ from those of the checkpoint; data NULL: unknown. */
ApcStatus checkpoint_read(ApcModel *m, const char *dir, int64_t *steps, Dataset *data, const TrainWatch *watch);

/* Writes what the entry returns to a safetensors file: `weights`, or their `averages`. */
ApcStatus checkpoint_save(ApcModel *m, const char *entry, const char *file);

#endif
