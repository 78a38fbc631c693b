// Arbitrary text as the name of data, and as the user, password, path and query of a URL. No form of it without secrets
// has the user, the password or the query, and taking secrets out twice is taking them out once.
#include <string>
#include <string_view>

#include "fuzz/promise.h"
#include "stoker/base/url_secrets.h"

namespace {

using namespace stoker;
using namespace stoker::fuzz;

void check_any(const std::string& name) {
    const std::string shown = shown_url(name);
    const std::string stored = stored_url(name);
    if (!is_url(name)) {
        require(shown == name && stored == name && !lacks_secrets(name));
        return;
    }
    require(stored_url(stored) == stored && shown.size() <= stored.size());
    require(stored == name || lacks_secrets(stored) || name.find('#') != std::string::npos);
    require(unsigned_url(name).size() <= name.size());
}

// `text` as a secret that appears nowhere else.
void check_secret(std::string_view text, const std::string& before, const std::string& after) {
    if (text.empty()) {
        return;
    }
    const std::string mark = "Zq7";
    const std::string secret = mark + std::string(text) + mark;
    const std::string url = before + secret + after;
    for (const std::string& form : {shown_url(url), stored_url(url)}) {
        require(form.find(mark) == std::string::npos);
    }
}

// True if the text has none of these characters.
bool lacks(std::string_view text, std::string_view characters) {
    return text.find_first_of(characters) == std::string_view::npos;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    const std::string text(reinterpret_cast<const char*>(data), size);
    check_any(text);
    check_any("https://" + text);
    for (const char* scheme : {"s3://", "gs://", "hf://"}) {
        check_any(scheme + text);
    }
    if (text.find("Zq7") == std::string::npos) {
        if (lacks(text, "#")) {
            check_secret(text, "https://host/a?b=", "");
        }
        if (lacks(text, "/?#@")) {
            check_secret(text, "https://", "@host/a");
            check_secret(text, "https://user:", "@host/a?b=c");
            for (const char* scheme : {"s3://key:", "gs://key:", "hf://user:", "hf://"}) {
                check_secret(text, scheme, "@bucket/a");
            }
        }
    }
    return 0;
}
