// Profiles made by hand, with times in microseconds.
#pragma once

#include <cstdint>
#include <string>

#include "stoker/profile/profile.h"

namespace stoker {

inline constexpr std::int64_t kZero = 1'700'000'000'000'000'000;  // nanoseconds since 1970
inline constexpr std::int64_t kThread = 4242;

inline ProfileEvent made_event(ProfiledKind kind, std::string name, std::int64_t start_us, std::int64_t end_us,
                               std::uint64_t id = 0) {
    return {.name = std::move(name),
            .kind = kind,
            .start_ns = kZero + start_us * 1000,
            .end_ns = kZero + end_us * 1000,
            .thread = kThread,
            .id = id};
}

// One step of 1000 us on a GPU: a forward of 400 us with an addmm within a linear, and the kernel that it launched.
inline Profile made_profile() {
    Profile profile{.windows = {{.begin_ns = kZero, .end_ns = kZero + 1'000'000, .first_step = 1, .last_step = 1}},
                    .training_thread = kThread};
    profile.events = {made_event(ProfiledKind::range, "ProfilerStep#1", 0, 1000),
                      made_event(ProfiledKind::range, "wait", 0, 500),
                      made_event(ProfiledKind::op, "enumerate(DataLoader)#Loader.__next__", 0, 500, 1),
                      made_event(ProfiledKind::range, "forward", 500, 900),
                      made_event(ProfiledKind::op, "aten::linear", 510, 800, 2),
                      made_event(ProfiledKind::op, "aten::addmm", 550, 750, 3),
                      made_event(ProfiledKind::op, "aten::relu", 810, 850, 4),
                      made_event(ProfiledKind::runtime, "cudaLaunchKernel", 600, 610, 77),
                      made_event(ProfiledKind::kernel, "gemm", 620, 700, 77)};
    profile.events[5].shapes = "[[128], [64, 784], [784, 128]]";
    profile.events[5].flops = 2 * 64 * 784 * 128;
    profile.events[7].op = 3;
    profile.events[8].op = 3;
    profile.events[8].thread = 7;  // the stream
    profile.memory = {{.at_ns = kZero + 600'000, .thread = kThread, .bytes = 4096, .allocated = 4096},
                      {.at_ns = kZero + 820'000, .thread = kThread, .bytes = 1024, .allocated = 5120},
                      {.at_ns = kZero + 870'000, .thread = kThread, .bytes = -4096, .allocated = 1024}};
    return profile;
}

}  // namespace stoker
