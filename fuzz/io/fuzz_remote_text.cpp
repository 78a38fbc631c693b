// Parses arbitrary text as a Content-Range, a URL, a list of shards in braces, and an INI file, and checks that
// accepted results are consistent.
#include <algorithm>
#include <string>

#include "fuzz/formats/sources.h"
#include "stoker/formats/shard_names.h"
#include "stoker/io/remote/content_range.h"
#include "stoker/io/remote/s3_settings.h"
#include "stoker/io/remote/url.h"

namespace {

using namespace stoker;
using namespace stoker::fuzz;

// Returns false if the text is rejected.
template <typename Call>
bool accepted(Call call) {
    try {
        call();
        return true;
    } catch (const InvalidArgument&) {
        return false;
    }
}

void check_range(const std::string& text) {
    const auto range = parse_content_range(text);
    if (range && range->bytes) {
        require(range->bytes->size >= 1);
        require(!range->total ||
                (range->bytes->offset < *range->total && range->bytes->size <= *range->total - range->bytes->offset));
    }
}

void check_url(const std::string& text) {
    accepted([&] {
        const Url url = parse_url(text);
        require(!url.scheme.empty() && !url.authority.empty());
        require(url.authority.find('@') == std::string::npos && (url.path.empty() || url.path.front() == '/'));
    });
    const std::string escaped = escape_url(text);
    require(escape_url(escaped) == escaped && escaped.size() >= std::min(text.find('#'), text.size()));
    require(percent_encode(text, "/").find(' ') == std::string::npos);
}

void check_braces(const std::string& text) {
    std::string first;
    if (accepted([&] { first = first_of_braces(text); })) {
        accepted([&] {
            const auto names = expand_braces(text);
            require(!names.empty() && names.size() <= kMaxShards && names.front() == first);
        });
    }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    const std::string text(reinterpret_cast<const char*>(data), size);
    check_range(text);
    check_url(text);
    check_braces(text);
    for (const auto& [section, settings] : parse_ini(text)) {
        require(section.size() + settings.size() <= 2 * text.size() + 2);
    }
    return 0;
}
