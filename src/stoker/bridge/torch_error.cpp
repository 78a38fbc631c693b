// c10's CPU allocator has no exception type of its own for "no memory": its name in the text tells.
#include "stoker/bridge/torch_error.h"

#include <algorithm>
#include <string>

#include "stoker/base/error.h"

namespace stoker {

void rethrow_as_stoker(const c10::Error& error) {
    std::string text = error.what_without_backtrace();
    const bool no_memory = dynamic_cast<const c10::OutOfMemoryError*>(&error) != nullptr ||
                           text.find("DefaultCPUAllocator") != std::string::npos;
    text.resize(std::min(text.find('\n'), text.size()));
    if (no_memory) {
        throw Error({.where = "memory",
                     .expected = "room for the model and its batch",
                     .got = text,
                     .hint = "use a smaller data.batch_size or a smaller model"});
    }
    throw Error({.where = "LibTorch", .expected = "the operation to succeed", .got = text});
}

std::string first_sentence(std::string_view what) {
    what = what.substr(0, std::min(what.find('\n'), what.find(". ")));
    std::string text(what);
    std::ranges::replace_if(
        text, [](char c) { return c < ' ' || c > '~'; }, '?');
    return text;
}

}  // namespace stoker
