// In place of CUDA's header of this name: copies to shared memory that are done when their thread waits for them, and
// not before.
#pragma once

#include <cstddef>
#include <cstring>

#include "support/cuda_on_cpu/grid.h"

inline void __pipeline_memcpy_async(void* to, const void* from, std::size_t bytes) {
    stoker::on_cpu::copy_later(to, from, bytes);
}
inline void __pipeline_commit() {
    stoker::on_cpu::commit_copies();
}
inline void __pipeline_wait_prior(std::size_t groups) {
    stoker::on_cpu::wait_for_copies(groups);
}
