// LibTorch's exceptions as Stoker's: one line, in the one tree, without the backtrace.
#pragma once

#include <c10/util/Exception.h>

namespace stoker {

// Throws the Error that says the same; running out of memory gets a hint.
[[noreturn]] void rethrow_as_stoker(const c10::Error& error);

// Calls `work` and gives back what it gives.
template <typename Work>
auto with_stoker_errors(Work&& work) {
    try {
        return work();
    } catch (const c10::Error& error) {
        rethrow_as_stoker(error);
    }
}

}  // namespace stoker
