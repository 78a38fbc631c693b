// GNU OpenMP's threads spin for milliseconds at each barrier. On a machine whose cores are also wanted by
// somebody else (loader workers, other jobs, a container's quota) that stalls training tenfold and more; a
// short spin, then sleep, costs nothing on a quiet one. The count is read when the library is loaded.
#include "openmp_spin.h"

#include <unistd.h>

#include <cstring>

namespace {

// Runs before any shared library's constructors, libc's own included: no allocation, no getenv. Starts the
// program again with the setting, unless the user chose one; where that fails, it simply goes on without.
void set_spin_count(int /*argc*/, char** argv, char** environment) {
    constexpr std::size_t kMost = 4096;
    static char* extended[kMost + 2];
    std::size_t count = 0;
    for (; environment[count] != nullptr; ++count) {
        const char* entry = environment[count];
        if (count == kMost || std::strncmp(entry, "GOMP_SPINCOUNT=", 15) == 0 ||
            std::strncmp(entry, "OMP_WAIT_POLICY=", 16) == 0) {
            return;
        }
        extended[count] = environment[count];
    }
    extended[count] = const_cast<char*>(stoker::cli::kSpinSetting);
    extended[count + 1] = nullptr;
    static char program[4096];  // its real path, so that the process keeps its name
    if (::readlink("/proc/self/exe", program, sizeof program - 1) > 0) {
        ::execve(program, argv, extended);
    }
}

__attribute__((section(".preinit_array"), used)) void (*const kBeforeEverything)(int, char**, char**) = set_spin_count;

}  // namespace
