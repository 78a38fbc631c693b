// A host has several addresses, and others may reach only some; c10d alone would take that of the host's name.
#include "stoker/dist/rendezvous.h"

#include <ATen/ops/zeros.h>
#include <c10/util/Exception.h>
#include <fmt/format.h>

#include <algorithm>
#include <condition_variable>
#include <cstdlib>
#include <exception>
#include <fmt/ranges.h>
#include <future>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "stoker/dist/heartbeat.h"
#include "stoker/dist/local_address.h"

namespace stoker {
namespace {

constexpr const char* kAddress = "address/";  // in the store, + rank

constexpr auto kNoticeAfter = std::chrono::seconds(10);

void say(const World& world, const std::string& line) {
    if (world.on_wait) {
        world.on_wait(fmt::format("rank {}: {}", world.rank, line));
    }
}

// What to look at, by the launcher.
std::string advice(const World& world) {
    return std::getenv("SLURM_PROCID") == nullptr
               ? fmt::format("are all {} started, with this address?", world.size)
               : fmt::format("does srun start {} tasks (-n), each with this MASTER_ADDR and MASTER_PORT?", world.size);
}

// "1, 4 and 7": the first eight of them.
std::string missing_ranks(c10d::Store& store, const std::vector<std::string>& keys) {
    constexpr std::size_t kShown = 8;
    std::vector<std::size_t> missing;
    for (std::size_t rank = 0; rank < keys.size(); ++rank) {
        if (!store.check({keys[rank]})) {
            missing.push_back(rank);
        }
    }
    const std::size_t more = missing.size() - std::min(missing.size(), kShown);
    missing.resize(missing.size() - more);
    return fmt::format("{}{}", fmt::join(missing, ", "), more == 0 ? "" : fmt::format(" and {} others", more));
}

// Ranks start at different times; Gloo's own time-out is meant for steps.
void wait_for_ranks(c10d::Store& store, const World& world) {
    std::vector<std::string> all;
    for (int rank = 0; rank < world.size; ++rank) {
        all.push_back("here/" + std::to_string(rank));
    }
    store.set(all[static_cast<std::size_t>(world.rank)], "1");
    const std::chrono::milliseconds most = kLongTimeoutFactor * world.timeout;
    try {
        store.wait(all, std::min<std::chrono::milliseconds>(kNoticeAfter, most));
    } catch (const c10::DistStoreError&) {
        if (most <= kNoticeAfter) {
            throw;
        }
        if (world.rank == 0) {
            say(world, fmt::format("waits up to {} s for rank {} at {}:{}; {}", most.count() / 1000,
                                   missing_ranks(store, all), world.address, world.port, advice(world)));
        }
        store.wait(all, most - kNoticeAfter);
    }
}

// Says in time that the store has not been reached.
class StoreNotice {
  public:
    explicit StoreNotice(const World& world)
        : thread_([this, world] {
              std::unique_lock lock(mutex_);
              if (!reached_.wait_for(lock, kNoticeAfter, [&] { return done_; })) {
                  say(world, fmt::format("waits up to {} s for the store at {}:{}; does rank 0 run there, and may "
                                         "this host reach that port? {}",
                                         kLongTimeoutFactor * world.timeout.count() / 1000, world.address, world.port,
                                         advice(world)));
              }
          }) {}
    StoreNotice(const StoreNotice&) = delete;
    StoreNotice& operator=(const StoreNotice&) = delete;
    ~StoreNotice() {
        {
            const std::lock_guard lock(mutex_);
            done_ = true;
        }
        reached_.notify_all();
        thread_.join();
    }

