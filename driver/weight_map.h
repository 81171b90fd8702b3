/* driver/weight_map.h - --map A:B: the names that weights of the model have in the files of --weights.
 *
 * A is the beginning of a weight's name, up to the end of one of its parts, which dots separate; B takes its place in
 * the file's name.  A star, at most one in each, stands for one part.  After it B may compute, with one of the signs in
 * "/%+-" and a number: the part is then a whole number, and a name with which the result is below 0 does not fit.  So
 * "layers.STAR:layers.STAR/2" makes two layers of each.  Of several maps the last one that fits a name counts; a name
 * that none fits stays.
 */
#ifndef APC_DRIVER_WEIGHT_MAP_H
#define APC_DRIVER_WEIGHT_MAP_H

#include "base/diag.h"
#include "ir/ir.h"

typedef struct WeightMap {
  const char *text, *to, *from; /* as given; the part of the model's name; that of the file's */
  bool met;                     /* a name fitted */
} WeightMap;

typedef struct WeightMaps {
  Arena *arena;
  WeightMap *items;
  size_t n, cap;
} WeightMaps;

/* Adds `A:B`, whose colon is the first that is not part of "::"; false after a diagnostic. */
bool driver_maps_add(WeightMaps *maps, const char *text, Diags *diags);
/* Returns the name in the file of a weight.  `maps`: a WeightMaps, or NULL (frontend/onnx/import.h calls this). */
const char *driver_maps_name(void *maps, const char *name);
/* Reports each map that fits no weight of the model; false if there is one. */
bool driver_maps_check(WeightMaps *maps, const Module *m, Diags *diags);

#endif
