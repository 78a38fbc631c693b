// A host has several addresses, and others may reach only some; c10d alone would take that of the host's name.
#include "stoker/dist/rendezvous.h"

#include <ATen/ops/zeros.h>
#include <c10/util/Exception.h>
#include <fmt/format.h>

#include <cstdlib>
#include <exception>
#include <future>
#include <memory>
#include <thread>
#include <vector>

#include "stoker/dist/local_address.h"

namespace stoker {
namespace {

constexpr const char* kAddress = "address/";  // in the store, + rank

// Ranks start at different times; Gloo's own time-out is meant for steps.
void wait_for_ranks(c10d::Store& store, const World& world) {
    store.set("here/" + std::to_string(world.rank), "1");
    std::vector<std::string> all;
    for (int rank = 0; rank < world.size; ++rank) {
        all.push_back("here/" + std::to_string(rank));
    }
    store.wait(all, kLongTimeoutFactor * world.timeout);
}

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
NcclBackend connect_in_time(const NcclRequest& request) {
    auto promise = std::make_shared<std::promise<NcclBackend>>();
    std::future<NcclBackend> connected = promise->get_future();
    std::thread([promise, request] {
        try {
            promise->set_value(connect_nccl(request));
        } catch (...) {
            promise->set_exception(std::current_exception());
        }
    }).detach();
    if (connected.wait_for(kLongTimeoutFactor * request.timeout) != std::future_status::ready) {
        C10_THROW_ERROR(DistError, "timed out: a rank does not connect its GPU");
    }
    return connected.get();
}

}  // namespace

c10::intrusive_ptr<c10d::Store> open_store(const World& world) {
    c10d::TCPStoreOptions options;
    options.port = static_cast<std::uint16_t>(world.port);
    options.isServer = world.rank == 0 && !world.has_store;
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
    backend.nccl = connect_in_time(request);
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