  private:
    std::mutex mutex_;
    std::condition_variable reached_;
    bool done_ = false;
    std::thread thread_;  // last: it uses the others
};

bool is_loopback(const std::string& address) {
    return address.starts_with("127.") || address == "::1";
}

// The address under which the other ranks reach this one: that on the way to rank 0. If that leads to the host itself
// (rank 0, or a name that /etc/hosts gives a loopback address) it is that on the way to a rank on another host.
std::string reachable_address(c10d::Store& store, const World& world, const std::string& towards_first) {
    for (int rank = 0; is_loopback(towards_first) && rank < world.size; ++rank) {
        const std::string other = store.get_to_str(fmt::format("{}{}", kAddress, rank));
        std::string own = other.empty() || is_loopback(other) ? "" : address_towards(other, world.port);
        if (!own.empty()) {
            return own;
        }
    }
    return towards_first;
}

// c10d takes the address of this host's name, which on many hosts is that of the loopback.
c10::intrusive_ptr<c10d::ProcessGroupGloo::Options> gloo_options(const std::string& address,
                                                                 std::chrono::milliseconds timeout) {
    using Gloo = c10d::ProcessGroupGloo;
    if (address.empty() || std::getenv("GLOO_SOCKET_IFNAME") != nullptr) {
        return Gloo::Options::create_default(timeout);
    }
    auto options = Gloo::Options::create(timeout);
    options->devices.push_back(Gloo::createDeviceForHostname(address));
    return options;
}

// NCCL waits forever for a rank that does not come. The thread is then left behind.
NcclBackend connect_in_time(const NcclRequest& request, Heartbeat* heartbeat) {
    auto promise = std::make_shared<std::promise<NcclBackend>>();
    std::future<NcclBackend> connected = promise->get_future();
    std::thread([promise, request] {
        try {
            promise->set_value(connect_nccl(request));
        } catch (...) {
            promise->set_exception(std::current_exception());
        }
    }).detach();
    const auto until = std::chrono::steady_clock::now() + kLongTimeoutFactor * request.timeout;
    while (connected.wait_for(std::chrono::seconds(1)) != std::future_status::ready) {
        if (const std::string silent = heartbeat == nullptr ? "" : heartbeat->silent(); !silent.empty()) {
            C10_THROW_ERROR(DistError, fmt::format("timed out: {} gives no sign of life", silent));
        }
        if (std::chrono::steady_clock::now() > until) {
            C10_THROW_ERROR(DistError, "timed out: a rank does not connect its GPU");
        }
    }
    return connected.get();
}

}  // namespace

c10::intrusive_ptr<c10d::Store> open_store(const World& world, bool serves) {
    if (!is_known_host(world.address)) {
        say(world, fmt::format("MASTER_ADDR={} is not known to the name service of this host; trying for {} s",
                               world.address, kLongTimeoutFactor * world.timeout.count() / 1000));
    }
    const StoreNotice notice(world);
    c10d::TCPStoreOptions options;
    options.port = static_cast<std::uint16_t>(world.port);
    options.isServer = serves && world.rank == 0 && !world.has_store;
    options.numWorkers = static_cast<std::size_t>(world.size);
    options.waitWorkers = false;
    options.timeout = kLongTimeoutFactor * world.timeout;
    // A store that rank 0 keeps is new in each attempt, and hosts may count attempts differently.
    return c10::make_intrusive<c10d::PrefixStore>("stoker/" + (world.has_store ? world.attempt : std::string()),
                                                  c10::make_intrusive<c10d::TCPStore>(world.address, options));
}

std::string meet(c10d::Store& store, const World& world) {
    const std::string address = address_towards(world.address, world.port);
    store.set(fmt::format("{}{}", kAddress, world.rank), address);
    wait_for_ranks(store, world);
    return reachable_address(store, world, address);
}

void connect_gloo(Group::Backend& backend, const c10::intrusive_ptr<c10d::Store>& store, int rank, int size,
                  std::chrono::milliseconds timeout) {
    backend.gloo =
        c10::make_intrusive<c10d::ProcessGroupGloo>(store, rank, size, gloo_options(backend.address, timeout));
    backend.group = c10::make_intrusive<c10d::ProcessGroup>(store, rank, size);
    backend.group->setBackend(at::kCPU, c10d::ProcessGroup::GLOO, backend.gloo);
    backend.group->setDefaultBackend(c10d::ProcessGroup::GLOO);
    // A rank that left now would break what the others are still connecting.
    std::vector<at::Tensor> nothing = {at::zeros({1})};
    backend.gloo->allreduce(nothing)->wait();
}

void connect_nccl_for(Group::Backend& backend, const NcclRequest& request) {
    backend.nccl = connect_in_time(request, backend.heartbeat.get());
    NcclRequest down = request;
    down.store = c10::make_intrusive<c10d::PrefixStore>("down", request.store);
    down.whole = false;  // few groups send messages
    backend.nccl_down = connect_nccl(down);
    backend.device = request.device;
    backend.group->setBackend(request.device.type(), c10d::ProcessGroup::NCCL, backend.nccl);
}

void use_gloo_for(Group::Backend& backend, const at::Device& device) {
    backend.device = device;
    if (!device.is_cpu()) {
        backend.group->setBackend(device.type(), c10d::ProcessGroup::GLOO, backend.gloo);
    }
}

}  // namespace stoker
