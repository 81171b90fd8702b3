/* tests/fuzz/fuzz_program.c - libFuzzer target: any bytes as the tables of a Program.  If program_open accepts them,
 * all pure functions are called: text, members of groups, sizes, memory, order and bytes of communication. */
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "base/die.h"
#include "base/hash.h"
#include "program/memory.h"
#include "program/order.h"
#include "program/traffic.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n);

enum { MOST_ASKED = 64 };     /* ranks whose traffic is computed */
enum { MOST_WORK = 1 << 20 }; /* expressions times places times micro-batches: larger programs are only printed */

/* Sets the right length and checksum: wrong ones would refuse nearly every input. */
static void seal(unsigned char *image, size_t n) {
  ProgramHeader h;
  if (n < sizeof h) return;
  memcpy(&h, image, sizeof h);
  h.table_bytes = n;
  if (h.image_bytes < n) h.image_bytes = n;
  memcpy(image, &h, sizeof h);
  h.table_hash = hash64(image + offsetof(ProgramHeader, table_bytes), n - offsetof(ProgramHeader, table_bytes), 0);
  memcpy(image, &h, sizeof h);
}

static void must_say_why(RtStatus status, const RtError *error) {
  if (status != RT_OK && (error->status != status || !*error->text)) die("refused without a reason");
}

static void check_entry(const Program *p, uint32_t entry, const int64_t *symbols) {
  for (uint32_t stage = 0; stage < p->stages; stage++) {
    MemoryPlan plan;
    RtError error = {0};
    RtStatus status = memory_plan(p, entry, stage, symbols, &plan, &error);
    must_say_why(status, &error);
    if (status) continue;
    must_say_why(memory_check(p, entry, stage, &plan, &error), &error);
    memory_plan_free(&plan);
  }
  uint32_t step = p->ranks / MOST_ASKED + 1; /* each takes a look at all ranks */
  for (uint32_t rank = 0; rank < p->ranks; rank += step) {
    uint64_t sent[COMM_KIND_COUNT] = {0};
    RtError error = {0};
    must_say_why(traffic_sent(p, entry, rank, symbols, sent, &error), &error);
  }
  RtError error = {0};
  must_say_why(order_check(p, entry, symbols, &error), &error);
}

static void check_sizes(const Program *p) {
  for (uint32_t entry = 0; entry < p->n_entries; entry++) {
    const ProgramEntry *e = &p->entries[entry];
    int64_t symbols[PROGRAM_MAX_SYMBOLS];
    RtError error = {0};
    ProgramShape *shapes = calloc(e->n_inputs + 1u, sizeof *shapes);
    if (!shapes) die("no memory");
    for (uint32_t i = 0; i < e->n_inputs; i++) shapes[i].rank = -1;
    for (uint32_t s = 0; s < p->n_symbols; s++) symbols[s] = -1;
    RtStatus status = program_bind(p, entry, shapes, symbols, &error);
    must_say_why(status, &error);
    for (uint32_t i = 0; !status && i < e->n_inputs + e->n_outputs; i++)
      must_say_why(program_port_shape(p, e->inputs + i, symbols, shapes, &error), &error);
    if (!status) check_entry(p, entry, symbols);
    free(shapes);
  }
}

static void check_groups(const Program *p) {
  for (uint32_t g = 0; g < p->n_groups; g++)
    for (uint32_t r = 0; r < p->ranks; r++) {
      ProgramMembers m = program_group_of(p, g, r);
      if (m.n && (m.place >= m.n || program_member(&m, m.place) != r)) die("a rank is not at its place in its group");
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n) {
  unsigned char *image = aligned_alloc(8, (n + 8) / 8 * 8);
  Program p;
  RtError error = {0};
  if (!image) die("no memory");
  memcpy(image, bytes, n);
  seal(image, n);
  RtStatus status = program_open(image, n, &p, &error);
  must_say_why(status, &error);
  if (!status) {
    Arena *arena = arena_new();
    Text t = {.arena = arena};
    program_print(&p, &t);
    uint64_t places = (uint64_t)p.ranks * p.micro_batches;
    if ((uint64_t)p.ranks * p.n_groups <= MOST_WORK) check_groups(&p);
    if (places * (p.n_exprs + p.n_instrs + p.n_calls) <= MOST_WORK) check_sizes(&p);
    program_close(&p);
    arena_free(arena);
  }
  free(image);
  return 0;
}
