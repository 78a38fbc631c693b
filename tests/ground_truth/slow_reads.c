// LD_PRELOAD: every open of a file under SLOW_UNDER, and every read of it, sleeps SLOW_US microseconds first. The thread
// gives its core away meanwhile, as it does when it waits for a disk.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

static const char* under;
static long delay_us;

__attribute__((constructor)) static void begin(void) {
    under = getenv("SLOW_UNDER");
    delay_us = getenv("SLOW_US") != NULL ? atol(getenv("SLOW_US")) : 0;
}

static void wait_for_disk(void) {
    const struct timespec time = {delay_us / 1000000, delay_us % 1000000 * 1000};
    nanosleep(&time, NULL);
}

static int is_slow(int fd) {
    if (under == NULL || delay_us == 0) {
        return 0;
    }
    char link[64];
    char path[PATH_MAX];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    const ssize_t length = readlink(link, path, sizeof path - 1);
    if (length <= 0) {
        return 0;
    }
    path[length] = '\0';
    return strncmp(path, under, strlen(under)) == 0;
}

ssize_t read(int fd, void* buffer, size_t size) {
    static ssize_t (*real)(int, void*, size_t);
    if (real == NULL) {
        real = dlsym(RTLD_NEXT, "read");
    }
    if (is_slow(fd)) {
        wait_for_disk();
    }
    return real(fd, buffer, size);
}

ssize_t pread64(int fd, void* buffer, size_t size, off64_t offset) {
    static ssize_t (*real)(int, void*, size_t, off64_t);
    if (real == NULL) {
        real = dlsym(RTLD_NEXT, "pread64");
    }
    if (is_slow(fd)) {
        wait_for_disk();
    }
    return real(fd, buffer, size, offset);
}

// A read that must not wait finds nothing in the page cache.
ssize_t preadv2(int fd, const struct iovec* parts, int count, off_t offset, int flags) {
    static ssize_t (*real)(int, const struct iovec*, int, off_t, int);
    if (real == NULL) {
        real = dlsym(RTLD_NEXT, "preadv2");
    }
    if (is_slow(fd)) {
        if ((flags & RWF_NOWAIT) != 0) {
            errno = EAGAIN;
            return -1;
        }
        wait_for_disk();
    }
    return real(fd, parts, count, offset, flags);
}

ssize_t pread(int fd, void* buffer, size_t size, off_t offset) {
    static ssize_t (*real)(int, void*, size_t, off_t);
    if (real == NULL) {
        real = dlsym(RTLD_NEXT, "pread");
    }
    if (is_slow(fd)) {
        wait_for_disk();
    }
    return real(fd, buffer, size, offset);
}
