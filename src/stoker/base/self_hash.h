// A JSON document that holds a hash of its text, so that damage to it is seen. Readers that do not know the hash
// ignore it, and documents without one are accepted.
#pragma once

#include <string>
#include <string_view>

namespace stoker {

inline constexpr const char* kSelfHash = "self_hash";  // the key, which must be the document's last of that name
inline constexpr const char* kNoSelfHash = "0000000000000000";

// Replaces kNoSelfHash as the value of "self_hash" by the hash (XXH3, 16 hexadecimal digits) of the given `text`.
std::string with_self_hash(std::string text);

// False if the text has a hash that is not its own.
bool self_hash_fits(std::string_view text);

}  // namespace stoker
