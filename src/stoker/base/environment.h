// The value of an environment variable; empty for one that is not set.
#pragma once

#include <cstdlib>
#include <string>

namespace stoker {

inline std::string environment_variable(const char* name) {
    const char* value = std::getenv(name);  // NOLINT(concurrency-mt-unsafe): nothing here sets variables
    return value == nullptr ? "" : value;
}

}  // namespace stoker
