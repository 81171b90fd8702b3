/* runtime/launch/same_run.c - see same_run.h. */
#define _GNU_SOURCE
#include "runtime/launch/same_run.h"

#include <link.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"

#define IDENTITY_MAGIC UINT64_C(0x33434e55414c50a1)

/* Environment variables that change the bits of results, under the names of oneDNN's two versions. */
static const char *const variables[SAME_RUN_VARIABLES] = {
    "ONEDNN_DEFAULT_FPMATH_MODE", "DNNL_DEFAULT_FPMATH_MODE", "ONEDNN_MAX_CPU_ISA",
    "DNNL_MAX_CPU_ISA",           "ONEDNN_CPU_ISA_HINTS",     "DNNL_CPU_ISA_HINTS",
};

/* Reads words through a volatile pointer and without address checks, as the segment holds many constants and the gaps
 * between them. */
__attribute__((no_sanitize("address"))) static void hash_segment(Hash64 *h, const char *at, size_t bytes) {
  enum { WORDS = 512 };
  uint64_t words[WORDS];
  for (size_t n; bytes >= sizeof *words; at += n, bytes -= n) {
    n = bytes < sizeof words ? bytes / sizeof *words * sizeof *words : sizeof words;
    for (size_t i = 0; i < n / sizeof *words; i++) words[i] = ((const volatile uint64_t *)(const void *)at)[i];
    hash64_add(h, words, n);
  }
}

/* Hashes the segments of an object that cannot be written; relocations are in those that can. */
static uint64_t hash_object(const struct dl_phdr_info *o) {
  Hash64 h;
  hash64_begin(&h, 0);
  for (int i = 0; i < o->dlpi_phnum; i++) {
    const ElfW(Phdr) *p = &o->dlpi_phdr[i];
    if (p->p_type == PT_LOAD && (p->p_flags & PF_R) && !(p->p_flags & PF_W))
      hash_segment(&h, (const char *)(uintptr_t)(o->dlpi_addr + p->p_vaddr),
                   (p->p_filesz + 7) / 8 * 8); /* pages are whole */
  }
  return hash64_end(&h);
}

/* Hashes the object that contains this function. */
static int look_at_object(struct dl_phdr_info *o, size_t size, void *hash) {
  uintptr_t here = (uintptr_t)&runtime_build;
  (void)size;
  for (int i = 0; i < o->dlpi_phnum; i++) {
    const ElfW(Phdr) *p = &o->dlpi_phdr[i];
    if (p->p_type != PT_LOAD || here - (o->dlpi_addr + p->p_vaddr) >= p->p_memsz) continue;
    *(uint64_t *)hash = hash_object(o);
    return 1;
  }
  return 0;
}

uint64_t runtime_build(void) {
  uint64_t hash = 0;
  dl_iterate_phdr(look_at_object, &hash);
  return hash;
}

RankIdentity rank_identity(int rank, int world) {
  RankIdentity i = {.magic = IDENTITY_MAGIC,
                    .identity_bytes = sizeof i,
                    .rank = (uint32_t)rank,
                    .world = (uint32_t)world,
                    .runtime = runtime_build()};
  for (int v = 0; v < SAME_RUN_VARIABLES; v++) {
    const char *value = getenv(variables[v]);
    snprintf(i.values[v], sizeof i.values[v], "%s", value ? value : "");
  }
  return i;
}

static bool has_format(const RankIdentity *i, int rank, int world) {
  bool ok = i->magic == IDENTITY_MAGIC && i->identity_bytes == sizeof *i && i->rank == (uint32_t)rank &&
            i->world == (uint32_t)world && i->threads > 0 && i->threads_chosen <= 1 && !i->text[sizeof i->text - 1];
  for (int v = 0; v < SAME_RUN_VARIABLES; v++) ok = ok && !i->values[v][sizeof i->values[v] - 1];
  return ok;
}

static RtStatus check_rank(const RankIdentity *i, const RankIdentity *first, int rank, RtError *error) {
  if (i->program != first->program || i->program_bytes != first->program_bytes)
    return rt_error(error, RT_BAD_INPUT,
                    "rank %d runs another program than rank 0 (%016llx of %llu bytes, not %016llx of %llu): all ranks "
                    "need the same file",
                    rank, (unsigned long long)i->program, (unsigned long long)i->program_bytes,
                    (unsigned long long)first->program, (unsigned long long)first->program_bytes);
  if (i->runtime != first->runtime)
    return rt_error(error, RT_BAD_INPUT,
                    "rank %d runs the program with another runtime than rank 0 (%016llx, not %016llx): all ranks need "
                    "the same file",
                    rank, (unsigned long long)i->runtime, (unsigned long long)first->runtime);
  if (i->weights != first->weights)
    return rt_error(error, RT_BAD_INPUT,
                    "rank %d has other weights than rank 0 (%016llx, not %016llx): all ranks need the same --weights, "
                    "or none, and the same files",
                    rank, (unsigned long long)i->weights, (unsigned long long)first->weights);
  if (i->tuning != first->tuning)
    return rt_error(error, RT_BAD_INPUT,
                    "rank %d has another file for --tune than rank 0 (%016llx, not %016llx; 0: none, 1: it does not "
                    "exist): all ranks need the same",
                    rank, (unsigned long long)i->tuning, (unsigned long long)first->tuning);
  for (int v = 0; v < SAME_RUN_VARIABLES; v++)
    if (strcmp(i->values[v], first->values[v]) != 0)
      return rt_error(error, RT_BAD_INPUT,
                      "rank %d computes with %s='%s', rank 0 with '%s': results depend on it, all ranks need the same",
                      rank, variables[v], i->values[v], first->values[v]);
  return RT_OK;
}

/* Fails if two ranks have chosen different numbers of threads; a single choice holds for all ranks. */
static RtStatus check_threads(const RankIdentity *all, int world, RtError *error) {
  int chose = -1;
  for (int i = 0; i < world; i++) {
    if (!all[i].threads_chosen) continue;
    if (chose >= 0 && all[i].threads != all[chose].threads)
      return rt_error(error, RT_BAD_INPUT,
                      "rank %d would compute with %d threads, rank %d with %d: results depend on it, all ranks need "
                      "the same OMP_NUM_THREADS",
                      i, all[i].threads, chose, all[chose].threads);
    if (chose < 0) chose = i;
  }
  return RT_OK;
}

int launch_same_run_threads(const RankIdentity *all, int world) {
  int least = all[0].threads;
  for (int i = 0; i < world; i++) {
    if (all[i].threads_chosen) return all[i].threads;
    if (all[i].threads < least) least = all[i].threads;
  }
  return least;
}

/* Reports a rank with unusable files before its consequences. */
RtStatus launch_same_run_check(const RankIdentity *all, int world, RtError *error) {
  RtStatus status = RT_OK;
  for (int i = 0; i < world && !status; i++)
    if (!has_format(&all[i], i, world))
      status = rt_error(error, RT_BAD_INPUT, "rank %d does not run this version of the runtime", i);
  for (int i = 0; i < world && !status; i++)
    if (all[i].status)
      status = rt_error(error, all[i].status < RT_STATUS_COUNT ? (RtStatus)all[i].status : RT_INTERNAL, "rank %d: %s",
                        i, *all[i].text ? all[i].text : "no reason given");
  for (int i = 1; i < world && !status; i++) status = check_rank(&all[i], &all[0], i, error);
  if (!status && all[0].ranks != (uint32_t)world)
    status = rt_error(error, RT_USAGE, "%d processes were started, but their program was compiled for %u", world,
                      all[0].ranks);
  return status ? status : check_threads(all, world, error);
}
