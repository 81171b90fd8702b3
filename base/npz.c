/* base/npz.c - reading npz archives; see npz.h.  Numbers in comments are sections of APPNOTE.TXT. */
#include "base/npz.h"

#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include "base/lost_pages.h"
#include "base/npy.h"
#include "base/text.h"

#define END_BYTES 22u            /* 4.3.16 end of central directory, less the comment */
#define LOCATOR_BYTES 20u        /* 4.3.15 zip64 locator */
#define END64_BYTES 56u          /* 4.3.14 zip64 end of central directory */
#define CENTRAL_BYTES 46u        /* 4.3.12 central header, less name, extra and comment */
#define LOCAL_BYTES 30u          /* 4.3.7 local header, less name and extra */
enum { FEED_BYTES = 256 << 10 }; /* unpacked at a time */
#define DIRECTORY_MOST (256u << 20)
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

static bool in_memory(const Npz *z) { return z->parts.fd < 0; }

/* Returns n bytes at an offset of the archive: in place if in memory, else a copy in the arena; NULL after a
 * diagnostic. */
static const uint8_t *bytes_at(const Npz *z, uint64_t at, size_t n) {
  if (in_memory(z)) return z->map.data + at;
  uint8_t *bytes = arena_alloc(z->diags->arena, n ? n : 1);
  return file_parts_read(z->diags, z->path, &z->parts, at, bytes, n) ? bytes : NULL;
}

typedef struct Directory {
  uint64_t offset, size, count;
} Directory;

/* Finds the end record, which only its own comment may follow, and copies it to `end`. */
static bool find_end(const Npz *z, uint64_t *at, uint8_t *end) {
  uint64_t n = z->size;
  if (n == 0) return BAD(z, "the file is empty");
  const uint8_t *p = bytes_at(z, 0, n < 4 ? (size_t)n : 4);
  if (!p) return false;
  bool begins = n >= 4 && get32(p) == 0x04034b50u; /* like an archive with members */
  if (n < END_BYTES)
    return begins ? BAD(z, "the file is truncated: it has %zu bytes, and ends inside its first member", (size_t)n)
                  : BAD(z, "this is not a zip archive: %zu bytes are too few", (size_t)n);
  size_t tail = n < END_BYTES + 0xffff ? (size_t)n : END_BYTES + 0xffff;
  p = bytes_at(z, n - tail, tail);
  for (size_t i = tail - END_BYTES + 1; p && i-- > 0;)
    if (get32(p + i) == 0x06054b50u && get16(p + i + 20) == tail - END_BYTES - i) {
      *at = n - tail + i;
      memcpy(end, p + i, END_BYTES);
      return true;
    }
  if (!p) return false;
  if (!begins) return BAD(z, "this is not a zip archive: it neither begins nor ends like one");
  return BAD(z,
             "the file is truncated, or its end damaged: it has %zu bytes, begins like a zip archive, and the end "
             "record is missing",
             (size_t)n);
}

static bool read_end64(const Npz *z, uint64_t *end, Directory *dir) {
  uint64_t limit = *end - LOCATOR_BYTES, at;
  const uint8_t *p;
  if (*end < LOCATOR_BYTES) return BAD(z, "the zip64 locator is missing");
  if (!(p = bytes_at(z, limit, LOCATOR_BYTES))) return false;
  if (get32(p) != 0x07064b50u) return BAD(z, "the zip64 locator is missing");
  at = get64(p + 8);
  if (at > limit || limit - at < END64_BYTES) return BAD(z, "the zip64 end record is not where the locator says");
  if (!(p = bytes_at(z, at, END64_BYTES))) return false;
  if (get32(p) != 0x06064b50u) return BAD(z, "the zip64 end record is not where the locator says");
  if (get32(p + 16) || get32(p + 20) || get64(p + 24) != get64(p + 32))
    return BAD(z, "archives of several disks are not supported");
  *dir = (Directory){.count = get64(p + 32), .size = get64(p + 40), .offset = get64(p + 48)};
  *end = at;
  return true;
}

