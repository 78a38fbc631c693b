// An invalid variable is refused by name.
#include "stoker/dist/world.h"

#include <charconv>
#include <cstdlib>
#include <fmt/format.h>

#include "stoker/base/error.h"

namespace stoker {
namespace {

constexpr int kMostRanks = 1 << 20;
constexpr int kMostPorts = 65535;

std::string text(const Environment& environment, const char* name) {
    const char* value = environment(name);
    return value == nullptr ? "" : value;
}

[[noreturn]] void refuse(const char* name, const std::string& expected, const std::string& got) {
    throw InvalidArgument(
        {.where = name,
         .expected = expected,
         .got = got.empty() ? "none" : "\"" + got + "\"",
         .hint = "`stoker launch` sets all variables; without RANK and WORLD_SIZE one process trains alone"});
}

// In [least, most].
int number(const Environment& environment, const char* name, int least, int most) {
    const std::string given = text(environment, name);
    int value = 0;
    const auto [end, error] = std::from_chars(given.data(), given.data() + given.size(), value);
    if (given.empty() || error != std::errc{} || end != given.data() + given.size() || value < least || value > most) {
        refuse(name, fmt::format("a number from {} to {}", least, most), given);
    }
    return value;
}

std::chrono::milliseconds timeout(const Environment& environment, std::chrono::milliseconds usual) {
    constexpr const char* kName = "STOKER_DIST_TIMEOUT";
    const std::string given = text(environment, kName);
    if (given.empty()) {
        return usual;
    }
    constexpr int kDay = 24 * 60 * 60;
    return std::chrono::seconds(number(environment, kName, 1, kDay));
}

}  // namespace

World read_world(const Environment& environment) {
    World world;
    if (text(environment, "RANK").empty() && text(environment, "WORLD_SIZE").empty()) {
        return world;
    }
    world.size = number(environment, "WORLD_SIZE", 1, kMostRanks);
    world.rank = number(environment, "RANK", 0, world.size - 1);
    world.timeout = timeout(environment, world.timeout);
    if (world.size == 1) {
        return world;
    }
    world.address = text(environment, "MASTER_ADDR");
    if (world.address.empty()) {
        refuse("MASTER_ADDR", "the host of rank 0", "");
    }
    world.port = number(environment, "MASTER_PORT", 1, kMostPorts);
    world.has_store = text(environment, "TORCHELASTIC_USE_AGENT_STORE") == "True";
    world.attempt = text(environment, "TORCHELASTIC_RESTART_COUNT");
    return world;
}

World read_world() {
    return read_world([](const char* name) -> const char* { return std::getenv(name); });
}

}  // namespace stoker
