/* runtime/device/tuning.h - choices among kernels that were measured, and their file (--tune).
 *
 * A device offers several ways to compute a product or a convolution.  Without a file it takes the way that its library
 * recommends.  If the file does not exist, the ways are timed on the device after the first request of a size, the
 * ranks agree on one table, and rank 0 writes it.  If it exists, its choices are used and nothing is timed.
 *
 * The file is a text of lines:
 *     apc tuning 1
 *     of DEVICE AND VERSIONS
 *     KEY = CHOICE
 * The keys are in the order of their bytes, each once.  Keys and choices are the device's.  Choices of another device
 * or version of a library mean nothing, so such a file is not used. */
#ifndef APC_RUNTIME_DEVICE_TUNING_H
#define APC_RUNTIME_DEVICE_TUNING_H

#include <stdbool.h>
#include <stdint.h>

#include "program/status.h"

enum { TUNING_OF = 160, TUNING_KEY = 160, TUNING_CHOICE = 96, TUNING_MOST = 1 << 16 /* choices of a file */ };
/* The hashes of no file, and of a file that does not exist yet. */
#define TUNING_NONE 0u
#define TUNING_ABSENT 1u

typedef struct TuningChoice {
  char key[TUNING_KEY], choice[TUNING_CHOICE];
} TuningChoice;

typedef struct Tuning {
  char *path;
  bool makes;         /* the file did not exist */
  char of[TUNING_OF]; /* of the file, or of this device */
  TuningChoice *items;
  uint32_t n, room;
  uint32_t left; /* calls that could not be timed because their operands did not fit into the device's memory */
} Tuning;

/* Computes the hash of the file's bytes, or TUNING_ABSENT; TUNING_NONE if path is NULL.  RT_BAD_INPUT if it cannot be
 * read, is malformed, which names the line, or cannot be made in its folder; RT_USAGE if path is empty. */
RtStatus tuning_hash(const char *path, uint64_t *hash, RtError *error);

/* Reads a file with that hash.  *out is NULL for TUNING_NONE.  RT_BAD_INPUT names the line of a malformed file, and a
 * file that changed since it was hashed. */
RtStatus tuning_open(const char *path, uint64_t hash, Tuning **out, RtError *error);
void tuning_close(Tuning *t); /* NULL is allowed */

/* Returns the choice for a key; NULL if there is none, or no table. */
const char *tuning_find(const Tuning *t, const char *key);
/* Adds a choice for a new key.  False without memory. */
bool tuning_add(Tuning *t, const char *key, const char *choice);
/* Drops all choices: nothing is measured or chosen. */
void tuning_drop(Tuning *t);

/* Writes the file. */
RtStatus tuning_write(const Tuning *t, RtError *error);

#endif
