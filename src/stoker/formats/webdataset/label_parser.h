// Finds and parses the label of a WebDataset sample: which members may hold it, and how each is read.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace stoker {

inline constexpr std::int32_t kNoTarLabel = -1;
inline constexpr std::int32_t kBadTarLabel = -2;  // present, but no valid class index
inline constexpr std::int32_t kMaxTarLabel = (1 << 24) - 1;

// A member that may hold the label, by its extension, and how to parse it.
struct LabelMember {
    std::string extension;  // lower case
    std::vector<std::string> keys =
        {};               // of a JSON object: the first present one is used; empty: the text is the label
    bool strict = false;  // content that is not a class index is a bad label; otherwise it is ignored
};

// The members that may hold the label, by priority. `wanted` is FieldNames::label. Empty: cls, then json (keys label,
// cls, class_id), then txt. Otherwise an extension ("cls"), an extension and key ("json:label"), or a key of the member
// json.
std::vector<LabelMember> label_members(const std::string& wanted);

// The largest size of a member that is read for its label.
std::uint64_t max_label_bytes(const LabelMember& member);

// The class index in a member's bytes, kNoTarLabel (also for a stored -1) or kBadTarLabel.
std::int32_t parse_label(const LabelMember& member, std::span<const std::byte> bytes);

}  // namespace stoker
