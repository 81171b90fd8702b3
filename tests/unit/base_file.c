/* Files: mapping, text, atomic writing; the content hash. */
#define _GNU_SOURCE /* O_TMPFILE */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <signal.h>
#include <unistd.h>

#include "base/file.h"
#include "base/hash.h"
#include "base/lost_pages.h"
#include "base/standard.h"
#include "base/text.h"
#include "program/status.h"
#include "tests/temp.h"
#include "tests/test.h"

static Arena *arena;
static Diags *diags;

/* Checks that the only diagnostic is this one; clears them. */
static void check_error(DiagCode code, const char *path, const char *part) {
  CHECK(diags->errors == 1 && diags->n == 1);
  if (diags->n) {
    const Diag *g = &diags->items[0];
    CHECK(g->code == code);
    CHECK_STR(g->loc.file, path);
    CHECKF(strstr(g->message, part), "\"%s\" lacks \"%s\"", g->message, part);
  }
  diags = diags_new(arena);
}

static size_t files_in(const char *dir) {
  size_t n = 0;
  DIR *d = opendir(dir);
  for (struct dirent *e; (e = readdir(d));) n += e->d_name[0] != '.';
  closedir(d);
  return n;
}

static void map_reads_a_file(void) {
  const char *path = temp_path("a.bin");
  FileMap map;
  temp_write(path, "hello", 5);
  CHECK(file_map(diags, path, &map) && map.size == 5 && memcmp(map.data, "hello", 5) == 0);
  file_unmap(&map);
  temp_write(path, "", 0);
  CHECK(file_map(diags, path, &map) && map.size == 0 && map.data);
  file_unmap(&map);
  CHECK(diags->n == 0);
}

static void map_refuses(void) {
  FileMap map;
  const char *none = temp_path("none");
  CHECK(!file_map(diags, none, &map));
  check_error(DIAG_file_read, none, "No such file");
  CHECK(!file_map(diags, temp_root(), &map));
  check_error(DIAG_file_read, temp_root(), "directory");
  CHECK(!file_map(diags, "/dev/zero", &map));
  check_error(DIAG_file_read, "/dev/zero", "regular");
  const char *fifo = temp_path("fifo"); /* without a writer: opening it must not wait */
  CHECK(mkfifo(fifo, 0600) == 0 && !file_map(diags, fifo, &map));
  check_error(DIAG_file_read, fifo, "regular");
  unlink(fifo);
  CHECK(!file_map(diags, "", &map));
  check_error(DIAG_file_read, "", "No such file");
}

static void text_is_read_whole(void) {
  const char *path = temp_path("t.txt");
  size_t n = 0;
  temp_write(path, "two\nlines", 9);
  CHECK_STR(file_read_text(diags, arena, path, &n), "two\nlines");
  CHECK(n == 9);
  temp_write(path, "", 0);
  CHECK_STR(file_read_text(diags, arena, path, NULL), "");
  char page[4096]; /* exactly a page: nothing readable follows in the mapping */
  memset(page, 'x', sizeof page);
  temp_write(path, page, sizeof page);
  const char *text = file_read_text(diags, arena, path, &n);
  CHECK(text && n == 4096 && strlen(text) == 4096);
  temp_write(path, "a\0b", 3);
  CHECK(!file_read_text(diags, arena, path, NULL));
  check_error(DIAG_file_read, path, "byte 1 is NUL");
}

static void check_content(const char *path, const char *want) {
  CHECK_STR(file_read_text(diags, arena, path, NULL), want);
}

static void write_replaces(void) {
  const char *path = temp_path("w.txt");
  struct stat st;
  size_t before = files_in(temp_root());
  mode_t mask = umask(022);
  CHECK(file_write(diags, path, 0666, "one", 3));
  check_content(path, "one");
  CHECK(stat(path, &st) == 0 && (st.st_mode & 0777) == 0644);
  CHECK(file_write(diags, path, 0777, "second", 6));
  check_content(path, "second");
  CHECK(stat(path, &st) == 0 && (st.st_mode & 0777) == 0755);
  umask(mask);
  CHECK(files_in(temp_root()) == before + 1); /* no temporary left */
  CHECK(diags->n == 0);
}

