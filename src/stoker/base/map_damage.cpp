// The handler walks a list of slots, each with the addresses of one map. It uses nothing but atomics and mmap, which is
// a plain system call. Slots are reused and never freed, so the walk needs no lock: the slot of the map under the fault
// cannot change, because a thread is using that map.
#include "stoker/base/map_damage.h"

#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <deque>
#include <fmt/format.h>
#include <map>
#include <mutex>
#include <string>
#include <system_error>
#include <vector>

#include "stoker/base/error.h"

namespace stoker {
namespace {

constexpr std::int64_t kSound = -1;

struct Slot {
    std::atomic<std::uintptr_t> begin{0};  // 0: free
    std::atomic<std::size_t> size{0};
    std::atomic<std::int64_t> damage{kSound};  // offset of the first byte that could not be read
    Slot* next = nullptr;                      // set before the slot is in the list
    std::filesystem::path path;                // guarded by the registry's mutex, as is everything that is not atomic
};
static_assert(std::atomic<std::uintptr_t>::is_always_lock_free && std::atomic<Slot*>::is_always_lock_free &&
                  std::atomic<std::int64_t>::is_always_lock_free,
              "used in a signal handler");

struct Damage {
    std::filesystem::path path;
    std::size_t size = 0;  // of the map
    std::int64_t offset = 0;
};

struct Registry {
    std::mutex mutex;
    std::deque<Slot> slots;
    std::vector<Slot*> free;
    std::map<const std::byte*, Slot*> used;
    Damage closed;  // the last damage of a map that no longer exists
    bool installed = false;
};

// Never destroyed: static objects may hold maps.
Registry& registry() {
    static Registry& only = *new Registry;
    return only;
}

// Read by the handler.
std::atomic<Slot*> first_slot{nullptr};
std::atomic<std::uint64_t> all_damages{0};
std::atomic<std::uintptr_t> page_size{0};
struct sigaction handler_before = {};  // set before the handler is installed

Slot* slot_of(std::uintptr_t address) {
    for (Slot* slot = first_slot; slot != nullptr; slot = slot->next) {
        const std::uintptr_t begin = slot->begin;
        const std::size_t size = slot->size;
        const bool unchanged = slot->begin == begin;  // else another thread reuses it for another map
        if (begin != 0 && unchanged && address >= begin && address - begin < size) {
            return slot;
        }
    }
    return nullptr;
}

// Records the damage first, so that a thread that reads the zeros finds the record.
bool replace_page(std::uintptr_t address) {
    Slot* slot = slot_of(address);
    if (slot == nullptr) {
        return false;
    }
    std::int64_t sound = kSound;
    if (slot->damage.compare_exchange_strong(sound, static_cast<std::int64_t>(address - slot->begin))) {
        ++damaged_maps;
        ++all_damages;
    }
    const std::uintptr_t page = address / page_size * page_size;
    // The system call itself: TSan takes mmap for a write to the page, which other threads may be reading.
    return ::syscall(SYS_mmap, page, page_size.load(), PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) != -1;
}

void pass_on(int signal, siginfo_t* info, void* context) {
    const bool has_info = (handler_before.sa_flags & SA_SIGINFO) != 0;
    if (has_info && handler_before.sa_sigaction != nullptr) {
        handler_before.sa_sigaction(signal, info, context);
    } else if (!has_info && handler_before.sa_handler != SIG_DFL && handler_before.sa_handler != SIG_IGN) {
        handler_before.sa_handler(signal);
    } else if (info->si_code > 0) {
        std::signal(signal, SIG_DFL);  // the access is repeated, and ends the process
    } else if (handler_before.sa_handler == SIG_DFL) {
        std::signal(signal, SIG_DFL);
        ::raise(signal);
    }
}

// si_code above 0: the system sent the signal, not a process.
void on_bus_error(int signal, siginfo_t* info, void* context) {
    const int saved = errno;
    if (info->si_code <= 0 || !replace_page(reinterpret_cast<std::uintptr_t>(info->si_addr))) {
        pass_on(signal, info, context);
    }
    errno = saved;
}

void install_handler() {
    page_size = static_cast<std::uintptr_t>(::sysconf(_SC_PAGESIZE));
    struct sigaction action = {};
    action.sa_sigaction = on_bus_error;
    action.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_RESTART;
    sigemptyset(&action.sa_mask);
    if (::sigaction(SIGBUS, nullptr, &handler_before) != 0 || ::sigaction(SIGBUS, &action, nullptr) != 0) {
        throw errno_error("signal", "a handler for SIGBUS");
    }
}

// The damage found first of the maps that exist, otherwise of the map closed last.
Damage find_damage() {
    Registry& maps = registry();
    const std::lock_guard lock(maps.mutex);
    for (const auto& [begin, slot] : maps.used) {
        if (const std::int64_t offset = slot->damage; offset != kSound) {
            return {slot->path, slot->size, offset};
        }
    }
    return maps.closed;
}

}  // namespace

std::uint64_t map_damages() {
    return all_damages;
}

void throw_map_damage() {
    const Damage found = find_damage();
    std::error_code unknown;
    const std::uintmax_t size = std::filesystem::file_size(found.path, unknown);
    const bool cut = !unknown && size < found.size;
    throw IoError(
        {.where = found.path.string(),
         .expected = fmt::format("the {} bytes that the file had when it was opened", found.size),
         .got = cut ? fmt::format("{} bytes when byte {} was read", size, found.offset)
                    : fmt::format("a page that cannot be read at byte {}", found.offset),
         .hint = cut ? "another process has cut it short" : "another process has cut it short, or the disk fails"});
}

void register_map(std::span<const std::byte> bytes, const std::filesystem::path& path) {
    Registry& maps = registry();
    const std::lock_guard lock(maps.mutex);
    if (!maps.installed) {
        install_handler();
        maps.installed = true;
    }
    if (maps.free.empty()) {
        Slot& slot = maps.slots.emplace_back();
        slot.next = first_slot;
        first_slot = &slot;
        maps.free.reserve(maps.slots.size());  // unregister_map must not throw
        maps.free.push_back(&slot);
    }
    Slot& slot = *maps.free.back();
    slot.path = path;
    maps.used.emplace(bytes.data(), &slot);
    maps.free.pop_back();
    slot.damage = kSound;
    slot.size = bytes.size();
    slot.begin = reinterpret_cast<std::uintptr_t>(bytes.data());  // last: from here on the handler finds the map
}

void unregister_map(const std::byte* begin) {
    Registry& maps = registry();
    const std::lock_guard lock(maps.mutex);
    const auto found = maps.used.find(begin);
    if (found == maps.used.end()) {
        return;
    }
    Slot& slot = *found->second;
    slot.begin = 0;
    if (slot.damage != kSound) {
        maps.closed = {std::move(slot.path), slot.size, slot.damage};
        --damaged_maps;
    }
    maps.used.erase(found);
    maps.free.push_back(&slot);
}

}  // namespace stoker
