/* tests/unit/meeting_file.c - the file at which ranks meet, on file systems with and without locks, and on one that
 * lets other users read everything. */
#define _GNU_SOURCE
#include "runtime/launch/meeting_file.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "tests/temp.h"
#include "tests/test.h"

static char path[sizeof temp_dir + 16];
static int lock_error; /* the error of locks; 0 if they work */
static mode_t forced;  /* permissions that every open file has as well */
static const char text[] = MEETING_FILE_BEGIN "00112233445566778899aabbccddeeff\nend\n";

/* Replaces the system's, to report permissions like a network file system. */
int fstat(int fd, struct stat *st) {
  int result = (int)syscall(SYS_fstat, fd, st);
  st->st_mode |= forced;
  return result;
}

int flock(int fd, int operation) {
  if (!lock_error) return (int)syscall(SYS_flock, fd, operation);
  errno = lock_error;
  return -1;
}

static void begin(void) {
  unlink(path);
  lock_error = 0;
}

static void published(void) {
  char got[256];
  struct stat st;
  RtError error = {0};
  int held = -1;
  CHECK(meeting_file_publish(path, text, true, &held, &error) == RT_OK && held >= 0);
  CHECKF(!*error.text, "%s", error.text);
  CHECK(stat(path, &st) == 0 && (st.st_mode & 07777) == 0600);
  CHECK(meeting_file_read(path, got, sizeof got, &error) == RT_OK && strcmp(got, text) == 0);
  meeting_file_withdraw(path, held);
  CHECK(stat(path, &st) != 0);
}

/* Refused with these words; the file stays unchanged. */
static void refused(const char *words) {
  struct stat before, after;
  RtError error = {0};
  int held = -1;
  CHECK(lstat(path, &before) == 0);
  CHECK(meeting_file_publish(path, text, true, &held, &error) == RT_BAD_INPUT && held == -1);
  CHECKF(strstr(error.text, words), "%s", error.text);
  CHECK(lstat(path, &after) == 0 && before.st_ino == after.st_ino && before.st_size == after.st_size &&
        before.st_mtim.tv_nsec == after.st_mtim.tv_nsec);
}

static void leave(const char *content, mode_t mode) {
  int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, mode);
  CHECK(fd >= 0 && fchmod(fd, mode) == 0 && write(fd, content, strlen(content)) == (ssize_t)strlen(content));
  close(fd);
}

static void left_files(void) {
  begin();
  published();
  leave(text, 0600); /* of a killed run */
  published();
  leave(text, 0600);
  int other = open(path, O_RDWR | O_CLOEXEC);
  CHECK(flock(other, LOCK_EX) == 0);
  refused("another run");
  close(other);
  leave(text, 0644); /* not ours: other users may have opened it */
  refused("already exists");
}

static void foreign_files(void) {
  static const char *const contents[] = {"", "my thesis\n", MEETING_FILE_BEGIN,
                                         MEETING_FILE_BEGIN "00112233445566778899aabbccddeegg\n"};
  for (size_t i = 0; i < sizeof contents / sizeof *contents; i++) {
    begin();
    leave(contents[i], 0600);
    refused("already exists");
  }
}

static void without_locks(void) {
  static const int numbers[] = {ENOLCK, EOPNOTSUPP, ENOSYS};
  for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
    begin();
    lock_error = numbers[i];
    published(); /* no other process has made it */
    leave(text, 0600);
    refused("no locks");
  }
}

static void never_published(void) {
  RtError error = {0}, second = {0};
  int held;
  begin();
  lock_error = EIO;
  CHECK(meeting_file_publish(path, text, true, &held, &error) == RT_BAD_INPUT &&
        strstr(error.text, "cannot be locked"));
  CHECK(access(path, F_OK) != 0);
  begin();
  forced = 0044;
  CHECK(meeting_file_publish(path, text, true, &held, &second) == RT_BAD_INPUT &&
        strstr(second.text, "can be read by other users"));
  CHECK(access(path, F_OK) != 0);
  CHECK(meeting_file_publish(path, text, false, &held, &second) == RT_OK);
  meeting_file_withdraw(path, held);
  forced = 0;
}

int main(void) {
  snprintf(path, sizeof path, "%s/meeting", temp_root());
  RUN(left_files);
  RUN(foreign_files);
  RUN(without_locks);
  RUN(never_published);
  return test_summary();
}