static bool find_directory(const Npz *z, Directory *dir) {
  uint64_t end = 0;
  uint8_t p[END_BYTES] = {0};
  if (!find_end(z, &end, p)) return false;
  *dir = (Directory){.count = get16(p + 10), .size = get32(p + 12), .offset = get32(p + 16)};
  if (dir->count == 0xffff || dir->size == 0xffffffffu || dir->offset == 0xffffffffu) {
    if (!read_end64(z, &end, dir)) return false;
  } else if (get16(p + 4) || get16(p + 6) || get16(p + 8) != dir->count) {
    return BAD(z, "archives of several disks are not supported");
  }
  if (dir->size > end || dir->offset > end - dir->size)
    return BAD(z, "the central directory (%llu bytes at %llu) is outside the file", (unsigned long long)dir->size,
               (unsigned long long)dir->offset);
  if (dir->count > dir->size / CENTRAL_BYTES)
    return BAD(z, "the archive claims %llu members, its directory has room for %llu", (unsigned long long)dir->count,
               (unsigned long long)(dir->size / CENTRAL_BYTES));
  return true;
}

/* 4.5.3: fields that are all ones in the header follow, in this order, in extra field 1. */
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

/* Reads the name, without ".npy". */
static bool read_name(const Npz *z, const uint8_t *p, size_t n, NpzMember *m) {
  const char *name = (const char *)p;
  m->name = arena_strndup(z->diags->arena, name, n);
  if (memchr(name, 0, n) || !text_is_utf8(name, n)) return BAD(z, "a member's name is not UTF-8 text");
  if (n < 5 || memcmp(name + n - 4, ".npy", 4) != 0) return BAD(z, "member %s is not an npy file", quoted(z, m->name));
  m->name = arena_strndup(z->diags->arena, name, n - 4);
  return true;
}

static bool check_sizes(const Npz *z, const NpzMember *m, uint32_t flags, uint32_t method) {
  const char *name = quoted(z, m->name);
  if (flags & 0x2041) return BAD(z, "member %s is encrypted", name);
  if (method != 0 && method != 8)
    return BAD(z, "member %s: compression method %u is not supported (stored and deflated are)", name, method);
  if (!m->deflated && m->size != m->packed) return BAD(z, "member %s is stored, but its two sizes differ", name);
  if (m->deflated && m->size / DEFLATE_RATIO > m->packed)
    return BAD(z, "member %s claims %llu bytes, more than %llu compressed bytes can hold", name,
               (unsigned long long)m->size, (unsigned long long)m->packed);
  return true;
}

/* The local header must agree; it determines where the data begins.  The data must end before the central directory. */
static bool check_local(const Npz *z, NpzMember *m, uint32_t method, const uint8_t *name, size_t name_bytes,
                        uint64_t limit) {
  bool inside = m->header <= limit && limit - m->header >= LOCAL_BYTES;
  uint64_t left = inside ? limit - m->header : 0;
  const uint8_t *p =
      bytes_at(z, inside ? m->header : 0, left < LOCAL_BYTES + name_bytes ? (size_t)left : LOCAL_BYTES + name_bytes);
  if (!p) return false;
  if (!inside || get32(p) != 0x04034b50u)
    return BAD(z, "member %s: no local header at %llu", quoted(z, m->name), (unsigned long long)m->header);
  uint32_t local_name = get16(p + 26); /* read once: another process may be writing to the mapped file */
  uint64_t skip = LOCAL_BYTES + (uint64_t)local_name + get16(p + 28);
  if (skip > limit - m->header || m->packed > limit - m->header - skip)
    return BAD(z, "member %s reaches beyond the members' part of the file", quoted(z, m->name));
  if (local_name != name_bytes || memcmp(p + LOCAL_BYTES, name, name_bytes) != 0 || get16(p + 8) != method)
    return BAD(z, "member %s: local header and central directory disagree", quoted(z, m->name));
  m->data = m->header + skip;
  return true;
}

