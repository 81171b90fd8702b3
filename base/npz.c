/* base/npz.c - reading npz archives; see npz.h.  Numbers in comments are sections of APPNOTE.TXT. */
#include "base/npz.h"

#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include "base/npy.h"
#include "base/text.h"

#define END_BYTES 22u       /* 4.3.16 end of central directory, less the comment */
#define LOCATOR_BYTES 20u   /* 4.3.15 zip64 locator */
#define END64_BYTES 56u     /* 4.3.14 zip64 end of central directory */
#define CENTRAL_BYTES 46u   /* 4.3.12 central header, less name, extra and comment */
#define LOCAL_BYTES 30u     /* 4.3.7 local header, less name and extra */
#define DEFLATE_RATIO 1032u /* deflate spends at least 2 bits on 258 bytes */

static uint32_t get16(const uint8_t *p) { return p[0] | (uint32_t)p[1] << 8; }
static uint32_t get32(const uint8_t *p) { return get16(p) | get16(p + 2) << 16; }
static uint64_t get64(const uint8_t *p) { return get32(p) | (uint64_t)get32(p + 4) << 32; }

#define BAD(z, ...) diag_error((z)->diags, DIAG_npz, file_loc((z)->diags, (z)->path), __VA_ARGS__)

static const char *quoted(const Npz *z, const char *name) {
  Text t = {.arena = z->diags->arena};
  text_quoted(&t, name);
  return text_str(&t);
}

typedef struct Directory {
  uint64_t offset, size, count;
} Directory;

/* The end record is the last thing in the file, behind it only its own comment. */
static bool find_end(const Npz *z, uint64_t *at) {
  const uint8_t *p = z->map.data;
  size_t n = z->map.size;
  bool begins = n >= 4 && get32(p) == 0x04034b50u; /* like an archive with members */
  if (n == 0) return BAD(z, "the file is empty");
  if (n < END_BYTES) return begins ? BAD(z, "the file is truncated: it has %zu bytes, and ends inside its first member", n) : BAD(z, "this is not a zip archive: %zu bytes are too few", n);
  for (size_t i = n - END_BYTES, tries = 0; tries <= 0xffff; i--, tries++) {
    if (get32(p + i) == 0x06054b50u && get16(p + i + 20) == n - END_BYTES - i) {
      *at = i;
      return true;
    }
    if (i == 0) break;
  }
  if (!begins) return BAD(z, "this is not a zip archive: it neither begins nor ends like one");
  return BAD(z, "the file is truncated, or its end damaged: it has %zu bytes, begins like a zip archive, and the end record is missing", n);
}

static bool read_end64(const Npz *z, uint64_t *end, Directory *dir) {
  const uint8_t *p = z->map.data;
  if (*end < LOCATOR_BYTES || get32(p + *end - LOCATOR_BYTES) != 0x07064b50u)
    return BAD(z, "the zip64 locator is missing");
  uint64_t limit = *end - LOCATOR_BYTES, at = get64(p + limit + 8);
  if (at > limit || limit - at < END64_BYTES || get32(p + at) != 0x06064b50u)
    return BAD(z, "the zip64 end record is not where the locator says");
  if (get32(p + at + 16) || get32(p + at + 20) || get64(p + at + 24) != get64(p + at + 32))
    return BAD(z, "archives of several disks are not supported");
  *dir = (Directory){.count = get64(p + at + 32), .size = get64(p + at + 40), .offset = get64(p + at + 48)};
  *end = at;
  return true;
}

static bool find_directory(const Npz *z, Directory *dir) {
  uint64_t end = 0;
  if (!find_end(z, &end)) return false;
  const uint8_t *p = z->map.data + end;
  *dir = (Directory){.count = get16(p + 10), .size = get32(p + 12), .offset = get32(p + 16)};
  if (dir->count == 0xffff || dir->size == 0xffffffffu || dir->offset == 0xffffffffu) {
    if (!read_end64(z, &end, dir)) return false;
  } else if (get16(p + 4) || get16(p + 6) || get16(p + 8) != dir->count) {
    return BAD(z, "archives of several disks are not supported");
  }
  if (dir->size > end || dir->offset > end - dir->size)
    return BAD(z, "the central directory (%llu bytes at %llu) is outside the file",
               (unsigned long long)dir->size, (unsigned long long)dir->offset);
  if (dir->count > dir->size / CENTRAL_BYTES)
    return BAD(z, "the archive claims %llu members, its directory has room for %llu",
               (unsigned long long)dir->count, (unsigned long long)(dir->size / CENTRAL_BYTES));
  return true;
}

