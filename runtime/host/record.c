/* runtime/host/record.c - makes the ranks record their runs, and fetches their records. */
#include <stdlib.h>
#include <string.h>

#include "runtime/host/host.h"

ApcStatus apc_record(ApcModel *m, size_t events) {
  if (!host_begin(m)) return (ApcStatus)rt_exit_code(m->error.status);
  if (events > RECORD_EVENTS_MOST) return host_error(m, RT_USAGE, "at most %d events are recorded", RECORD_EVENTS_MOST);
  m->profile.wanted = true;
  m->profile.on = false;
  m->profile.capacity = events / (size_t)apc_ranks(m);
  host_record_stale(m);
  return m->session || m->layout.bytes ? host_status(m, host_record_begin(m)) : APC_OK;
}

RtStatus host_record_begin(ApcModel *m) {
  if (!m->profile.wanted || m->profile.on) return RT_OK;
  RtStatus status = host_request(m, REQUEST_RECORD, (uint32_t)m->profile.capacity, NULL, 0);
  m->profile.on = !status;
  m->profile.asked_s = 0;
  return status;
}

void host_record_stale(ApcModel *m) {
  free(m->profile.records);
  m->profile.records = NULL;
}

static size_t bytes_of(const ApcModel *m) { return record_bytes(&m->artifact.program, m->profile.capacity); }

RecordHead *host_record_of(const ApcModel *m, uint32_t rank) {
  return (RecordHead *)(void *)(m->profile.records + bytes_of(m) * rank);
}

/* Enlarges the I/O area by the ranks' blocks.  Its contents stay: at least the reports of the ranks, which every answer
 * brings, the data of the last run, and inputs that lie there. */
static RtStatus fetch_shared(ApcModel *m, RequestKind kind, char *to, size_t bytes) {
  int64_t offset = (int64_t)host_inputs_end(m);
  RtStatus status = host_io(m, (size_t)offset + bytes);
  if (status) return status;
  status = host_request(m, kind, 0, &offset, 1);
  if (!status) memcpy(to, m->io + offset, bytes);
  return status;
}

RtStatus host_fetch(ApcModel *m, RequestKind kind, void *to, size_t bytes) {
  RequestHead head = {.kind = (uint32_t)kind, .number = m->requests};
  if (!m->launched) return fetch_shared(m, kind, to, bytes * m->artifact.program.ranks);
  m->requests++;
  return launched_given(m->launched, &head, to, bytes, &m->error);
}

/* Checks the records before use: ranks of other machines could send invalid indices. */
static RtStatus check(ApcModel *m) {
  const Program *p = &m->artifact.program;
  for (uint32_t r = 0; r < p->ranks; r++) {
    RecordHead *h = host_record_of(m, r);
    h->arch[sizeof h->arch - 1] = 0;
    bool ok = h->capacity == m->profile.capacity && h->events <= h->capacity;
    for (uint64_t i = 0; ok && i < h->events; i++) {
      uint32_t instr = record_events(p, h)[i].instr;
      ok = instr < p->n_instrs || instr == PROGRAM_NONE;
    }
    if (!ok) return rt_error(&m->error, RT_INTERNAL, "rank %u sent an invalid profile", r);
  }
  return RT_OK;
}

RtStatus host_record_fetch(ApcModel *m) {
  size_t bytes = bytes_of(m), all = bytes * m->artifact.program.ranks;
  if (!m->profile.on || !m->layout.bytes) return rt_error(&m->error, RT_USAGE, "nothing was recorded");
  if (m->profile.records) return RT_OK;
  char *to = calloc(1, all);
  if (!to) return rt_error(&m->error, RT_FAILED, "out of memory: %zu bytes for the profile", all);
  RtStatus status = host_fetch(m, REQUEST_RECORDED, to, bytes);
  m->profile.records = to;
  if (!status) status = check(m);
  if (status) host_record_stale(m);
  return status;
}
