/* runtime/device/cuda/looks.c - the first index outside its table, which kernels note in pinned memory
 * (program/index_fault.h); see cuda.h.
 *
 * A call returns before the device gets to it, so nothing waits for the note: the executor reads it wherever it has
 * waited anyway.  Kernels write it only for an invalid index, and a graph has the same address in it.
 */
#include <string.h>

#include "base/tensor.h"
#include "runtime/device/cuda/cuda.h"

RtStatus gpu_looks_open(CudaDevice *d, RtError *error) {
  bool any = false;
  char *at = NULL;
  for (uint32_t i = 0; i < d->p->n_kernels; i++) any |= d->p->kernels[i].looks != 0;
  if (!any) return RT_OK;
  RtStatus status = gpu_pinned(d, sizeof *d->note, &at, error);
  if (status) return status;
  d->note = (IndexNote *)(void *)at;
  memset(d->note, 0, sizeof *d->note);
  return RT_OK;
}

void gpu_looks_close(CudaDevice *d) {
  if (d->note) d->driver.pinned_free(d->note);
}

/* Reports an index once.  Until the host has read the note, kernels do not write it again. */
RtStatus gpu_looked(Device *device, uint32_t *instr, RtError *error) {
  IndexNote *note = ((CudaDevice *)device)->note;
  char why[320];
  if (!note || !note->fault.found) return RT_OK;
  const IndexFault *f = &note->fault;
  note->fault.found = 0;
  *instr = (uint32_t)note->instr;
  return rt_error(error, RT_BAD_INPUT, "%s",
                  tensor_index_refused((int)f->rank, f->place, f->value, f->low, f->below - 1, why, sizeof why));
}
