/* tests/unit/launched_answers.c - rank 0 accepts from the answers of other ranks no more bytes and parts than a step
 * can give.
 *
 * A peer that claimed 2^64 - 1 bytes once made rank 0 allocate none and write the received bytes.  The file under test
 * is included for its static functions. */
#include "runtime/launch/launched.c"

#include "tests/test.h"

enum { INSTRS = 10, MICRO_BATCHES = 4, BYTES = 1000 };

static bool believed(uint64_t parts, uint64_t bytes) {
  static const Artifact artifact = {.program = {.n_instrs = INSTRS, .micro_batches = MICRO_BATCHES}};
  const Launched l = {.artifact = &artifact};
  const RequestLayout layout = {.bytes = BYTES};
  const Answer a = {.parts = parts, .bytes = bytes};
  return answer_fits(&l, &layout, &a);
}

static void an_answer_is_as_large_as_its_parts(void) {
  const uint64_t head = sizeof(WrittenPart);
  CHECK(believed(0, 0));
  CHECK(believed(1, head));
  CHECK(believed(3, 3 * head + BYTES));
  CHECK(believed(INSTRS * MICRO_BATCHES, INSTRS * MICRO_BATCHES * head));
  CHECK(!believed(1, head - 1));
  CHECK(!believed(3, 3 * head + BYTES + 1));
  CHECK(!believed(INSTRS * MICRO_BATCHES + 1, (INSTRS * MICRO_BATCHES + 1) * head));
  CHECK(!believed(0, UINT64_MAX));
  CHECK(!believed(UINT64_MAX / head, UINT64_MAX));
  CHECK(!believed(UINT64_MAX / head + 2, head));
}

int main(void) {
  RUN(an_answer_is_as_large_as_its_parts);
  return test_summary();
}
