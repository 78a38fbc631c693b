// Turns LibTorch's exceptions into Stoker's: one line without the backtrace.
#pragma once

#include <c10/util/Exception.h>

#include <exception>
#include <string>
#include <string_view>

namespace stoker {

// Whether the host or the device ran out of memory.
bool is_out_of_memory(const std::exception& error);

// Whether the device failed for good: CUDA says of this error that the process must be started again.
bool is_device_lost(const std::exception& error);

// The bytes requested and left, for such an error of the host; the first line of a device's own text.
std::string describe_shortage(const std::exception& error);

// For catch blocks: throws a stoker::Error with the text of LibTorch's `error`, with a hint if memory ran out. Other
// exceptions are rethrown.
[[noreturn]] void rethrow_as_stoker(const std::exception& error);

// The first line of an exception's text, without the backtrace.
std::string first_line_of(const std::exception& error);

// The first sentence of a LibTorch message, in printable characters.
std::string first_sentence(std::string_view what);

// Returns work(), with LibTorch's exceptions turned into Stoker's.
template <typename Work>
auto with_stoker_errors(Work&& work) {
    try {
        return work();
    } catch (const std::exception& error) {
        rethrow_as_stoker(error);
    }
}

}  // namespace stoker
