// Tests that add little to others for their time. CI leaves them out, as pytest's marker `slow` (STOKER_SKIP_SLOW).
#pragma once

#include <gtest/gtest.h>

#include <cstdlib>

#define STOKER_SLOW_TEST()                                   \
    if (std::getenv("STOKER_SKIP_SLOW") != nullptr) {        \
        GTEST_SKIP() << "slow, and STOKER_SKIP_SLOW is set"; \
    }                                                        \
    static_assert(true)
