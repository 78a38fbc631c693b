// Limits the address space of the process, so that an allocation fails even if the memory is never touched. Tests that
// need the failure are skipped under sanitizers, which end the process instead.
#pragma once

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstdio>

namespace stoker::testing {

// During its lifetime the process can allocate at most `slack` bytes of address space.
class AddressLimit {
  public:
    explicit AddressLimit(std::size_t slack) {
        EXPECT_EQ(::getrlimit(RLIMIT_AS, &before_), 0);
        rlimit limit = before_;
        limit.rlim_cur = std::min<rlim_t>(used() + slack, before_.rlim_max);
        EXPECT_EQ(::setrlimit(RLIMIT_AS, &limit), 0);
    }
    AddressLimit(const AddressLimit&) = delete;
    AddressLimit& operator=(const AddressLimit&) = delete;
    ~AddressLimit() { ::setrlimit(RLIMIT_AS, &before_); }

  private:
    static std::size_t used() {
        unsigned long pages = 0;
        std::FILE* file = std::fopen("/proc/self/statm", "r");
        EXPECT_EQ(std::fscanf(file, "%lu", &pages), 1);
        std::fclose(file);
        return pages * static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
    }

    rlimit before_{};
};

}  // namespace stoker::testing
