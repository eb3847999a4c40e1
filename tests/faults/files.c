/* Faults where files are changed: loaded before the C library (LD_PRELOAD), and told by `fault_arm` what goes wrong at
   which call. Only calls that change files below one folder are counted.

   COUNT   nothing goes wrong
   KILL    the process is killed
   POWER   the same, and what was written and not synced is half lost
   FAIL    the call fails, this one alone
   LASTING it and every later one that needs room (ENOSPC) or changes anything (other errors) fail
   SHORT   a write takes half of what it was given                                                              */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

enum { COUNT, KILL, POWER, FAIL, LASTING, SHORT };
enum { ROOM, OTHER };
#define DIRTY 256

static char root[PATH_MAX];
static long at = -1;
long fault_count;
static int action, fault;
static struct { int fd; dev_t dev; ino_t ino; off_t synced; } dirty[DIRTY];
static int dirties;

void fault_arm(const char *folder, long number, int what, int error) {
    snprintf(root, sizeof root, "%s", folder);
    fault_count = 0, at = number, action = what, fault = error;
}

static int below(const char *path) {
    size_t n = strlen(root);
    return n && !strncmp(path, root, n) && (path[n] == '/' || path[n] == 0);
}

static int fd_below(int fd) {
    char name[64], path[PATH_MAX];
    if (fd == AT_FDCWD) snprintf(name, sizeof name, "/proc/self/cwd");
    else snprintf(name, sizeof name, "/proc/self/fd/%d", fd);
    ssize_t n = readlink(name, path, sizeof path - 1);
    if (n < 0) return 0;
    path[n] = 0;
    return below(path);
}

static int path_below(int dir, const char *path) { return path[0] == '/' ? below(path) : fd_below(dir); }

static void die(void) {
    if (action == POWER)
        for (int i = 0; i < dirties; i++) {
            struct stat s;
            if (dirty[i].fd >= 0 && !fstat(dirty[i].fd, &s) && s.st_size > dirty[i].synced)
                syscall(SYS_ftruncate, dirty[i].fd, dirty[i].synced + (s.st_size - dirty[i].synced) / 2);
        }
    syscall(SYS_kill, getpid(), SIGKILL);
}

/* What is to happen at this call: 0 nothing, 1 it fails (errno is set), 2 it is short. */
static int fails(int kind, int writes) {
    if (at < 0) return 0;
    fault_count++;
    int now = fault_count == at;
    if (now && (action == KILL || action == POWER)) die();
    if (now && action == SHORT) return writes ? 2 : 0;
    if ((now && action == FAIL) || (fault_count >= at && action == LASTING && (fault != ENOSPC || kind == ROOM))) {
        errno = fault;
        return 1;
    }
    return 0;
}

static void wrote(int fd) {
    struct stat s;
    if (at < 0 || action != POWER || fstat(fd, &s)) return;
    for (int i = 0; i < dirties; i++)
        if (dirty[i].fd >= 0 && dirty[i].dev == s.st_dev && dirty[i].ino == s.st_ino) return;
    if (dirties == DIRTY) return;
    char name[64];
    snprintf(name, sizeof name, "/proc/self/fd/%d", fd);
    int again = syscall(SYS_openat, AT_FDCWD, name, O_RDWR | O_CLOEXEC, 0);
    if (again < 0) return;
    dirty[dirties].fd = again, dirty[dirties].dev = s.st_dev, dirty[dirties].ino = s.st_ino;
    dirty[dirties++].synced = s.st_size;
}

static void synced(int fd) {
    struct stat s;
    if (fstat(fd, &s)) return;
    for (int i = 0; i < dirties; i++)
        if (dirty[i].fd >= 0 && dirty[i].dev == s.st_dev && dirty[i].ino == s.st_ino) {
            syscall(SYS_close, dirty[i].fd);
            dirty[i].fd = -1;
        }
}

#define REAL(name, ...) (real_##name ? real_##name : (__typeof__(real_##name))dlsym(RTLD_NEXT, #name))(__VA_ARGS__)

static ssize_t (*real_write)(int, const void *, size_t);
ssize_t write(int fd, const void *data, size_t n) {
    if (at >= 0 && fd > 2 && fd_below(fd)) {
        int what = fails(ROOM, 1);
        if (what == 1) return -1;
        if (what == 2 && n > 1) n /= 2;
        wrote(fd);
    }
    return REAL(write, fd, data, n);
}

