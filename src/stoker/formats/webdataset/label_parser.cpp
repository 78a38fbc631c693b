// Labels as text or in JSON. A txt member may be a caption and JSON may hold anything, so only a member named cls or
// named by the user must be a class index.
#include "stoker/formats/webdataset/label_parser.h"

#include <nlohmann/json.hpp>

#include "stoker/base/ascii.h"
#include "stoker/base/json_depth.h"
#include "stoker/base/parse_number.h"

namespace stoker {
namespace {

constexpr std::string_view kSpace = " \t\r\n";

std::vector<std::string> usual_keys() {
    return {"label", "cls", "class_id"};
}

std::int32_t checked_label(std::int64_t label) {
    return label >= kNoTarLabel && label <= kMaxTarLabel ? static_cast<std::int32_t>(label) : kBadTarLabel;
}

std::int32_t parse_text(std::string_view text) {
    const std::size_t begin = text.find_first_not_of(kSpace);
    if (begin == std::string_view::npos) {
        return kBadTarLabel;
    }
    text = text.substr(begin, text.find_last_not_of(kSpace) + 1 - begin);
    const auto label = parse_number<std::int64_t>(text);
    return label ? checked_label(*label) : kBadTarLabel;
}

std::int32_t parse_label_json(const LabelMember& member, std::string_view text) {
    const auto json = parse_json<nlohmann::json>(text);
    if (!json.is_object()) {
        return kBadTarLabel;
    }
    for (const std::string& key : member.keys) {
        const auto found = json.find(key);
        if (found == json.end()) {
            continue;
        }
        if (found->is_number_unsigned() && found->get<std::uint64_t>() > kMaxTarLabel) {
            return kBadTarLabel;
        }
        return found->is_number_integer() ? checked_label(found->get<std::int64_t>()) : kBadTarLabel;
    }
    return kNoTarLabel;
}

}  // namespace

std::vector<LabelMember> label_members(const std::string& wanted) {
    if (wanted.empty()) {
        return {
            {.extension = "cls", .strict = true}, {.extension = "json", .keys = usual_keys()}, {.extension = "txt"}};
    }
    if (const std::size_t colon = wanted.find(':'); colon != std::string::npos) {
        return {{.extension = lower_case(wanted.substr(0, colon)), .keys = {wanted.substr(colon + 1)}, .strict = true}};
    }
    const std::string extension = lower_case(wanted);
    if (extension == "json" || extension.ends_with(".json")) {
        return {{.extension = extension, .keys = usual_keys(), .strict = true}};
    }
    return {{.extension = extension, .strict = true}, {.extension = "json", .keys = {wanted}, .strict = true}};
}

std::uint64_t max_label_bytes(const LabelMember& member) {
    return member.keys.empty() ? 64 : std::uint64_t{1} << 20;
}

std::int32_t parse_label(const LabelMember& member, std::span<const std::byte> bytes) {
    const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    const std::int32_t label = bytes.size() > max_label_bytes(member) ? kBadTarLabel
                               : member.keys.empty()                  ? parse_text(text)
                                                                      : parse_label_json(member, text);
    return label == kBadTarLabel && !member.strict ? kNoTarLabel : label;
}

}  // namespace stoker
