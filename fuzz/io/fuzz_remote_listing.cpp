// Arbitrary text as the listing of a bucket or of a repository on the hub, as a Link header, as a name of the hub, and
// as a pattern. A listing that is accepted has no more names than its text could hold.
#include <algorithm>
#include <string>

#include "fuzz/promise.h"
#include "stoker/base/error.h"
#include "stoker/io/remote/hub_name.h"
#include "stoker/io/remote/listing_text.h"
#include "stoker/io/remote/remote_pattern.h"
#include "stoker/io/remote/url.h"

namespace {

using namespace stoker;
using namespace stoker::fuzz;

void check_page(const std::optional<ListingPage>& page, std::size_t text_bytes) {
    if (!page) {
        return;
    }
    std::size_t bytes = page->next.size();
    for (const ListedFile& file : page->files) {
        bytes += file.path.size();
    }
    require(bytes <= text_bytes && page->files.size() <= text_bytes);
}

// A name that is accepted leads to one path below the repository, and its listing's names have the same meaning.
void check_name(const std::string& text) {
    try {
        const HubName name = parse_hub_name(text);
        require(!name.places.empty() && name.places.size() <= 2);
        for (const HubPlace& place : name.places) {
            const Url url = parse_url(hub_file_url("https://hub", place, name.revision));
            require(url.authority == "hub" && url.query.empty());
            require(url.path.starts_with("/datasets/" + place.repository + "/resolve/"));
            require(("/" + url.path + "/").find("/../") == std::string::npos);
            const HubName again = parse_hub_name(hub_file_name(name, place, "a/b"));
            require(again.revision == name.revision && again.places[0] == HubPlace{place.repository, "a/b"});
        }
    } catch (const InvalidArgument&) {
    } catch (const Unsupported&) {
    }
}

// The text without stars fits itself, and a star fits all that has no '/'.
void check_pattern(const std::string& text) {
    if (text.find('*') == std::string::npos && text.size() < 4096) {
        require(RemotePattern(text).matches(text));
        require(RemotePattern("**").matches(text) && RemotePattern("*").matches(text) == (text.find('/') == text.npos));
    }
    RemotePattern(text.substr(0, 64)).matches(text.substr(0, 4096));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    const std::string text(reinterpret_cast<const char*>(data), size);
    check_page(parse_bucket_listing(text), size);
    check_page(parse_tree_listing(text), size);
    require(next_link(text).size() <= size);
    check_name(text);
    check_name("hf://datasets/" + text);
    check_pattern(text);
    require(percent_decode(percent_encode(text, "")) == text);
    try {
        require(same_origin(text, text) == same_origin(text, text + "/x"));
    } catch (const InvalidArgument&) {  // not a URL
    }
    return 0;
}
