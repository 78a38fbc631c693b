// Where in a WebDataset sample its label is: which members may hold one, and what they say.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace stoker {

inline constexpr std::int32_t kNoTarLabel = -1;
inline constexpr std::int32_t kBadTarLabel = -2;  // there is one, and it is no class index
inline constexpr std::int32_t kMaxTarLabel = (1 << 24) - 1;

// Extensions are compared in lower case, ASCII letters alone.
std::string lower_case(std::string_view text);

// A member by its extension, and how to read it.
struct TarLabelMember {
    std::string extension;               // lower case
    std::vector<std::string> keys = {};  // of a JSON object, the first that is present; empty: the text is the label
    bool strict = false;                 // what is no class index is a bad label, not another kind of content
};

// The members that may hold the label, the one that counts first. `wanted` as in FieldNames: empty for cls, then json
// (label, cls or class_id), then txt; "cls", "json:label", or a key of the member json.
std::vector<TarLabelMember> tar_label_members(const std::string& wanted);

// Members larger than this hold no label.
std::uint64_t max_label_bytes(const TarLabelMember& member);

// The class index in a member's bytes, kNoTarLabel (which may also be written, as -1) or kBadTarLabel.
std::int32_t parse_tar_label(const TarLabelMember& member, std::span<const std::byte> bytes);

}  // namespace stoker