/* 4.5.3: the fields that are all ones in the header follow in this order in extra field 1. */
static bool read_zip64(const Npz *z, const uint8_t *extra, size_t n, NpzMember *m) {
  uint64_t *const fields[] = {&m->size, &m->packed, &m->header};
  bool any = m->size == 0xffffffffu || m->packed == 0xffffffffu || m->header == 0xffffffffu;
  while (any && n >= 4) {
    size_t length = get16(extra + 2);
    if (length > n - 4) break;
    if (get16(extra) == 1) {
      const uint8_t *p = extra + 4;
      for (size_t i = 0; i < 3; i++) {
        if (*fields[i] != 0xffffffffu) continue;
        if (length < 8) return BAD(z, "member %s: its zip64 field is too short", quoted(z, m->name));
        *fields[i] = get64(p);
        p += 8;
        length -= 8;
      }
      return true;
    }
    extra += 4 + length;
    n -= 4 + length;
  }
  return !any || BAD(z, "member %s: its zip64 field is missing", quoted(z, m->name));
}

/* The name without ".npy". */
static bool read_name(const Npz *z, const uint8_t *p, size_t n, NpzMember *m) {
  const char *name = (const char *)p;
  m->name = arena_strndup(z->diags->arena, name, n);
  if (memchr(name, 0, n) || !text_is_utf8(name, n)) return BAD(z, "a member's name is not UTF-8 text");
  if (n < 5 || memcmp(name + n - 4, ".npy", 4) != 0)
    return BAD(z, "member %s is not an npy file", quoted(z, m->name));
  m->name = arena_strndup(z->diags->arena, name, n - 4);
  return true;
}

static bool check_sizes(const Npz *z, const NpzMember *m, uint32_t flags, uint32_t method) {
  const char *name = quoted(z, m->name);
  if (flags & 0x2041) return BAD(z, "member %s is encrypted", name);
  if (method != 0 && method != 8)
    return BAD(z, "member %s: compression method %u is not supported (stored and deflated are)", name, method);
  if (!m->deflated && m->size != m->packed)
    return BAD(z, "member %s is stored, but its two sizes differ", name);
  if (m->deflated && m->size / DEFLATE_RATIO > m->packed)
    return BAD(z, "member %s claims %llu bytes, more than %llu compressed bytes can hold", name,
               (unsigned long long)m->size, (unsigned long long)m->packed);
  return true;
}

/* The local header must say the same; it tells where the data begins.  The data ends before the
 * central directory. */
static bool check_local(const Npz *z, NpzMember *m, uint32_t method, const uint8_t *name, size_t name_bytes,
                        uint64_t limit) {
  bool inside = m->header <= limit && limit - m->header >= LOCAL_BYTES;
  const uint8_t *p = z->map.data + (inside ? m->header : 0);
  if (!inside || get32(p) != 0x04034b50u)
    return BAD(z, "member %s: no local header at %llu", quoted(z, m->name), (unsigned long long)m->header);
  uint64_t skip = LOCAL_BYTES + (uint64_t)get16(p + 26) + get16(p + 28);
  if (skip > limit - m->header || m->packed > limit - m->header - skip)
    return BAD(z, "member %s reaches beyond the members' part of the file", quoted(z, m->name));
  if (get16(p + 26) != name_bytes || memcmp(p + LOCAL_BYTES, name, name_bytes) != 0 || get16(p + 8) != method)
    return BAD(z, "member %s: local header and central directory disagree", quoted(z, m->name));
  m->data = m->header + skip;
  return true;
}