static void write_in_pieces(void) {
  const char *path = temp_path("p.bin");
  FileWriter *w = file_writer_open(diags, path, 0666);
  size_t total = 0;
  static uint8_t block[200000];
  for (size_t n = 1; n < sizeof block; n = n * 3 + 1) {
    for (size_t i = 0; i < n; i++) block[i] = (uint8_t)((total + i) * 7);
    CHECK(file_writer_add(w, block, n));
    total += n;
    CHECK(file_writer_offset(w) == total);
  }
  CHECK(file_writer_pad(w, 'z', 3));
  CHECK(file_writer_finish(w));
  FileMap map;
  CHECK(file_map(diags, path, &map) && map.size == total + 3 && memcmp(map.data + total, "zzz", 3) == 0);
  for (size_t i = 0; i < total; i++) CHECK(map.data[i] == (uint8_t)(i * 7));
  file_unmap(&map);
}

static void write_abandoned_keeps_the_old(void) {
  const char *path = temp_path("k.txt");
  CHECK(file_write(diags, path, 0666, "old", 3));
  size_t before = files_in(temp_root());
  FileWriter *w = file_writer_open(diags, path, 0666);
  CHECK(file_writer_add(w, "new", 3));
  file_writer_abandon(w);
  check_content(path, "old");
  CHECK(files_in(temp_root()) == before);
}

/* A full disk, simulated by a limit on the file size: one error, the old file stays, no temporary. */
/* A process that is killed during a write leaves no file, if the file system has unnamed files. */
static void write_killed_leaves_nothing(void) {
  char *folder = arena_printf(arena, "%s/killed", temp_root());
  CHECK(mkdir(folder, 0777) == 0);
  int probe = open(folder, O_WRONLY | O_TMPFILE, 0600);
  if (probe < 0) {
    printf("not run: no O_TMPFILE here\n");
    return;
  }
  close(probe);
  pid_t pid = fork();
  if (pid == 0) {
    FileWriter *w = file_writer_open(diags, arena_printf(arena, "%s/new", folder), 0666);
    char bytes[200000] = "text";
    if (!w || !file_writer_add(w, bytes, sizeof bytes)) _exit(1);
    raise(SIGKILL);
  }
  int status = 0;
  CHECK(waitpid(pid, &status, 0) == pid && WIFSIGNALED(status));
  CHECK(rmdir(folder) == 0); /* empty */
}

static void write_failing_keeps_the_old(void) {
  const char *path = temp_path("f.txt");
  static char big[300000];
  struct rlimit old, small;
  CHECK(file_write(diags, path, 0666, "old", 3));
  size_t before = files_in(temp_root());
  file_limit_refuses();
  getrlimit(RLIMIT_FSIZE, &old);
  small = (struct rlimit){1000, old.rlim_max};
  setrlimit(RLIMIT_FSIZE, &small);
  FileWriter *w = file_writer_open(diags, path, 0666);
  bool added = file_writer_add(w, big, sizeof big), again = file_writer_add(w, big, 1);
  bool finished = file_writer_finish(w);
  setrlimit(RLIMIT_FSIZE, &old);
  CHECK(!added && !again && !finished);
  check_error(DIAG_file_write, path, "File too large");
  check_content(path, "old");
  CHECK(files_in(temp_root()) == before);
}

static void write_goes_through_links_and_devices(void) {
  const char *path = temp_path("real.txt"), *link = temp_path("link.txt");
  struct stat st;
  CHECK(file_write(diags, path, 0666, "old", 3) && symlink("real.txt", link) == 0);
  CHECK(file_write(diags, link, 0666, "new", 3));
  CHECK(lstat(link, &st) == 0 && S_ISLNK(st.st_mode));
  check_content(path, "new");
  CHECK(file_write(diags, "/dev/null", 0666, "gone", 4));
  CHECK(stat("/dev/null", &st) == 0 && S_ISCHR(st.st_mode));
}

