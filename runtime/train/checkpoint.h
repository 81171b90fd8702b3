/* runtime/train/checkpoint.h - weights and states of training as files.
 *
 * A checkpoint is DIR/checkpoint.safetensors: every state whole, by name, and in the metadata how many steps were made,
 * with which data, and checksums of all that is in the file (base/safetensors_sums.h).  It replaces the one before in
 * one instant, when all of it is on the disk.  States are whole in it, though each rank writes its parts alone, so a
 * program that is cut otherwise, or has another number of ranks, goes on from it.
 */
#ifndef APC_RUNTIME_TRAIN_CHECKPOINT_H
#define APC_RUNTIME_TRAIN_CHECKPOINT_H

#include "runtime/train/dataset.h"

/* Makes the folder, and finds out whether a file can be written there. */
ApcStatus checkpoint_can_write(ApcModel *m, const char *dir);
/* The same for a file. */
ApcStatus checkpoint_can_save(ApcModel *m, const char *file);

/* Writes all states, how many steps were made, and with which data. */
ApcStatus checkpoint_write(ApcModel *m, const char *dir, int64_t steps, Dataset *data);
/* Gives them back to the ranks when the file is what was written, and says what was looked at.  Other data than before
 * are a warning. */
ApcStatus checkpoint_read(ApcModel *m, const char *dir, int64_t *steps, Dataset *data, const TrainWatch *watch);

/* Writes the trained weights. */
ApcStatus checkpoint_save(ApcModel *m, const char *file);

#endif
