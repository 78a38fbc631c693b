// How the ranks find each other: the store, the addresses of their hosts, and the connections of Gloo and NCCL.
#pragma once

#include <string>

#include "stoker/dist/group_backend.h"

namespace stoker {

// At the start and in barriers ranks may have different amounts of work.
inline constexpr int kLongTimeoutFactor = 10;

// A connection to the store, which rank 0 `serves` unless torchrun does.
c10::intrusive_ptr<c10d::Store> open_store(const World& world, bool serves);

// Waits for all ranks. Returns the address under which the others reach this host; empty: c10d chooses.
std::string meet(c10d::Store& store, const World& world);

// The ranks find each other's addresses in `store`. Returns when all are connected.
void connect_gloo(Group::Backend& backend, const c10::intrusive_ptr<c10d::Store>& store, int rank, int size,
                  std::chrono::milliseconds timeout);

// From now on tensors on the device go through NCCL, or through Gloo, by way of the host.
void connect_nccl_for(Group::Backend& backend, const NcclRequest& request);
void use_gloo_for(Group::Backend& backend, const at::Device& device);

}  // namespace stoker
