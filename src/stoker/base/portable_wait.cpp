// std::condition_variable::wait as libstdc++ has it, for wheels (STOKER_PORTABLE). GCC 12 binds it to GLIBCXX_3.4.30,
// the only symbol of ours that a system with glibc 2.34 lacks, such as RHEL 9.
#include <pthread.h>

#include <condition_variable>
#include <mutex>

void std::condition_variable::wait(std::unique_lock<std::mutex>& lock) noexcept {
    pthread_cond_wait(native_handle(), lock.mutex()->native_handle());
}
