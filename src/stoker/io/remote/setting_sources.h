// The sources of settings for remote services: environment variables, and INI files in the user's home.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <string_view>

namespace stoker {

// Returns the value of an environment variable; empty if it is not set.
using Variables = std::function<std::string(const std::string&)>;

// Those of this process, without white space at either end.
std::string process_variable(const std::string& name);

// The sections of an INI file with their settings. An indented setting belongs to the one above: "s3.endpoint_url".
// Lines that are not understood are ignored, as the programs of Amazon and Google do.
using IniSection = std::map<std::string, std::string>;
using IniSections = std::map<std::string, IniSection>;
IniSections parse_ini(std::string_view text);

// The file that `named` names ("~/" is the home), else `usual` in the home. Empty if it does not exist.
IniSections read_ini(const std::string& named, const Variables& variables, std::string_view usual);

// Null if the section does not exist.
const IniSection* find_section(const IniSections& sections, const std::string& name);

// Empty if the setting does not exist, also for a null section.
std::string value_of(const IniSection* section, const std::string& key);

// "1", "true", "yes", "on", in any case.
bool is_yes(std::string_view text);

// Without white space at either end.
std::string_view trimmed(std::string_view text);

// Throws InvalidArgument, which does not quote the text, if it has spaces or control characters: they could add lines
// to a request.
void check_header_text(const std::string& text, const char* what);

}  // namespace stoker