/* One central header of at most `left` bytes; returns its length, 0 on failure. */
static size_t read_member(Npz *z, const uint8_t *p, uint64_t left, uint64_t limit) {
  if (left < CENTRAL_BYTES || get32(p) != 0x02014b50u) return BAD(z, "the central directory is damaged");
  size_t name = get16(p + 28), extra = get16(p + 30), comment = get16(p + 32);
  size_t all = CENTRAL_BYTES + name + extra + comment;
  if (all > left) return BAD(z, "the central directory is cut short");
  uint32_t flags = get16(p + 8), method = get16(p + 10);
  NpzMember m = {.header = get32(p + 42), .packed = get32(p + 20), .size = get32(p + 24), .crc = get32(p + 16),
                 .deflated = method == 8};
  if (!read_name(z, p + CENTRAL_BYTES, name, &m) || !read_zip64(z, p + CENTRAL_BYTES + name, extra, &m) ||
      !check_sizes(z, &m, flags, method) || !check_local(z, &m, method, p + CENTRAL_BYTES, name, limit))
    return 0;
  ARENA_PUSH(z->diags->arena, z, m);
  return all;
}

static int by_name(const void *a, const void *b) {
  return strcmp((*(NpzMember *const *)a)->name, (*(NpzMember *const *)b)->name);
}

static int by_place(const void *a, const void *b) {
  uint64_t x = (*(NpzMember *const *)a)->header, y = (*(NpzMember *const *)b)->header;
  return (x > y) - (x < y);
}

static bool check_members(Npz *z) {
  NpzMember **sorted = ARENA_ARRAY(z->diags->arena, NpzMember *, z->n);
  z->by_name = sorted;
  for (size_t i = 0; i < z->n; i++) sorted[i] = &z->items[i];
  qsort(sorted, z->n, sizeof *sorted, by_place);
  for (size_t i = 1; i < z->n; i++)
    if (sorted[i - 1]->data + sorted[i - 1]->packed > sorted[i]->header)
      return BAD(z, "members %s and %s overlap", quoted(z, sorted[i - 1]->name), quoted(z, sorted[i]->name));
  qsort(sorted, z->n, sizeof *sorted, by_name);
  for (size_t i = 1; i < z->n; i++)
    if (strcmp(sorted[i - 1]->name, sorted[i]->name) == 0)
      return BAD(z, "two members are named %s", quoted(z, sorted[i]->name));
  return true;
}

static bool read_directory(Npz *z) {
  Directory dir;
  if (!find_directory(z, &dir)) return false;
  const uint8_t *p = z->map.data + dir.offset;
  uint64_t left = dir.size;
  for (uint64_t i = 0; i < dir.count; i++) {
    size_t used = read_member(z, p, left, dir.offset);
    if (!used) return false;
    p += used;
    left -= used;
  }
  if (left) return BAD(z, "the central directory has %llu bytes too many", (unsigned long long)left);
  return check_members(z);
}

static Npz *open_map(Diags *d, const char *path, FileMap map, bool mapped) {
  Npz *z = ARENA_NEW(d->arena, Npz);
  *z = (Npz){.diags = d, .path = arena_strdup(d->arena, path), .map = map, .mapped = mapped};
  if (read_directory(z)) return z;
  npz_close(z);
  return NULL;
}

Npz *npz_open(Diags *d, const char *path) {
  FileMap map;
  return file_take(d, path, &map) ? open_map(d, path, map, true) : NULL;
}

Npz *npz_open_memory(Diags *d, const char *name, const void *bytes, size_t n) {
  return open_map(d, name, (FileMap){.data = bytes, .size = n}, false);
}

void npz_close(Npz *z) {
  if (z && z->mapped) file_unmap(&z->map);
}

const NpzMember *npz_find(const Npz *z, const char *name) {
  NpzMember key = {.name = name}, *const want = &key;
  NpzMember *const *found = z->n ? bsearch(&want, z->by_name, z->n, sizeof want, by_name) : NULL;
  return found ? *found : NULL;
}