/* Reads one central header of at most `left` bytes; returns its length, 0 on failure. */
static size_t read_member(Npz *z, const uint8_t *p, uint64_t left, uint64_t limit) {
  if (left < CENTRAL_BYTES || get32(p) != 0x02014b50u) return BAD(z, "the central directory is damaged");
  size_t name = get16(p + 28), extra = get16(p + 30), comment = get16(p + 32);
  size_t all = CENTRAL_BYTES + name + extra + comment;
  if (all > left) return BAD(z, "the central directory is cut short");
  uint32_t flags = get16(p + 8), method = get16(p + 10);
  NpzMember m = {.header = get32(p + 42),
                 .packed = get32(p + 20),
                 .size = get32(p + 24),
                 .crc = get32(p + 16),
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
  if (dir.size > DIRECTORY_MOST)
    return BAD(z, "a central directory of %llu bytes is too large", (unsigned long long)dir.size);
  const uint8_t *p = bytes_at(z, dir.offset, (size_t)dir.size);
  uint64_t left = dir.size;
  if (!p) return false;
  for (uint64_t i = 0; i < dir.count; i++) {
    size_t used = read_member(z, p, left, dir.offset);
    if (!used) return false;
    p += used;
    left -= used;
  }
  if (left) return BAD(z, "the central directory has %llu bytes too many", (unsigned long long)left);
  return check_members(z);
}

static Npz *open_either(Diags *d, const char *path, FileMap map, bool mapped, FileParts parts) {
  Npz *z = ARENA_NEW(d->arena, Npz);
  *z = (Npz){.diags = d,
             .path = arena_strdup(d->arena, path),
             .map = map,
             .mapped = mapped,
             .parts = parts,
             .size = parts.fd < 0 ? map.size : parts.size};
  if (read_directory(z)) return z;
  npz_close(z);
  return NULL;
}

Npz *npz_open(Diags *d, const char *path) {
  FileMap map = {0};
  FileParts parts = {.fd = -1};
  bool ok = lost_pages_handled() ? file_map(d, path, &map) : file_parts_open(d, path, &parts);
  return ok ? open_either(d, path, map, map.data != NULL, parts) : NULL;
}

Npz *npz_open_memory(Diags *d, const char *name, const void *bytes, size_t n) {
  return open_either(d, name, (FileMap){.data = bytes, .size = n}, false, (FileParts){.fd = -1});
}

void npz_close(Npz *z) {
  if (!z) return;
  file_parts_close(&z->parts);
  if (z->mapped) file_unmap(&z->map);
}

const NpzMember *npz_find(const Npz *z, const char *name) {
  NpzMember key = {.name = name}, *const want = &key;
  NpzMember *const *found = z->n ? bsearch(&want, z->by_name, z->n, sizeof want, by_name) : NULL;
  return found ? *found : NULL;
}

/* Returns the packed bytes of a member from offset `done` on: in place, or as many as fit `room`. */
static const uint8_t *packed_bytes(const Npz *z, const NpzMember *m, uint64_t done, uint8_t *room, uInt *n) {
  const uint64_t most = in_memory(z) ? (uint64_t)1 << 30 : FEED_BYTES; /* zlib counts in 32 bits */
  *n = (uInt)(m->packed - done < most ? m->packed - done : most);
  if (in_memory(z)) return z->map.data + m->data + done;
  return file_parts_read(z->diags, z->path, &z->parts, m->data + done, room, *n) ? room : NULL;
}

/* Inflates exactly `size` bytes from all bytes of the member, or if `part` only the first `size` of them.  Returns
 * NULL, or what is wrong. */
static const char *inflate_into(const Npz *z, const NpzMember *m, uint8_t *room, uint8_t *out, uint64_t size,
                                bool part) {
  z_stream s = {0};
  uint8_t none; /* zlib needs an output pointer even if no output is expected */
  uint64_t done = 0, out_left = size;
  int status = inflateInit2(&s, -MAX_WBITS);
  if (status != Z_OK) return "no memory";
  const char *why = NULL;
  s.next_out = size ? out : &none;
  while (!why && status == Z_OK && !(part && !out_left)) {
    const uint64_t most = (uint64_t)1 << 30;
    uInt feed, free_bytes = (uInt)(out_left < most ? out_left : most);
    const uint8_t *in = packed_bytes(z, m, done, room, &feed);
    s.next_in = (z_const Bytef *)(uintptr_t)in;
    s.avail_in = feed;
    s.avail_out = free_bytes;
    if (!in) why = ""; /* already reported */
    else status = inflate(&s, Z_NO_FLUSH);
    done += feed - s.avail_in;
    out_left -= free_bytes - s.avail_out;
  }
  inflateEnd(&s);
  return why                                                                        ? why
         : out_left == 0 && (part || (status == Z_STREAM_END && done == m->packed)) ? NULL
                                                                                    : "its compressed data is damaged";
}

static bool unpack_into(const Npz *z, const NpzMember *m, uint8_t *out, uint64_t n, bool part) {
  if (!m->deflated && in_memory(z)) return memcpy(out, z->map.data + m->data, n);
  if (!m->deflated) return file_parts_read(z->diags, z->path, &z->parts, m->data, out, (size_t)n);
  uint8_t *room = in_memory(z) ? NULL : malloc(FEED_BYTES);
  if (!room && !in_memory(z)) return file_no_memory(z->diags, z->path, FEED_BYTES);
  const char *why = inflate_into(z, m, room, out, n, part);
  free(room);
  return !why || (*why ? BAD(z, "member %s: %s", quoted(z, m->name), why) : false);
}

static const char *member_name(const Npz *z, const NpzMember *m) {
  return arena_printf(z->diags->arena, "%s: member %s", z->path, quoted(z, m->name));
}

/* Unpacks all n bytes of the .npy, or if `part` the first n, into a block of their own, aligned for its header. */
static uint8_t *unpack(const Npz *z, const NpzMember *m, uint64_t n, bool part) {
  void *block = NULL;
  if (posix_memalign(&block, 64, n ? (size_t)n : 1) != 0) {
    file_no_memory(z->diags, member_name(z, m), (size_t)n);
    return NULL;
  }
  if (unpack_into(z, m, block, n, part)) return block;
  free(block);
  return NULL;
}

bool npz_read_header(Npz *z, const NpzMember *m, Tensor *out) {
  uint64_t n = m->size < NPY_HEADER_ROOM ? m->size : NPY_HEADER_ROOM, whole = 0;
  *out = (Tensor){0};
  uint8_t *begin = unpack(z, m, n, true);
  bool ok = begin && npy_read_header(z->diags, member_name(z, m), begin, n, out, &whole);
  if (ok && whole != m->size)
    ok = BAD(z, "member %s: its header asks for %llu bytes, the archive says %llu", quoted(z, m->name),
             (unsigned long long)whole, (unsigned long long)m->size);
  free(begin);
  return ok;
}

static void release_heap(void *owner, size_t owner_bytes) {
  (void)owner_bytes;
  free(owner);
}

bool npz_read(Npz *z, const NpzMember *m, Tensor *out) {
  Tensor header;
  bool copied = m->deflated || !in_memory(z);
  *out = (Tensor){0};
  if (!npz_read_header(z, m, &header)) return false;
  uint8_t *block = copied ? unpack(z, m, m->size, false) : NULL;
  if (copied && !block) return false;
  const uint8_t *npy = copied ? block : z->map.data + m->data;
  bool ok = true;
  if (crc32_z(0, npy, (z_size_t)m->size) != m->crc)
    ok = BAD(z, "member %s: its checksum does not match", quoted(z, m->name));
  ok = ok && npy_read_memory(z->diags, member_name(z, m), npy, (size_t)m->size, out);
  if (ok && block && !out->release) { /* a view of the block: the tensor takes the block over */
    out->release = release_heap;
    out->owner = block;
    out->owner_bytes = (size_t)m->size;
  } else {
    free(block);
  }
  return ok;
}
