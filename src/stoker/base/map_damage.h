// Mapped files that another process cuts short, or whose disk fails, while they are in use. The system reports such a
// page by SIGBUS. A handler puts a page of zeros in its place, so that the thread continues, and records the file;
// check_maps throws afterwards. MappedFile (file.h) registers its maps here.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <type_traits>

namespace stoker {

// Of MappedFiles that exist: how many have such a page. For check_maps.
inline std::atomic<std::int64_t> damaged_maps{0};

// How many there have been in this process.
std::uint64_t map_damages();

// Throws IoError that names the file and the offset of the damage found first, among maps that exist if there are any.
[[noreturn]] void throw_map_damage();

// Throws that error if a MappedFile that exists has such a page. Call it after bytes of maps were used, and before the
// result is used: the bytes read may be zeros. Costs one load.
inline void check_maps() {
    if (damaged_maps.load(std::memory_order_acquire) != 0) {
        throw_map_damage();
    }
}

// Calls `call`, which may open and close maps, and returns its result. Throws that error if a map that exists is
// damaged afterwards, or one that `call` closed; also instead of an error of `call`, which zeros may have caused.
template <typename Call>
auto with_checked_maps(const Call& call) {
    const auto check = [before = map_damages()] {
        if (map_damages() != before) {
            throw_map_damage();
        }
        check_maps();
    };
    try {
        if constexpr (std::is_void_v<decltype(call())>) {
            call();
            check();
        } else {
            auto result = call();
            check();
            return result;
        }
    } catch (...) {
        check();
        throw;
    }
}

// For MappedFile. The first registration installs the handler; faults outside of registered maps, and signals that a
// process sent, are passed on to the handler before it. `bytes` must not be empty.
void register_map(std::span<const std::byte> bytes, const std::filesystem::path& path);
void unregister_map(const std::byte* begin);

}  // namespace stoker
