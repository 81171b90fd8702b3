/* runtime/stub/checkpoint.h - weights and states of training as files.
 *
 * A checkpoint is DIR/checkpoint.safetensors: every state whole, by name, and in the metadata how many steps were made.
 * It replaces the one before in one instant, when all of it is on the disk.  States are whole in it, though each rank
 * writes its parts alone, so a program that is cut otherwise, or has another number of ranks, goes on from it.
 */
#ifndef APC_RUNTIME_STUB_CHECKPOINT_H
#define APC_RUNTIME_STUB_CHECKPOINT_H

#include "runtime/stub/stub.h"

/* Makes the folder, and finds out whether a file can be written there; an exit code after an error, else 0. */
int checkpoint_can_write(ApcModel *m, const char *dir);
/* The same for a file. */
int checkpoint_can_save(ApcModel *m, const char *file);

/* Writes all states, and how many steps were made. */
int checkpoint_write(ApcModel *m, const char *dir, int64_t steps);
/* Gives them back to the ranks. */
int checkpoint_read(ApcModel *m, const char *dir, int64_t *steps);

/* Writes the trained weights. */
int checkpoint_save(ApcModel *m, const char *file);

#endif
