/* runtime/same_run.c - see same_run.h. */
#define _GNU_SOURCE
#include "runtime/same_run.h"

#include <link.h>
#include <stdbool.h>
#include <string.h>

#include "base/hash.h"

#define IDENTITY_MAGIC UINT64_C(0x32434e55414c50a1)

/* The note with the build id in a segment of notes; false when it has none. */
static bool find_build(const char *at, size_t bytes, uint64_t *hash) {
  static const char owner[] = "GNU";
  for (size_t i = 0; i + sizeof(ElfW(Nhdr)) <= bytes;) {
    ElfW(Nhdr) h;
    memcpy(&h, at + i, sizeof h);
    size_t name = i + sizeof h, data = name + (h.n_namesz + 3u) / 4 * 4;
    if (data > bytes || h.n_descsz > bytes - data) return false;
    if (h.n_type == NT_GNU_BUILD_ID && h.n_namesz == sizeof owner && memcmp(at + name, owner, sizeof owner) == 0) {
      *hash = hash64(at + data, h.n_descsz, 0);
      return true;
    }
    i = data + (h.n_descsz + 3u) / 4 * 4;
  }
  return false;
}

/* The first object is the program; no other is asked. */
static int look_at_object(struct dl_phdr_info *o, size_t size, void *hash) {
  (void)size;
  for (int i = 0; i < o->dlpi_phnum; i++) {
    const ElfW(Phdr) *p = &o->dlpi_phdr[i];
    if (p->p_type == PT_NOTE && find_build((const char *)(uintptr_t)(o->dlpi_addr + p->p_vaddr), p->p_filesz, hash)) break;
  }
  return 1;
}

uint64_t runtime_build(void) {
  uint64_t hash = 0;
  dl_iterate_phdr(look_at_object, &hash);
  return hash;
}

RankIdentity rank_identity(int rank, int world) {
  return (RankIdentity){.magic = IDENTITY_MAGIC, .identity_bytes = sizeof(RankIdentity), .rank = (uint32_t)rank, .world = (uint32_t)world};
}

static bool has_format(const RankIdentity *i, int rank, int world) {
  return i->magic == IDENTITY_MAGIC && i->identity_bytes == sizeof *i && i->rank == (uint32_t)rank && i->world == (uint32_t)world && !i->text[sizeof i->text - 1];
}

static RtStatus check_rank(const RankIdentity *i, const RankIdentity *first, int rank, RtError *error) {
  if (i->program != first->program || i->program_bytes != first->program_bytes)
    return rt_error(error, RT_BAD_INPUT, "rank %d runs another program than rank 0 (%016llx of %llu bytes, not %016llx of %llu): all ranks need the same file", rank,
                    (unsigned long long)i->program, (unsigned long long)i->program_bytes, (unsigned long long)first->program,
                    (unsigned long long)first->program_bytes);
  if (i->runtime != first->runtime)
    return rt_error(error, RT_BAD_INPUT, "rank %d runs the program with another runtime than rank 0 (%016llx, not %016llx): all ranks need the same file", rank,
                    (unsigned long long)i->runtime, (unsigned long long)first->runtime);
  if (i->weights != first->weights)
    return rt_error(error, RT_BAD_INPUT, "rank %d has other weights than rank 0 (%016llx, not %016llx): all ranks need the same --weights, or none, and the same files",
                    rank, (unsigned long long)i->weights, (unsigned long long)first->weights);
  return RT_OK;
}

/* A rank whose files cannot be used is told before what follows from it. */
RtStatus same_run_check(const RankIdentity *all, int world, RtError *error) {
  RtStatus status = RT_OK;
  for (int i = 0; i < world && !status; i++)
    if (!has_format(&all[i], i, world)) status = rt_error(error, RT_BAD_INPUT, "rank %d does not run this version of the runtime", i);
  for (int i = 0; i < world && !status; i++)
    if (all[i].status)
      status = rt_error(error, all[i].status < RT_STATUS_COUNT ? (RtStatus)all[i].status : RT_INTERNAL, "rank %d: %s", i, all[i].text);
  for (int i = 1; i < world && !status; i++) status = check_rank(&all[i], &all[0], i, error);
  return status;
}
