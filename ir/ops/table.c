/* ir/ops/table.c - the table of records by operation, built from the rows of ir/ops.def. */
#include "ir/ops/record.h"

static const OpRecord *const records[OP_COUNT] = {
#define UNARY(name, ...) [OP_##name] = &record_unary,
#define BINARY(name, ...) [OP_##name] = &record_binary,
#define COMPARE(name, ...) [OP_##name] = &record_compare,
#define OP(name, ...) [OP_##name] = &record_##name,
#include "ir/ops.def"
};

const OpRecord *op_record(OpKind k) { return records[k]; }
