// Real data for tests: the folder named by STOKER_SHARED_DATA, else ../shared/data next to the checkout. Tests that
// need it are reported as skipped if it is absent.
#pragma once

#include <cstdlib>
#include <filesystem>
#include <optional>
#include <string>

#include "support/paths.h"

namespace stoker::testing {

inline std::optional<std::filesystem::path> shared_data(const std::string& part) {
    const char* given = std::getenv("STOKER_SHARED_DATA");
    const std::filesystem::path root =
        given != nullptr ? std::filesystem::path(given) : source_dir() / "../shared/data";
    if (std::filesystem::exists(root / part)) {
        return root / part;
    }
    return std::nullopt;
}

}  // namespace stoker::testing

#define STOKER_SKIP_WITHOUT(name, part)                                    \
    if (!stoker::testing::shared_data(part)) {                             \
        GTEST_SKIP() << "needs " << (part) << " under STOKER_SHARED_DATA"; \
    }                                                                      \
    const std::filesystem::path name = *stoker::testing::shared_data(part)