static void write_refuses(void) {
  CHECK(!file_write(diags, temp_root(), 0666, "x", 1));
  check_error(DIAG_file_write, temp_root(), "directory");
  const char *path = temp_path("no/such/dir.txt");
  CHECK(!file_write(diags, path, 0666, "x", 1));
  check_error(DIAG_file_write, path, "there is no folder");
}

/* The sanity values of the reference implementation (cli/xsum_sanity_check.c), and common ones. */
static void hash_matches_xxh64(void) {
  const char *fox = "The quick brown fox jumps over the lazy dog";
  const uint64_t prime32 = 2654435761u, prime64 = 11400714785074694797u;
  CHECK(hash64("", 0, 0) == 0xef46db3751d8e999u);
  CHECK(hash64("a", 1, 0) == 0xd24ec4f1a98c6e5bu);
  CHECK(hash64("abc", 3, 0) == 0x44bc2cf5ad770999u);
  CHECK(hash64(fox, 43, 0) == 0x0b242d361fda71bcu);
  uint8_t buffer[222];
  uint64_t generator = prime32;
  for (size_t i = 0; i < sizeof buffer; i++, generator *= prime64) buffer[i] = (uint8_t)(generator >> 56);
  CHECK(hash64(buffer, 0, prime32) == 0xac75fda2929b17efu);
  CHECK(hash64(buffer, 1, 0) == 0xe934a84adb052768u);
  CHECK(hash64(buffer, 14, 0) == 0x8282dcc4994e35c8u);
  CHECK(hash64(buffer, 14, prime32) == 0xc3bd6bf63deb6df0u);
  CHECK(hash64(buffer, 222, 0) == 0xb641ae8cb691c174u);
  CHECK(hash64(buffer, 222, prime32) == 0x20cb8ab7ae10c14au);
}

static void hash_in_pieces(void) {
  uint8_t bytes[300];
  for (size_t i = 0; i < sizeof bytes; i++) bytes[i] = (uint8_t)(i * 29 + 3);
  for (size_t n = 0; n <= sizeof bytes; n += 1 + n / 50)
    for (size_t step = 1; step <= n + 1; step += 1 + step / 7) {
      Hash64 h;
      hash64_begin(&h, n);
      for (size_t at = 0; at < n; at += step) hash64_add(&h, bytes + at, n - at < step ? n - at : step);
      CHECKF(hash64_end(&h) == hash64(bytes, n, n), "%zu bytes in pieces of %zu", n, step);
    }
}

static void control_bytes_are_shown(void) {
  char small[6];
  CHECK_STR(text_shown(arena, "plain \xc3\xa9"), "plain \xc3\xa9");
  CHECK_STR(text_shown(arena, "a\033[31mb\n\t\x7f"), "a\\x1b[31mb\\n\\t\\x7f");
  CHECK_STR(text_shown(arena,
                       "\xc2\x9b"
                       "1m\xc2\xa9"),
            "\\xc2\\x9b1m\xc2\xa9"); /* CSI, and a harmless sign */
  CHECK_STR(text_shown(arena,
                       "a\x9b"
                       "b\xe2\x82"),
            "a\\x9bb\\xe2\\x82"); /* invalid UTF-8: CSI in other character sets, half a character */
  CHECK_STR(text_shown(arena, "\xe2\x80\xae\xe2\x80\xa9\xe2\x80\xa6"),
            "\\xe2\\x80\\xae\\xe2\\x80\\xa9\xe2\x80\xa6"); /* right-to-left marks */
  CHECK(text_show("ab\033c", small, sizeof small) == 7);
  CHECK_STR(small, "ab"); /* no half escape */
  CHECK(text_show("abc\xc3\xa9", small, 5) == 5);
  CHECK_STR(small, "abc"); /* no half character */
  Text quoted = {.arena = arena};
  text_quoted(&quoted, "\xc2\x9b\xc3\xa9\xff");
  CHECK_STR(text_str(&quoted), "\"\\xc2\\x9b\xc3\xa9\\xff\"");
  RtError error = {0};
  rt_error(&error, RT_FAILED, "the file 'x\n\033]0;y' is bad");
  CHECK_STR(error.text, "the file 'x\\n\\x1b]0;y' is bad");
}

