// LibTorch's exceptions as Stoker's: one line, in the one tree, without the backtrace.
#pragma once

#include <c10/util/Exception.h>

#include <exception>
#include <new>
#include <string>
#include <string_view>

namespace stoker {

// Whether the host or a device had too little memory, whoever found it out.
bool is_out_of_memory(const std::exception& error);

// Throws the Error that says the same; running out of memory gets a hint.
[[noreturn]] void rethrow_as_stoker(const std::exception& error);

// What an exception says, without a backtrace.
std::string text_of(const std::exception& error);

// The first sentence of what LibTorch says of a file that it cannot load, in printable characters.
std::string first_sentence(std::string_view what);

// Calls `work` and gives back what it gives.
template <typename Work>
auto with_stoker_errors(Work&& work) {
    try {
        return work();
    } catch (const c10::Error& error) {
        rethrow_as_stoker(error);
    } catch (const std::bad_alloc& error) {
        rethrow_as_stoker(error);
    }
}

}  // namespace stoker
