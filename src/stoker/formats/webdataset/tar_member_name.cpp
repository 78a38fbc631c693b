// Escapes byte by byte. A base is unescaped only if escaping the result gives the same base, so names from other
// programs that contain a % stay unchanged.
#include "stoker/formats/webdataset/tar_member_name.h"

#include <cstdint>
#include <fmt/format.h>
#include <optional>

#include "stoker/base/ascii.h"
#include "stoker/base/parse_number.h"
#include "stoker/formats/image_kind.h"

namespace stoker {
namespace {

constexpr std::string_view kPixels = "npy";
constexpr std::string_view kRecords = "dct";  // always stored under this extension: only Stoker reads it
constexpr char kMark = '%';

void escape(std::string& out, char c) {
    out += fmt::format("%{:02X}", static_cast<std::uint8_t>(c));
}

// Escapes one path component; `last`: the file name, which must not contain a dot.
std::string escaped_part(std::string_view part, bool last) {
    std::string out;
    const bool dots = last || part == "." || part == "..";
    for (std::size_t at = 0; at < part.size();) {
        const std::size_t length = utf8_sequence(part.substr(at));
        const char c = part[at];
        if (length == 0 || c == kMark || c == '\0' || (c == '.' && dots)) {
            escape(out, c);
            ++at;
        } else {
            out += part.substr(at, length);
            at += length;
        }
    }
    return out;
}

// Escapes a key, so that its name stays inside the folder and is none of WebDataset's reserved names ("__index__").
std::string escaped(std::string_view key) {
    std::string out;
    std::size_t begin = 0;
    while (true) {
        const std::size_t slash = key.find('/', begin);
        const bool last = slash == std::string_view::npos;
        const std::string_view part = key.substr(begin, last ? key.size() - begin : slash - begin);
        out += escaped_part(part, last);
        if (last) {
            break;
        }
        if (part.empty()) {
            escape(out, '/');  // a leading slash, or the second of two
        } else {
            out += '/';
        }
        begin = slash + 1;
    }
    if (out.starts_with("__")) {
        out.replace(0, 1, "%5F");
    }
    return out;
}

std::optional<std::string> unescaped(std::string_view base) {
    std::string out;
    for (std::size_t at = 0; at < base.size(); ++at) {
        if (base[at] != kMark) {
            out += base[at];
            continue;
        }
        const auto code = parse_number<std::uint8_t>(base.substr(at + 1, 2), 16);
        if (!code) {
            return std::nullopt;
        }
        out += static_cast<char>(*code);
        at += 2;
    }
    return out;
}

// "npy", "NPY", "left.npy"
bool is_pixels(std::string_view extension) {
    return lower_case(extension.substr(extension.rfind('.') + 1)) == kPixels;
}

// In any case of letters.
bool is_image_extension(std::string_view extension) {
    return lower_case(extension) == kRecords || is_image_name(fmt::format(".{}", extension));
}

bool ends_in_slash_or_nothing(std::string_view base) {
    return base.empty() || base.ends_with('/');
}

// The base for a complete key; `marked`: with a "%" at the end, since the member's extension is not part of the key.
std::string complete_base(std::string_view key, bool marked) {
    std::string base = escaped(key);
    if (marked || ends_in_slash_or_nothing(base)) {
        base += kMark;
    }
    return base;
}

}  // namespace

std::string usual_extension(std::string_view first_key, std::string_view extension) {
    const std::size_t dot = first_key.rfind('.');
    if (extension == kPixels || dot == std::string_view::npos) {
        return std::string(extension == kPixels ? kPixels : std::string_view());
    }
    const std::string_view found = first_key.substr(dot + 1);
    return is_image_extension(found) && (found == kRecords) == (extension == kRecords) ? std::string(found) : "";
}

TarMemberName tar_member_name(std::string_view key, std::string_view extension, std::string_view usual) {
    if (extension == kPixels) {
        return {.base = complete_base(key, usual != kPixels), .extension = std::string(extension)};
    }
    const bool records = (usual == kRecords) == (extension == kRecords);
    if (records && !usual.empty() && usual != kPixels && key.size() > usual.size() && key.ends_with(usual) &&
        key[key.size() - usual.size() - 1] == '.') {
        std::string base = escaped(key.substr(0, key.size() - usual.size() - 1));
        if (!ends_in_slash_or_nothing(base)) {
            return {.base = std::move(base), .extension = std::string(usual)};
        }
    }
    return {.base = complete_base(key, true), .extension = std::string(extension)};
}

std::string tar_member_key(std::string_view base, std::string_view extension) {
    const bool pixels = is_pixels(extension);
    const bool marked = base.ends_with(kMark);
    const std::optional<std::string> text = unescaped(marked ? base.substr(0, base.size() - 1) : base);
    if (text && complete_base(*text, marked) == base) {
        return marked || pixels ? *text : fmt::format("{}.{}", *text, extension);
    }
    return pixels ? std::string(base) : fmt::format("{}.{}", base, extension);
}

}  // namespace stoker