static ssize_t (*real_pwrite64)(int, const void *, size_t, off64_t);
ssize_t pwrite64(int fd, const void *data, size_t n, off64_t place) {
    if (at >= 0 && fd_below(fd)) {
        int what = fails(ROOM, 1);
        if (what == 1) return -1;
        if (what == 2 && n > 1) n /= 2;
        wrote(fd);
    }
    return REAL(pwrite64, fd, data, n, place);
}
ssize_t pwrite(int fd, const void *data, size_t n, off_t place) { return pwrite64(fd, data, n, place); }

static ssize_t (*real_writev)(int, const struct iovec *, int);
ssize_t writev(int fd, const struct iovec *parts, int n) {
    if (at >= 0 && fd > 2 && fd_below(fd)) {
        if (fails(ROOM, 0)) return -1;
        wrote(fd);
    }
    return REAL(writev, fd, parts, n);
}

#define SYNC(name)                                                                                                   \
    static int (*real_##name)(int);                                                                                  \
    int name(int fd) {                                                                                               \
        if (at >= 0 && fd_below(fd)) {                                                                               \
            if (fails(OTHER, 0)) return -1;                                                                          \
            synced(fd);                                                                                              \
        }                                                                                                            \
        return REAL(name, fd);                                                                                       \
    }
SYNC(fsync)
SYNC(fdatasync)

#define OPEN(name)                                                                                                   \
    static int (*real_##name)(const char *, int, ...);                                                               \
    int name(const char *path, int flags, ...) {                                                                     \
        va_list more;                                                                                                \
        va_start(more, flags);                                                                                       \
        mode_t mode = flags & (O_CREAT | O_TMPFILE) ? va_arg(more, mode_t) : 0;                                      \
        va_end(more);                                                                                                \
        if (at >= 0 && flags & (O_CREAT | O_TRUNC) && path_below(AT_FDCWD, path) && fails(ROOM, 0)) return -1;       \
        return REAL(name, path, flags, mode);                                                                        \
    }
OPEN(open)
OPEN(open64)

#define OPENAT(name)                                                                                                 \
    static int (*real_##name)(int, const char *, int, ...);                                                          \
    int name(int dir, const char *path, int flags, ...) {                                                            \
        va_list more;                                                                                                \
        va_start(more, flags);                                                                                       \
        mode_t mode = flags & (O_CREAT | O_TMPFILE) ? va_arg(more, mode_t) : 0;                                      \
        va_end(more);                                                                                                \
        if (at >= 0 && flags & (O_CREAT | O_TRUNC) && path_below(dir, path) && fails(ROOM, 0)) return -1;            \
        return REAL(name, dir, path, flags, mode);                                                                   \
    }
OPENAT(openat)
OPENAT(openat64)

#define PATHS(name, kind, where, declared, ...)                                                                      \
    static int (*real_##name) declared;                                                                              \
    int name declared {                                                                                              \
        if (at >= 0 && (where) && fails(kind, 0)) return -1;                                                         \
        return REAL(name, __VA_ARGS__);                                                                              \
    }
/* This one returns the number of its error. */
#define ROOM_FOR(name, offset)                                                                                       \
    static int (*real_##name)(int, offset, offset);                                                                  \
    int name(int fd, offset place, offset n) {                                                                       \
        if (at >= 0 && fd_below(fd) && fails(ROOM, 0)) return fault;                                                 \
        return REAL(name, fd, place, n);                                                                             \
    }
ROOM_FOR(posix_fallocate, off_t)
ROOM_FOR(posix_fallocate64, off64_t)

PATHS(rename, OTHER, path_below(AT_FDCWD, b), (const char *a, const char *b), a, b)
PATHS(renameat, OTHER, path_below(d, b), (int c, const char *a, int d, const char *b), c, a, d, b)
PATHS(link, ROOM, path_below(AT_FDCWD, b), (const char *a, const char *b), a, b)
PATHS(linkat, ROOM, path_below(d, b), (int c, const char *a, int d, const char *b, int f), c, a, d, b, f)
PATHS(unlink, OTHER, path_below(AT_FDCWD, a), (const char *a), a)
PATHS(unlinkat, OTHER, path_below(d, a), (int d, const char *a, int f), d, a, f)
PATHS(mkdir, ROOM, path_below(AT_FDCWD, a), (const char *a, mode_t m), a, m)
PATHS(rmdir, OTHER, path_below(AT_FDCWD, a), (const char *a), a)
PATHS(ftruncate64, ROOM, fd_below(fd), (int fd, off64_t n), fd, n)
PATHS(truncate64, ROOM, path_below(AT_FDCWD, a), (const char *a, off64_t n), a, n)