/* Raw deflate of exactly `size` bytes from exactly `packed` bytes; or, when `part`, of the first `size` of them.  zlib counts in 32 bits. */
static bool inflate_bytes(const uint8_t *in, uint64_t packed, uint8_t *out, uint64_t size, bool part) {
  const uint64_t step = (uint64_t)1 << 30;
  z_stream s = {0};
  if (inflateInit2(&s, -MAX_WBITS) != Z_OK) return false;
  int status = Z_OK;
  uint8_t none; /* zlib wants an output pointer also when nothing is to come out */
  uint64_t in_left = packed, out_left = size;
  s.next_in = (z_const Bytef *)(uintptr_t)in;
  s.next_out = size ? out : &none;
  while (status == Z_OK && !(part && !out_left)) {
    uInt feed = (uInt)(in_left < step ? in_left : step), room = (uInt)(out_left < step ? out_left : step);
    s.avail_in = feed;
    s.avail_out = room;
    status = inflate(&s, Z_NO_FLUSH);
    in_left -= feed - s.avail_in;
    out_left -= room - s.avail_out;
  }
  inflateEnd(&s);
  return out_left == 0 && (part || (status == Z_STREAM_END && in_left == 0));
}

static const char *member_name(const Npz *z, const NpzMember *m) { return arena_printf(z->diags->arena, "%s: member %s", z->path, quoted(z, m->name)); }

bool npz_read_header(Npz *z, const NpzMember *m, Tensor *out) {
  uint64_t n = m->size < NPY_HEADER_ROOM ? m->size : NPY_HEADER_ROOM, whole = 0;
  *out = (Tensor){0};
  uint8_t *begin = m->deflated ? malloc(n + 1) : NULL;
  if (m->deflated && !begin) return BAD(z, "member %s: no memory", quoted(z, m->name));
  bool ok = !m->deflated || inflate_bytes(z->map.data + m->data, m->packed, begin, n, true);
  if (!ok) BAD(z, "member %s: its compressed data is damaged", quoted(z, m->name));
  ok = ok && npy_read_header(z->diags, member_name(z, m), m->deflated ? begin : z->map.data + m->data, n, out, &whole);
  if (ok && whole != m->size)
    ok = BAD(z, "member %s: its header asks for %llu bytes, the archive says %llu", quoted(z, m->name), (unsigned long long)whole, (unsigned long long)m->size);
  free(begin);
  return ok;
}

static void release_heap(void *owner, size_t owner_bytes) {
  (void)owner_bytes;
  free(owner);
}

/* The member's .npy into a block of its own, aligned as its writer meant it. */
static void *unpack(const Npz *z, const NpzMember *m) {
  void *block;
  if (posix_memalign(&block, 64, m->size ? (size_t)m->size : 1) != 0) {
    BAD(z, "member %s: no memory for %llu bytes", quoted(z, m->name), (unsigned long long)m->size);
    return NULL;
  }
  if (inflate_bytes(z->map.data + m->data, m->packed, block, m->size, false)) return block;
  BAD(z, "member %s: its compressed data is damaged", quoted(z, m->name));
  free(block);
  return NULL;
}

bool npz_read(Npz *z, const NpzMember *m, Tensor *out) {
  Tensor header;
  *out = (Tensor){0};
  if (m->deflated && !npz_read_header(z, m, &header)) return false;
  void *block = m->deflated ? unpack(z, m) : NULL;
  if (m->deflated && !block) return false;
  const uint8_t *npy = m->deflated ? block : z->map.data + m->data;
  bool ok = true;
  if (crc32_z(0, npy, (z_size_t)m->size) != m->crc)
    ok = BAD(z, "member %s: its checksum does not match", quoted(z, m->name));
  ok = ok && npy_read_memory(z->diags, member_name(z, m), npy, (size_t)m->size, out);
  if (ok && block && !out->release) { /* a view of the block: hand the block over */
    out->release = release_heap;
    out->owner = block;
    out->owner_bytes = (size_t)m->size;
  } else {
    free(block);
  }
  return ok;
}
