// Replaces the C library's flock in the test program that includes this header, in one source file. While a
// FailingFlock lives, flock fails with the given errno, as on a file system without locks.
#pragma once

#include <sys/file.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>

namespace stoker::testing {

inline int flock_errno = 0;  // 0: flock works

class FailingFlock {
  public:
    explicit FailingFlock(int code) { flock_errno = code; }
    FailingFlock(const FailingFlock&) = delete;
    FailingFlock& operator=(const FailingFlock&) = delete;
    ~FailingFlock() { flock_errno = 0; }
};

}  // namespace stoker::testing

extern "C" int flock(int fd, int operation) noexcept {
    if (stoker::testing::flock_errno != 0) {
        errno = stoker::testing::flock_errno;
        return -1;
    }
    return static_cast<int>(::syscall(SYS_flock, fd, operation));
}
