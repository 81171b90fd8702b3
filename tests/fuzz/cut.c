/* tests/fuzz/cut.c - seeds for fuzz_program and fuzz_artifact from a compiled program.
 *
 * usage: fuzz_cut COMPILED TABLES FILE   writes the tables of its Program to TABLES, and an executable without the
 * runtime to FILE. */
#include <stdio.h>
#include <stdlib.h>

#include "program/artifact.h"

static void write_file(const char *path, const void *bytes, size_t n, const void *end, size_t end_bytes) {
  FILE *f = fopen(path, "wb");
  if (f && fwrite(bytes, 1, n, f) == n && fwrite(end, 1, end_bytes, f) == end_bytes && fclose(f) == 0) return;
  perror(path);
  exit(1);
}

int main(int argc, char **argv) {
  Artifact a;
  RtError error = {0};
  if (argc != 4) {
    fprintf(stderr, "usage: %s COMPILED TABLES FILE\n", argv[0]);
    return 2;
  }
  if (artifact_open(argv[1], argv[1], &a, &error) != RT_OK) {
    fprintf(stderr, "%s\n", error.text);
    return 1;
  }
  const ProgramHeader *h = a.program.header;
  ArtifactTrailer trailer = {.offset = 0, .bytes = a.bytes, .hash = h->table_hash, .magic = ARTIFACT_MAGIC};
  write_file(argv[2], a.image, h->table_bytes, "", 0);
  write_file(argv[3], a.image, a.bytes, &trailer, sizeof trailer);
  artifact_close(&a);
  return 0;
}
