// LD_PRELOAD: counts system calls on files under TORTURE_UNDER. The TORTURE_AT-th call of the kind TORTURE_CALL fails
// with TORTURE_ERRNO, and so do all later ones. The counts lie in the file TORTURE_COUNTS, which survives exec.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

enum kind { kOpen, kRead, kMmap, kWrite, kSync, kRename, kTruncate, kKinds };
static const char* const kNames[kKinds] = {"open", "read", "mmap", "write", "sync", "rename", "truncate"};

static _Atomic long* counts;
static const char* under;
static int failing = -1;
static long at;
static int error;

__attribute__((constructor)) static void begin(void) {
    const char* name = getenv("TORTURE_COUNTS");
    under = getenv("TORTURE_UNDER");
    const char* call = getenv("TORTURE_CALL");
    if (name == NULL || under == NULL) {
        return;
    }
    int (*real)(const char*, int, ...) = dlsym(RTLD_NEXT, "open");
    const int fd = real(name, O_RDWR | O_CREAT, 0644);
    if (fd < 0) {
        return;
    }
    int (*truncate_real)(int, off_t) = dlsym(RTLD_NEXT, "ftruncate");
    void* (*map)(void*, size_t, int, int, int, off_t) = dlsym(RTLD_NEXT, "mmap");
    if (truncate_real(fd, kKinds * sizeof(long)) == 0) {
        void* shared = map(NULL, kKinds * sizeof(long), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
        counts = shared == MAP_FAILED ? NULL : shared;
    }
    close(fd);
    for (int kind = 0; call != NULL && kind < kKinds; ++kind) {
        if (strcmp(call, kNames[kind]) == 0) {
            failing = kind;
        }
    }
    at = getenv("TORTURE_AT") != NULL ? atol(getenv("TORTURE_AT")) : 0;
    error = getenv("TORTURE_ERRNO") != NULL ? atoi(getenv("TORTURE_ERRNO")) : EIO;
}

// Whether this call fails. errno is set then, and kept otherwise.
static int fails(enum kind kind, const char* path) {
    if (counts == NULL || path == NULL || strncmp(path, under, strlen(under)) != 0) {
        return 0;
    }
    const long number = atomic_fetch_add(&counts[kind], 1) + 1;
    if ((int)kind != failing || number < at) {
        return 0;
    }
    errno = error;
    return 1;
}

static int fails_fd(enum kind kind, int fd) {
    if (counts == NULL || fd < 0) {
        return 0;
    }
    const int kept = errno;
    char link[64];
    char path[PATH_MAX];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    const ssize_t size = readlink(link, path, sizeof path - 1);
    errno = kept;
    if (size < 0) {
        return 0;
    }
    path[size] = 0;
    return fails(kind, path);
}

static int fails_at(enum kind kind, int folder, const char* path) {
    char absolute[PATH_MAX];
    if (path == NULL || path[0] == '/' || folder != AT_FDCWD) {
        return path != NULL && path[0] == '/' ? fails(kind, path) : fails_fd(kind, folder);
    }
    if (getcwd(absolute, sizeof absolute) == NULL || strlen(absolute) + strlen(path) + 2 > sizeof absolute) {
        return 0;
    }
    strcat(strcat(absolute, "/"), path);
    return fails(kind, absolute);
}

#define REAL(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))
#define ON_FD(kind, type, failed, name, parameters, arguments) \
    type name parameters {                                     \
        if (fails_fd(kind, fd)) {                              \
            return failed;                                     \
        }                                                      \
        return REAL(name) arguments;                           \
    }

ON_FD(kRead, ssize_t, -1, read, (int fd, void* to, size_t size), (fd, to, size))
ON_FD(kRead, ssize_t, -1, pread, (int fd, void* to, size_t size, off_t from), (fd, to, size, from))
ON_FD(kRead, ssize_t, -1, pread64, (int fd, void* to, size_t size, off64_t from), (fd, to, size, from))
ON_FD(kRead, ssize_t, -1, __read_chk, (int fd, void* to, size_t size, size_t room), (fd, to, size, room))
ON_FD(kRead, ssize_t, -1, __pread_chk, (int fd, void* to, size_t size, off_t from, size_t room),
      (fd, to, size, from, room))
ON_FD(kRead, ssize_t, -1, __pread64_chk, (int fd, void* to, size_t size, off64_t from, size_t room),
      (fd, to, size, from, room))
ON_FD(kRead, ssize_t, -1, readv, (int fd, const struct iovec* to, int count), (fd, to, count))
ON_FD(kRead, ssize_t, -1, preadv, (int fd, const struct iovec* to, int count, off_t from), (fd, to, count, from))
ON_FD(kRead, ssize_t, -1, preadv2, (int fd, const struct iovec* to, int count, off_t from, int flags),
      (fd, to, count, from, flags))
ON_FD(kWrite, ssize_t, -1, write, (int fd, const void* from, size_t size), (fd, from, size))
ON_FD(kWrite, ssize_t, -1, pwrite, (int fd, const void* from, size_t size, off_t to), (fd, from, size, to))
ON_FD(kWrite, ssize_t, -1, pwrite64, (int fd, const void* from, size_t size, off64_t to), (fd, from, size, to))
ON_FD(kWrite, ssize_t, -1, writev, (int fd, const struct iovec* from, int count), (fd, from, count))
ON_FD(kWrite, ssize_t, -1, pwritev, (int fd, const struct iovec* from, int count, off_t to), (fd, from, count, to))
ON_FD(kSync, int, -1, fsync, (int fd), (fd))
ON_FD(kSync, int, -1, fdatasync, (int fd), (fd))
ON_FD(kTruncate, int, -1, ftruncate, (int fd, off_t size), (fd, size))
ON_FD(kTruncate, int, -1, ftruncate64, (int fd, off64_t size), (fd, size))
ON_FD(kTruncate, int, error, posix_fallocate, (int fd, off_t from, off_t size), (fd, from, size))
ON_FD(kTruncate, int, error, posix_fallocate64, (int fd, off64_t from, off64_t size), (fd, from, size))
ON_FD(kMmap, void*, MAP_FAILED, mmap, (void* to, size_t size, int protection, int flags, int fd, off_t from),
      (to, size, protection, flags, fd, from))
ON_FD(kMmap, void*, MAP_FAILED, mmap64, (void* to, size_t size, int protection, int flags, int fd, off64_t from),
      (to, size, protection, flags, fd, from))

#define OPEN(name)                                                       \
    int name(const char* path, int flags, ...) {                         \
        va_list list;                                                    \
        va_start(list, flags);                                           \
        const mode_t mode = flags & (O_CREAT | __O_TMPFILE) ? va_arg(list, mode_t) : 0; \
        va_end(list);                                                    \
        if (fails_at(kOpen, AT_FDCWD, path)) {                           \
            return -1;                                                   \
        }                                                                \
        return REAL(name)(path, flags, mode);                            \
    }
OPEN(open)
OPEN(open64)

#define OPEN_AT(name)                                                    \
    int name(int folder, const char* path, int flags, ...) {             \
        va_list list;                                                    \
        va_start(list, flags);                                           \
        const mode_t mode = flags & (O_CREAT | __O_TMPFILE) ? va_arg(list, mode_t) : 0; \
        va_end(list);                                                    \
        if (fails_at(kOpen, folder, path)) {                             \
            return -1;                                                   \
        }                                                                \
        return REAL(name)(folder, path, flags, mode);                    \
    }
OPEN_AT(openat)
OPEN_AT(openat64)

int rename(const char* from, const char* to) {
    return fails_at(kRename, AT_FDCWD, to) ? -1 : REAL(rename)(from, to);
}

int renameat(int from_folder, const char* from, int to_folder, const char* to) {
    return fails_at(kRename, to_folder, to) ? -1 : REAL(renameat)(from_folder, from, to_folder, to);
}

int renameat2(int from_folder, const char* from, int to_folder, const char* to, unsigned int flags) {
    return fails_at(kRename, to_folder, to) ? -1 : REAL(renameat2)(from_folder, from, to_folder, to, flags);
}
