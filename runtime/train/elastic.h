/* runtime/train/elastic.h - a training run that goes on when ranks are lost, with the plan for the ranks that are left.
 *
 * For ranks that this process starts.  After every step all ranks copy their parts of the states into memory of this
 * process (memfd_create), in two copies of which one is always complete.  When a rank dies, is stopped or makes no
 * progress, the session ends all ranks; new ones start with the artifact's Program for the next smaller number, read
 * the newest copy, and the run goes on after its step.  A rank that gets SIGTERM leaves after the step.  The lost ranks
 * are started again at the next periodic checkpoint, or BACK_STEPS later without one.  The global batch and the rows of
 * every step are the same for any number of ranks.  A checkpoint that is being written when ranks are lost is given up;
 * before other ranks start for another reason, it is ended.
 *
 * Not done: copies in the memory of other machines; the ranks of a launcher meet again (runtime/launch/regroup.h) and
 * go on from the checkpoint.
 */
#ifndef APC_RUNTIME_TRAIN_ELASTIC_H
#define APC_RUNTIME_TRAIN_ELASTIC_H

#include "runtime/train/checkpoint_series.h"

typedef struct Elastic Elastic;

/* Begins an elastic run of the program's present number of ranks, before they start.  *out is set even after an error;
 * free it with elastic_close. */
ApcStatus elastic_open(ApcModel *m, const Training *t, Series *series, Elastic **out);
/* Says what the run cost, and frees everything; NULL is allowed. */
void elastic_close(Elastic *e);

/* After a completed step: copies the states; ranks that asked to leave are gone when it returns. */
ApcStatus elastic_keep(Elastic *e, int64_t made);

/* After `status`: if ranks were lost, continues with others from the newest states, sets *made to their step and
 * returns APC_OK; else returns the status. */
ApcStatus elastic_recover(Elastic *e, ApcStatus status, Dataset *data, int64_t *made);

/* At a step boundary with a copy of its states: starts the lost ranks again if it is time.  `checkpoint`: one was just
 * written. */
ApcStatus elastic_take_back(Elastic *e, int64_t made, bool checkpoint);

#endif
