// The XML is read tag by tag. Documents that need more of XML (DTDs, CDATA) are refused.
#include "stoker/io/remote/listing_text.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "stoker/base/json_depth.h"
#include "stoker/base/parse_number.h"
#include "stoker/base/utf8.h"
#include "stoker/io/remote/setting_sources.h"
#include "stoker/io/remote/url.h"

namespace stoker {
namespace {

constexpr std::size_t kMostLevels = 16;

// The character of "amp", "#38" or "#x26".
std::optional<std::string> entity(std::string_view name) {
    constexpr std::pair<std::string_view, char> kNames[] = {
        {"amp", '&'}, {"lt", '<'}, {"gt", '>'}, {"quot", '"'}, {"apos", '\''}};
    for (const auto& [known, c] : kNames) {
        if (name == known) {
            return std::string(1, c);
        }
    }
    const bool hex = name.starts_with("#x");
    const auto code =
        name.starts_with('#') ? parse_number<std::uint32_t>(name.substr(hex ? 2 : 1), hex ? 16 : 10) : std::nullopt;
    if (!code || *code == 0 || *code > 0x10ffff || (*code >= 0xd800 && *code < 0xe000)) {
        return std::nullopt;
    }
    std::string text;
    append_utf8(text, *code);
    return text;
}

std::optional<std::string> decoded(std::string_view text) {
    std::string plain;
    while (!text.empty()) {
        const std::size_t and_sign = std::min(text.find('&'), text.size());
        plain += text.substr(0, and_sign);
        text.remove_prefix(and_sign);
        if (text.empty()) {
            break;
        }
        const std::size_t end = text.find(';');
        const auto character = end == std::string_view::npos ? std::nullopt : entity(text.substr(1, end - 1));
        if (!character) {
            return std::nullopt;
        }
        plain += *character;
        text.remove_prefix(end + 1);
    }
    return plain;
}

// Calls `leaf` with the names of the elements around each text, from the root on. False for text that is not well
// formed.
template <typename Leaf>
bool read_xml(std::string_view xml, const Leaf& leaf) {
    std::vector<std::string_view> open;
    bool closed = false;  // the root
    while (!xml.empty()) {
        const std::size_t tag = std::min(xml.find('<'), xml.size());
        const std::string_view text = xml.substr(0, tag);
        xml.remove_prefix(tag);
        const bool closes = xml.starts_with("</");
        if (!closes && !trimmed(text).empty()) {
            return false;  // text next to elements
        }
        if (xml.empty()) {
            break;
        }
        const bool comment = xml.starts_with("<!--");
        const std::string_view last = comment ? "-->" : xml.starts_with("<?") ? "?>" : ">";
        const std::size_t end = xml.find(last);
        const bool inner_note = last != ">" && !open.empty();
        if (end == std::string_view::npos || inner_note || (xml.starts_with("<!") && !comment)) {
            return false;
        }
        std::string_view inside = xml.substr(1, end - 1);
        xml.remove_prefix(end + last.size());
        if (last != ">") {
            continue;
        }
        const bool empty = inside.ends_with('/');
        inside.remove_prefix(closes ? 1 : 0);
        std::string_view name = inside.substr(0, inside.find_first_of(" \t\r\n/"));
        name.remove_prefix(name.find(':') == std::string_view::npos ? 0 : name.find(':') + 1);
        if (name.empty() || closed || (closes && (open.empty() || open.back() != name))) {
            return false;
        }
        if (!closes) {
            open.push_back(name);
        }
        if (closes || empty) {
            if (!leaf(open, closes ? text : std::string_view())) {
                return false;
            }
            open.pop_back();
            closed = open.empty();
        }
        if (open.size() > kMostLevels) {
            return false;
        }
    }
    return closed;
}

struct BucketPage {
    ListingPage page;
    std::optional<std::string> key;
    std::optional<std::uint64_t> size;
    bool encoded = false;
    bool truncated = false;

    bool take(const std::vector<std::string_view>& open, std::string_view text) {
        if (open.front() != "ListBucketResult") {
            return false;
        }
        const std::string_view name = open.back();
        if (open.size() == 2 && name == "Contents") {
            return take_file();
        }
        const bool of_file = open.size() == 3 && open[1] == "Contents";
        if (open.size() != 2 && !of_file) {
            return true;
        }
        const auto plain = decoded(text);
        if (!plain) {
            return false;
        }
        if (of_file && name == "Key") {
            key = *plain;
        } else if (of_file && name == "Size") {
            size = parse_number<std::uint64_t>(*plain);
        } else if (!of_file) {
            encoded = encoded || (name == "EncodingType" && *plain == "url");
            truncated = truncated || (name == "IsTruncated" && *plain == "true");
            page.next = name == "NextContinuationToken" ? *plain : page.next;
        }
        return true;
    }

    bool take_file() {
        if (!key || !size) {
            return false;
        }
        page.files.push_back({.path = std::move(*key), .size = *size});
        key.reset();
        size.reset();
        return true;
    }
};

// As Amazon and MinIO encode keys: '+' is a blank.
std::string decoded_key(std::string key) {
    std::replace(key.begin(), key.end(), '+', ' ');
    return percent_decode(key);
}

}  // namespace

std::optional<ListingPage> parse_bucket_listing(std::string_view xml) {
    BucketPage found;
    const bool whole = read_xml(
        xml, [&](const std::vector<std::string_view>& open, std::string_view text) { return found.take(open, text); });
    if (!whole || (found.truncated && found.page.next.empty())) {
        return std::nullopt;
    }
    ListingPage page{.files = {}, .next = found.truncated ? found.page.next : ""};
    for (ListedFile& file : found.page.files) {
        std::string path = found.encoded ? decoded_key(std::move(file.path)) : std::move(file.path);
        if (!path.empty() && !path.ends_with('/')) {
            page.files.push_back({.path = std::move(path), .size = file.size});
        }
    }
    return page;
}

std::optional<ListingPage> parse_tree_listing(std::string_view json) {
    const auto entries = parse_json<nlohmann::json>(json);
    if (!entries.is_array()) {
        return std::nullopt;
    }
    ListingPage page;
    for (const auto& entry : entries) {
        const auto type = entry.is_object() ? entry.find("type") : entry.end();
        if (!entry.is_object() || type == entry.end()) {
            return std::nullopt;
        }
        if (*type != "file") {
            continue;
        }
        const auto path = entry.find("path");
        const auto size = entry.find("size");
        if (path == entry.end() || !path->is_string() || size == entry.end() || !size->is_number_unsigned()) {
            return std::nullopt;
        }
        page.files.push_back({.path = path->get<std::string>(), .size = size->get<std::uint64_t>()});
    }
    return page;
}

std::string next_link(std::string_view header) {
    while (true) {
        const std::size_t begin = header.find('<');
        const std::size_t end = begin == std::string_view::npos ? begin : header.find('>', begin);
        if (end == std::string_view::npos) {
            return "";
        }
        const std::string_view url = header.substr(begin + 1, end - begin - 1);
        header.remove_prefix(end + 1);
        const std::string_view parameters = header.substr(0, header.find(",<"));
        const std::string_view own = parameters.substr(0, parameters.find('<'));
        if (own.find("rel=\"next\"") != std::string_view::npos || own.find("rel=next") != std::string_view::npos) {
            return std::string(url);
        }
    }
}

}  // namespace stoker