/* A mapped file that is truncated, in a process that handles it and in one that does not. */
static void ended(const char *path, void *context) { _exit(strcmp(path, context) == 0 ? 42 : 43); }

static int touch_lost_page(bool handled) {
  const char *path = temp_path("lost");
  char page[8192] = "x";
  FileMap map;
  temp_write(path, page, sizeof page);
  pid_t pid = fork();
  if (pid == 0) {
    setrlimit(RLIMIT_CORE, &(struct rlimit){0, 0});
    signal(SIGBUS, SIG_DFL);
    if (handled) lost_pages_handle(ended, (void *)(uintptr_t)path);
    bool ok = handled ? file_take(diags, path, &map) : file_map(diags, path, &map);
    if (!ok || map.copied || truncate(path, 0) != 0) _exit(1);
    _exit(((volatile const uint8_t *)map.data)[5000]);
  }
  int status = 0;
  waitpid(pid, &status, 0);
  return status;
}

static void lost_pages(void) {
  int status = touch_lost_page(true);
  CHECKF(WIFEXITED(status) && WEXITSTATUS(status) == 42, "status %d", status);
  status = touch_lost_page(false);
  CHECKF(!WIFEXITED(status) || WEXITSTATUS(status) != 42, "status %d", status);
  FileMap map; /* not handled here: read */
  const char *path = temp_path("taken");
  temp_write(path, "hello", 5);
  CHECK(file_take(diags, path, &map) && map.copied && map.size == 5 && truncate(path, 0) == 0 &&
        memcmp(map.data, "hello", 5) == 0);
  file_unmap(&map);
}

static void put_bytes(const char *s) {
  for (; *s; s++) {
    putchar(*s);
    fflush(stdout);
  }
}

/* Also in the middle of a character. */
static void standard_output_shows_control_bytes(void) {
  const char *path = temp_path("out"), *want =
                                           "a\\xc2\\x9b\xc3\xa9\\xff\n\t\\xe2\\x80\\xae\\xe2\\x82"
                                           "\"\\u007f\xc3\xa9\\u0085\" raw \033 \\x07\\xe2\\x82";
  pid_t pid = fork();
  if (pid == 0) {
    if (!freopen(path, "w", stdout)) _exit(1);
    standard_show();
    put_bytes("a\xc2\x9b\xc3\xa9\xff\n\t\xe2\x80\xae\xe2\x82");
    standard_json(true);
    put_bytes("\"\x7f\xc3\xa9\xc2\x85\"");
    standard_json(false);
    standard_write(" raw \033 ", 7);
    put_bytes("\a\xe2\x82");
    _exit(standard_output_written() ? 0 : 2);
  }
  int status = 0;
  waitpid(pid, &status, 0);
  CHECKF(WIFEXITED(status) && WEXITSTATUS(status) == 0, "status %d", status);
  const char *got = file_read_text(diags, arena, path, NULL);
  CHECK_STR(got ? got : "", want);
}

static void hash_sees_every_byte(void) {
  uint8_t b[100];
  for (size_t i = 0; i < sizeof b; i++) b[i] = (uint8_t)i;
  uint64_t h = hash64(b, sizeof b, 0);
  for (size_t i = 0; i < sizeof b; i++) {
    b[i] ^= 1;
    CHECK(hash64(b, sizeof b, 0) != h);
    b[i] ^= 1;
    CHECK(hash64(b, i, 0) != h);
  }
}

int main(void) {
  arena = arena_new();
  diags = diags_new(arena);
  RUN(map_reads_a_file);
  RUN(map_refuses);
  RUN(text_is_read_whole);
  RUN(write_replaces);
  RUN(write_in_pieces);
  RUN(write_abandoned_keeps_the_old);
  RUN(write_killed_leaves_nothing);
  RUN(write_failing_keeps_the_old);
  RUN(write_goes_through_links_and_devices);
  RUN(write_refuses);
  RUN(hash_matches_xxh64);
  RUN(hash_in_pieces);
  RUN(control_bytes_are_shown);
  RUN(standard_output_shows_control_bytes);
  RUN(lost_pages);
  RUN(hash_sees_every_byte);
  arena_free(arena);
  return test_summary();
}
