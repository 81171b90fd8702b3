/* tests/unit/program_memory.c - random lifetimes: the planner compared with the independent checker, and the checker
 * with spoiled plans. */
#include <stdlib.h>

#include "program/memory.h"
#include "program/build.h"
#include "tests/test.h"

static uint32_t seed;
static uint32_t below(uint32_t n) {
  seed = seed * 1664525u + 1013904223u;
  return (uint32_t)(((uint64_t)seed * n) >> 32);
}

enum { BODIES = 3, INSTRS = 12, CALLS = 12, BUFFERS = 40 };

/* Bodies of instructions that touch each live buffer at its first and last instruction. */
static void add_buffers(ProgramBuilder *b) {
  for (uint32_t i = 0; i < BUFFERS; i++) {
    bool in_body = below(3) > 0;
    uint32_t room = in_body ? INSTRS : CALLS, first = below(room), last = first + below(room - first);
    uint32_t n = below(2000) * below(4) / 2;
    uint32_t buffer = program_add_buffers(b, &(ProgramBuffer){.name = program_string(b, "b"),
                                                              .class_ = below(4) ? PC_activation : PC_communication,
                                                              .entry = 0,
                                                              .body = in_body ? below(BODIES) : PROGRAM_NONE,
                                                              .first = first,
                                                              .last = last,
                                                              .slots = 1 + below(2),
                                                              .bytes = program_const(b, n)});
    uint32_t extent = program_const(b, n);
    program_add_tensors(b, &(ProgramTensor){.buffer = buffer,
                                            .offset = program_const(b, 0),
                                            .dtype = DT_i8,
                                            .extents = program_list_of(b, 1, &extent)});
  }
}

static void add_bodies(ProgramBuilder *b) {
  for (uint32_t body = 0; body < BODIES; body++) {
    uint32_t first = program_count_instrs(b);
    for (uint32_t i = 0; i < INSTRS; i++) {
      uint32_t tensors[BUFFERS], n = 0;
      for (uint32_t k = 0; k < BUFFERS; k++) {
        const ProgramBuffer *x = program_at_buffers(b, k);
        if (x->body == body && (x->first == i || x->last == i)) tensors[n++] = k;
      }
      program_add_instrs(b, &(ProgramInstr){.kind = PI_launch,
                                            .where = program_string(b, "k"),
                                            .guard = PROGRAM_NONE,
                                            .event = PROGRAM_NONE,
                                            .blocks = PROGRAM_NONE,
                                            .tensors = program_list_of(b, n, tensors),
                                            .dim = n});
    }
    program_add_bodies(b, &(ProgramBody){program_string(b, "body"), 0, 0, PHASE_fwd, first, INSTRS});
  }
}

static void *random_program(size_t *n) {
  ProgramBuilder *b = program_builder_new();
  add_buffers(b);
  program_add_kernels(b, &(ProgramKernel){.name = program_string(b, "k")});
  program_add_entries(b, &(ProgramEntry){.name = program_string(b, "main")});
  program_add_axes(b, &(ProgramAxis){.name = program_string(b, "mb"), .size = CALLS / BODIES, .temporal = 1});
  program_add_schedules(b, &(ProgramSchedule){0, CALLS});
  for (uint32_t i = 0, next[BODIES] = {0}; i < CALLS; i++) { /* the bodies' calls mixed, each in ascending order */
    uint32_t body = below(BODIES);
    while (next[body] == CALLS / BODIES) body = (body + 1) % BODIES;
    program_add_calls(b, &(ProgramCall){body, next[body]++});
  }
  add_bodies(b);
  void *image = NULL;
  RtError error = {0};
  ProgramFacts facts = {"random", "cpu", "test", 1, 0, NULL, NULL, 0, NULL};
  CHECKF(program_builder_finish(b, &facts, &image, n, &error) == RT_OK, "%s", error.text);
  program_builder_free(b);
  return image;
}

static void plans_hold(void) {
  double used = 0, live = 0;
  for (uint32_t i = 0; i < 300; i++) {
    seed = i;
    size_t n;
    void *image = random_program(&n);
    Program p;
    CHECK(program_open(image, n, &p, NULL) == RT_OK);
    MemoryPlan plan;
    RtError error = {0};
    CHECK(memory_plan(&p, 0, 0, NULL, &plan, &error) == RT_OK);
    CHECKF(memory_check(&p, 0, 0, &plan, &error) == RT_OK, "seed %u: %s", i, error.text);
    uint64_t classes = plan.class_bytes[PC_activation] + plan.class_bytes[PC_communication];
    CHECK(classes == plan.live_bytes[SPACE_ARENA] + plan.live_bytes[SPACE_WINDOW]);
    CHECK(plan.live_bytes[SPACE_ARENA] <= plan.bytes[SPACE_ARENA]);
    used += (double)plan.bytes[SPACE_ARENA];
    live += (double)plan.live_bytes[SPACE_ARENA];
    memory_plan_free(&plan);
    program_close(&p);
    free(image);
  }
  CHECKF(used < 1.15 * live, "packed %.0f, live %.0f", used, live);
}

static void spoiled_plans_are_found(void) {
  int found = 0, tried = 0;
  for (uint32_t i = 0; i < 100; i++) {
    seed = i;
    size_t n;
    void *image = random_program(&n);
    Program p;
    CHECK(program_open(image, n, &p, NULL) == RT_OK);
    MemoryPlan plan;
    CHECK(memory_plan(&p, 0, 0, NULL, &plan, NULL) == RT_OK);
    for (uint32_t k = 0; k < p.n_buffers; k++) {
      uint64_t keep = plan.offsets[k];
      plan.offsets[k] = keep >= PROGRAM_ALIGN ? keep - PROGRAM_ALIGN : plan.bytes[SPACE_ARENA];
      if (plan.slot_bytes[k]) {
        tried++;
        found += memory_check(&p, 0, 0, &plan, NULL) == RT_INTERNAL;
      }
      plan.offsets[k] = keep;
    }
    memory_plan_free(&plan);
    program_close(&p);
    free(image);
  }
  CHECKF(found > tried / 2, "%d of %d", found, tried);
}

int main(void) {
  RUN(plans_hold);
  RUN(spoiled_plans_are_found);
  return test_summary();
}
