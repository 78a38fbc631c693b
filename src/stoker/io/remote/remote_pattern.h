// Patterns of names behind URLs. Only '*' is special, because '?' and '[' are characters of keys: it stands for any
// characters but '/', and "**" for any at all; "**/" also for nothing.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace stoker {

class RemotePattern {
  public:
    explicit RemotePattern(std::string_view text);

    // Takes the length of the pattern times that of the name.
    bool matches(std::string_view name) const;

    // True if a matching name may have a '/'.
    bool has_folders() const;

  private:
    enum class Kind : std::uint8_t { letter, part, any, folders };  // c, *, **, **/
    struct Step {
        Kind kind;
        char letter = '\0';
    };

    std::vector<Step> steps_;
};

}  // namespace stoker
