// LibTorch's exceptions as Stoker's: one line, in the one tree, without the backtrace.
#pragma once

#include <c10/util/Exception.h>

#include <exception>
#include <string>
#include <string_view>

namespace stoker {

// Whether the host or a device had too little memory, whoever found it out.
bool is_out_of_memory(const std::exception& error);

// For handlers: throws the Error that says the same as LibTorch's `error`; running out of memory gets a hint. What is
// neither goes on as it is.
[[noreturn]] void rethrow_as_stoker(const std::exception& error);

// What an exception says: its first line, and no backtrace.
std::string first_line_of(const std::exception& error);

// The first sentence of what LibTorch says of a file that it cannot load, in printable characters.
std::string first_sentence(std::string_view what);

// Calls `work` and gives back what it gives.
template <typename Work>
auto with_stoker_errors(Work&& work) {
    try {
        return work();
    } catch (const std::exception& error) {
        rethrow_as_stoker(error);
    }
}

}  // namespace stoker
