// Only the CUDA allocator throws c10::OutOfMemoryError. c10's CPU allocator, CUDA's libraries and TorchScript's
// interpreter throw general errors, which are recognised by their text.
#include "stoker/bridge/torch_error.h"

#include <algorithm>
#include <new>
#include <string>

#include "stoker/base/error.h"

namespace stoker {
namespace {

std::string text_of(const std::exception& error) {
    const auto* of_torch = dynamic_cast<const c10::Error*>(&error);
    return of_torch != nullptr ? of_torch->what_without_backtrace() : error.what();
}

}  // namespace

bool is_out_of_memory(const std::exception& error) {
    if (dynamic_cast<const c10::OutOfMemoryError*>(&error) != nullptr ||
        dynamic_cast<const std::bad_alloc*>(&error) != nullptr) {
        return true;
    }
    if (dynamic_cast<const Error*>(&error) != nullptr) {
        return false;  // our own error, whose text may quote such an error
    }
    constexpr std::string_view kTexts[] = {"DefaultCPUAllocator: ", "out of memory", "_STATUS_ALLOC_FAILED"};
    const std::string text = text_of(error);
    return std::ranges::any_of(kTexts, [&](auto part) { return text.find(part) != std::string::npos; });
}

void rethrow_as_stoker(const std::exception& error) {
    if (is_out_of_memory(error)) {
        throw Error({.where = "memory",
                     .expected = "room for the model and its batch",
                     .got = first_line_of(error),
                     .hint = "use a smaller data.batch_size or a smaller model"});
    }
    if (dynamic_cast<const c10::Error*>(&error) == nullptr) {
        throw;
    }
    throw Error({.where = "LibTorch", .expected = "the operation to succeed", .got = first_line_of(error)});
}

std::string first_line_of(const std::exception& error) {
    const std::string text = text_of(error);
    return text.substr(0, text.find('\n'));
}

std::string first_sentence(std::string_view what) {
    what = what.substr(0, std::min(what.find('\n'), what.find(". ")));
    std::string text(what);
    std::ranges::replace_if(
        text, [](char c) { return c < ' ' || c > '~'; }, '?');
    return text;
}

}  // namespace stoker
