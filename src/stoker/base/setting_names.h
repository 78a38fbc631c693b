// Names of settings in messages. Code that throws names a setting by its key in a recipe, and each front end prints its
// own name for it: a recipe `data.drop_last = false`, Python `drop_last=False`.
#pragma once

#include <functional>
#include <string>
#include <string_view>

namespace stoker {

// A front end's text for a setting. `value` is TOML, and empty if the message names the setting alone. The key of an
// option of `stoker pack` begins with "--". The key kForPrograms has as its value a text that only programs print.
using NameSetting = std::function<std::string(std::string_view key, std::string_view value)>;
inline constexpr std::string_view kForPrograms = "program:";

// What recipes and programs print: "data.drop_last = false", "--codec raw".
std::string name_in_program(std::string_view key, std::string_view value);

// `text` with each "<data.workers>", "<data.drop_last = false>", "<--codec raw>" and "<program:...>" as `name` puts it.
// All other text stays.
std::string fill_settings(std::string_view text, const NameSetting& name);

}  // namespace stoker
